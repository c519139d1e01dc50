package beast_test

import (
	"fmt"
	"testing"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// A reader without other work must find nothing of a round before its emission, and must not pass any of
// its queues.
func TestReaderNeverOvertakesEmission(t *testing.T) {
	r := newRig(t, 1, 1)
	must(t, r.b.Append(2, []byte("two")))
	for round := range 50 {
		release := r.b.Pin()
		var l beast.Ledger
		n := r.b.Place(&l, 1)
		s := r.b.Current()
		if n != s+1 {
			t.Fatalf("round %d: placed into %d, want %d", round, n, s+1)
		}
		for range 3 {
			rec, ok, err := r.b.Peek()
			must(t, err)
			if ok {
				t.Fatalf("round %d: read %q of queue %d during the round", round, rec, r.b.Current())
			}
		}
		want := beast.Empty
		if round == 0 {
			want = beast.Pinned
		}
		if got := r.b.Waiting(); got != want {
			t.Errorf("round %d: Waiting: got %d, want %d", round, got, want)
		}
		must(t, r.b.Append(n, fmt.Appendf(nil, "round %d", round)))
		if _, ok, err := r.b.Peek(); ok || err != nil {
			t.Fatalf("round %d: read during the emission", round)
		}
		release()
		for {
			rec, ok, err := r.b.Peek()
			must(t, err)
			if !ok {
				break
			}
			if string(rec) != fmt.Sprintf("round %d", round) && (round != 0 || string(rec) != "two") {
				t.Fatalf("round %d: read %q", round, rec)
			}
			r.b.Advance()
		}
	}
}

// Pins nest: the lowest number of all running rounds holds.
func TestPinsNest(t *testing.T) {
	r := newRig(t, 1, 1)
	must(t, r.b.Append(1, []byte("one")))
	outer := r.b.Pin()
	inner := r.b.Pin()
	r.b.Place(&beast.Ledger{}, 1)
	inner()
	inner() // a second call does no harm
	if _, ok, _ := r.b.Peek(); ok {
		t.Fatal("read queue 1 while a round that placed into it was on")
	}
	outer()
	if _, ok, _ := r.b.Peek(); !ok {
		t.Fatal("got nothing, want queue 1")
	}
}

// With one PLD far over its budget, scans are due when s has moved 1, 2, 4, … queues; the doubling stops at
// the limit.
func TestScansAtDoublingDistances(t *testing.T) {
	for _, limit := range []int{4, 1024} {
		r := newRig(t, 1, 1)
		must(t, r.b.Close())
		r.opt.QueuesMax = limit
		r.open()
		r.budgets = []int{2}
		for i := range 1000 {
			must(t, r.place([]int{0}, []string{record(i, 0, 8)}))
		}
		var distances []beast.Number
		last := beast.Number(0)
		for r.m.records() > 0 {
			must(t, r.read(1))
			if !r.b.ScanDue() {
				continue
			}
			distances = append(distances, r.b.Current()-last)
			last = r.b.Current()
			for more := true; more; more = r.m.scanning {
				must(t, r.scan(100))
			}
		}
		for i, d := range distances {
			if want := min(beast.Number(1)<<min(i, 20), beast.Number(limit)); d != want {
				t.Errorf("limit %d: distance of scan %d: got %d queues, want %d", limit, i+1, d, want)
			}
		}
		if len(distances) < 8 {
			t.Errorf("limit %d: got %d scans, want several", limit, len(distances))
		}
	}
}

// A reader without records may scan before a scan is due. h stays, since all its queues are free.
func TestEarlyScanKeepsHorizon(t *testing.T) {
	r := newRig(t, 1, 1)
	must(t, r.b.Append(beast.OverBudget, []byte("zero budget")))
	for range 5 {
		must(t, r.b.StartScan())
		rec, ok, err := r.b.ScanPeek()
		must(t, err)
		if !ok {
			t.Fatal("scan: got nothing")
		}
		must(t, r.b.Append(beast.OverBudget, rec))
		r.b.ScanAdvance()
		must(t, r.b.EndScan())
	}
	st := r.b.Stats()
	if st.Horizon != 1 || st.Scans != 5 || st.OverBudgetRecords != 1 || st.PlacedSinceScan != 0 {
		t.Errorf("got %+v, want h 1 after 5 scans, one record", st)
	}
}

// After the next checkpoint, queues that have been read must be gone from the disk.
func TestFilesGo(t *testing.T) {
	r := newRig(t, 1, 2)
	must(t, r.b.Close())
	r.opt.BlockBytes, r.opt.SegmentBytes = 4096, 16<<10
	r.open()
	r.budgets = []int{100, 100}
	for i := range 4000 {
		must(t, r.place([]int{i % 2}, []string{record(i, i%2, 100)}))
	}
	must(t, r.checkpoint())
	r.drain()
	r.rng = newRig(t, 1, 1).rng
	must(t, r.checkpoint())
	must(t, r.checkpoint())
	for _, d := range r.opt.Set.Paths {
		names, err := r.mem.List(d + "/state/beast")
		must(t, err)
		for _, name := range names {
			files, err := r.mem.List(d + "/state/beast/" + name)
			must(t, err)
			if name != fmt.Sprintf("q%d", r.b.Current()) || len(files) != 0 {
				t.Errorf("left in %s: %s %v", d, name, files)
			}
		}
	}
}

func TestLedgerCoding(t *testing.T) {
	ledger := func(next beast.Number, used uint32, epoch uint16, partNext beast.Number, partUsed uint32) beast.Ledger {
		return beast.Ledger{Fill: beast.Fill{Next: next, Used: used},
			Part: beast.Fill{Next: partNext, Used: partUsed}, Epoch: epoch}
	}
	const last = 1<<40 - 1
	for _, test := range []struct {
		ledger beast.Ledger
		want   string
		back   beast.Ledger // what decoding returns
	}{
		{ledger(0x0102030405, 0x090a0b0c, 0x0f10, 0x0102030405, 0), "05040302010000000c0b0a09100f0000", beast.Ledger{}},
		{ledger(5, 2, 1, 5, 0), "05000000000000000200000001000000", beast.Ledger{}}, // as before there were parts
		{ledger(5, 2, 1, 7, 3), "05000000000200000200000001000300", beast.Ledger{}},
		{ledger(7, 2, 1, 5, 1<<16-1), "0700000000feffff020000000100ffff", beast.Ledger{}},
		{ledger(last, 2, 1, last-9, 1), "fffffffffff7ffff0200000001000100", beast.Ledger{}},
		{ledger(1, 2, 1, 1<<23, 1), "0100000000ffff7f0200000001000100", beast.Ledger{}},
		// Fills too far apart to be coded: the one far back stays far back.
		{ledger(1, 2, 1, 1<<24, 1), "0100800000ffff7f0200000001000100", ledger(1<<23+1, 2, 1, 1<<24, 1)},
		{ledger(1<<24, 2, 1, 9, 1), "00000001000100800200000001000100", ledger(1<<24, 2, 1, 1<<23+1, 1)},
	} {
		var b [beast.LedgerBytes]byte
		test.ledger.Encode(&b)
		if got := fmt.Sprintf("%x", b); got != test.want {
			t.Errorf("coding of %+v: got %s, want %s", test.ledger, got, test.want)
		}
		want := test.back
		if want == (beast.Ledger{}) {
			want = test.ledger
		}
		if got := beast.DecodeLedger(&b); got != want {
			t.Errorf("decoded: got %+v, want %+v", got, want)
		}
	}
	if got := beast.DecodeLedger(new([16]byte)); got != (beast.Ledger{}) {
		t.Errorf("zero bytes: got %+v, want the zero ledger", got)
	}
}

func TestOptions(t *testing.T) {
	if _, err := beast.Open(beast.Options{}, nil); err == nil {
		t.Error("no directories: got nil, want an error")
	}
	set := disk.Set{FS: memfs.New(1), Paths: []string{"/d"}}
	if _, err := beast.Open(beast.Options{Set: set, QueuesMax: 3}, nil); err == nil {
		t.Error("3 queues: got nil, want an error")
	}
	if _, err := beast.Open(beast.Options{Set: set}, &beast.State{V: 99}); err == nil {
		t.Error("unknown version: got nil, want an error")
	}
}
