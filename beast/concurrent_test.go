package beast_test

import (
	"encoding/binary"
	"sync"
	"testing"

	"drumbeat/beast"
)

// Rounds, the reader and scans run concurrently. Every record must come out once.
func TestConcurrent(t *testing.T) {
	const writers, rounds, batch = 4, 50, 20
	r := newRig(t, 1, 2)
	b := r.b
	var ledgers struct {
		sync.Mutex
		of [8]beast.Ledger
	}
	round := func(recs []uint32) error {
		defer b.Pin()()
		numbers := make([]beast.Number, len(recs))
		ledgers.Lock()
		for i, rec := range recs {
			numbers[i] = b.Place(&ledgers.of[rec%8], 1+rec%5)
		}
		ledgers.Unlock()
		for i, rec := range recs {
			if err := b.Append(numbers[i], binary.LittleEndian.AppendUint32(nil, rec)); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for w := range uint32(writers) {
		wg.Go(func() {
			for i := range uint32(rounds) {
				var recs []uint32
				for j := range uint32(batch) {
					recs = append(recs, (w*rounds+i)*batch+j)
				}
				if err := round(recs); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	wg.Go(func() { scanAlways(t, b, round, done) })
	seen := map[uint32]bool{}
	for len(seen) < writers*rounds*batch {
		rec, ok, err := b.Peek()
		if err != nil {
			t.Error(err)
			break
		}
		if !ok {
			continue
		}
		n := binary.LittleEndian.Uint32(rec)
		if seen[n] {
			t.Errorf("record %d came twice", n)
		}
		seen[n] = true
		b.Advance()
	}
	close(done)
	wg.Wait()
}

// scanAlways starts a scan whenever none is running, and places the records again.
func scanAlways(t *testing.T, b *beast.Beast, round func([]uint32) error, done chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		if err := b.StartScan(); err != nil {
			t.Error(err)
			return
		}
		for {
			rec, ok, err := b.ScanPeek()
			if err != nil {
				t.Error(err)
				return
			}
			if !ok {
				break
			}
			n := binary.LittleEndian.Uint32(rec)
			b.ScanAdvance()
			if err := round([]uint32{n}); err != nil {
				t.Error(err)
				return
			}
		}
		if err := b.EndScan(); err != nil {
			t.Error(err)
			return
		}
	}
}
