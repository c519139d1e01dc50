package drum

import (
	"sync"

	"drumbeat/disk"
	"drumbeat/internal/bug"
)

// textReader reads the blocks of a sealed log from its cursor on. With several workers it reads and decodes ahead:
// one goroutine reads, Workers decode, and next gives the blocks in the order of the log.
type textReader struct {
	d *Drum
	r blockReader

	blocks []*textBlock
	ready  chan *textBlock // read, in order; perhaps not decoded yet
	free   chan *textBlock
	coded  chan *textBlock
	stop   chan struct{}
	wg     sync.WaitGroup
	taken  *textBlock
}

// textBlock is a block of a log with memory of its own.
type textBlock struct {
	off     int64
	payload []byte
	records uint32
	base    uint64
	end     cursor // behind all records
	err     error

	raw     int    // bytes decoded; 0: not compressed
	packed  []byte // memory for what was read
	decoded []byte // and for what it is decoded into
	done    chan struct{}
}

// decodeBlocks is how many blocks there are at once.
func (o *Options) decodeBlocks() int64 {
	if o.Workers == 1 {
		return 1
	}
	return int64(o.Workers) + 2 // one is being read, one taken
}

func (t *textReader) open(d *Drum, log *textLog, chunk *[]byte) error {
	t.d = d
	if err := t.r.open(d, &log.s, log.at, chunk); err != nil {
		return err
	}
	n := int(d.opt.decodeBlocks())
	for range n {
		t.blocks = append(t.blocks, &textBlock{done: make(chan struct{}, 1)})
	}
	if n > 1 {
		t.startAhead(n)
	}
	return nil
}

// startAhead starts the goroutines, which close ends.
func (t *textReader) startAhead(n int) {
	t.ready, t.free, t.coded = make(chan *textBlock, n), make(chan *textBlock, n), make(chan *textBlock, n)
	t.stop = make(chan struct{})
	for _, b := range t.blocks {
		t.free <- b
	}
	t.wg.Go(t.readAhead)
	for range t.d.opt.Workers {
		t.wg.Go(func() {
			defer bug.Fatal()
			for b := range t.coded {
				t.decode(b)
				b.done <- struct{}{}
			}
		})
	}
}

// readAhead reads blocks until the end, an error, or close.
func (t *textReader) readAhead() {
	defer bug.Fatal()
	defer close(t.coded)
	defer close(t.ready)
	for {
		select {
		case <-t.stop:
			return
		case b := <-t.free:
			ok := t.fetch(b, true)
			if !ok && b.err == nil {
				return
			}
			failed := b.err != nil // before somebody else has it
			t.ready <- b           // never blocks: there are as many places as blocks
			t.coded <- b
			if failed {
				return
			}
		}
	}
}

// fetch reads the next block into b, false at the end or after an error. The reader's own memory is overwritten with the next
// one: own says whether b must keep a copy.
func (t *textReader) fetch(b *textBlock, own bool) bool {
	raw, ok, err := t.r.fetch()
	b.err, b.raw = err, raw
	if !ok || err != nil {
		return false
	}
	b.off, b.payload, b.records, b.base, b.end = t.r.off, t.r.payload, t.r.records, t.r.base, t.r.at(t.r.records)
	if own && !t.r.done {
		if len(b.packed) < len(b.payload) {
			disk.Free(b.packed)
			b.packed = disk.Alloc(pageUp(len(b.payload)))
		}
		b.payload = b.packed[:copy(b.packed, b.payload)]
	}
	return true
}

// decode makes the payload plain.
func (t *textReader) decode(b *textBlock) {
	if b.err != nil || b.raw == 0 {
		return
	}
	if b.decoded, b.payload, b.err = unpack(b.decoded, b.payload, b.raw); b.err != nil {
		b.err = corrupt(t.r.path(), b.off+bucketHeaderBytes, "s2 block", b.err.Error())
	}
}

// next returns the next block, valid until the call after; nil at the end.
func (t *textReader) next() (*textBlock, error) {
	if t.ready == nil {
		b := t.blocks[0]
		if !t.fetch(b, false) {
			return nil, b.err
		}
		t.decode(b)
		return b, b.err
	}
	if t.taken != nil {
		t.free <- t.taken // never blocks either
		t.taken = nil
	}
	b, ok := <-t.ready
	if !ok {
		return nil, nil
	}
	<-b.done
	t.taken = b
	return b, b.err
}

// close ends the goroutines and frees the memory.
func (t *textReader) close() {
	if t.stop != nil {
		close(t.stop)
		t.wg.Wait()
	}
	t.r.close()
	for _, b := range t.blocks {
		disk.Free(b.packed)
		disk.Free(b.decoded)
	}
}
