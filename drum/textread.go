package drum

import (
	"sync"

	"drumbeat/disk"
	"drumbeat/internal/bug"
)

// textReader reads the blocks of a sealed log from its cursor on. With several workers it reads ahead: one
// goroutine reads, and the readers of all logs share Workers goroutines or more to decode. next returns the
// blocks in order.
type textReader struct {
	d *Drum
	r blockReader

	blocks []*textBlock
	ready  chan *textBlock // read, in order; may still be decoding
	free   chan *textBlock
	coded  chan *textBlock
	stop   chan struct{}
	wg     sync.WaitGroup
	taken  *textBlock
}

// textBlock is a block of a log with its own memory.
type textBlock struct {
	off     int64
	payload []byte
	records uint32
	base    uint64
	end     cursor // after all records
	err     error

	raw     int    // decoded length; 0 = not compressed
	packed  []byte // memory for the block as read
	decoded []byte // memory for the decoded block
	done    chan struct{}
}

// decodeBlocks returns the number of blocks of a log in memory at once.
func (o *Options) decodeBlocks() int {
	if o.Workers == 1 {
		return 1
	}
	return o.decoders() + 2 // one more being read and one in use
}

// decoders returns the number of goroutines that decode the blocks of a log.
func (o *Options) decoders() int {
	logs := max(1, o.Set.Len())
	return (o.Workers + logs - 1) / logs
}

func (t *textReader) open(d *Drum, log *textLog, chunk *[]byte) error {
	t.d = d
	if err := t.r.open(d, &log.s, log.at, chunk); err != nil {
		return err
	}
	n := d.opt.decodeBlocks()
	if log.at.off >= log.s.written {
		n = 1 // nothing but the block in RAM
	}
	for range n {
		t.blocks = append(t.blocks, &textBlock{done: make(chan struct{}, 1)})
	}
	if n > 1 {
		t.startAhead(n)
	}
	return nil
}

// startAhead starts the goroutines. close stops them.
func (t *textReader) startAhead(n int) {
	t.ready, t.free, t.coded = make(chan *textBlock, n), make(chan *textBlock, n), make(chan *textBlock, n)
	t.stop = make(chan struct{})
	for _, b := range t.blocks {
		t.free <- b
	}
	t.wg.Go(t.readAhead)
	for range t.d.opt.decoders() {
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
			failed := b.err != nil // read it before another goroutine gets b
			t.ready <- b           // never blocks: its capacity is the number of blocks
			t.coded <- b
			if failed {
				return
			}
		}
	}
}

// fetch reads the next block into b. It returns false at the end or after an error. The next read
// overwrites the reader's memory, so with own set b gets a copy.
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

// decode decompresses the payload.
func (t *textReader) decode(b *textBlock) {
	if b.err != nil || b.raw == 0 {
		return
	}
	if b.decoded, b.payload, b.err = unpack(b.decoded, b.payload, b.raw); b.err != nil {
		b.err = corrupt(t.r.path(), b.off+bucketHeaderBytes, "s2 block", b.err.Error())
	}
}

// ahead reports whether next will hardly wait.
func (t *textReader) ahead() bool { return t.ready == nil || len(t.ready) > 0 }

// next returns the next block, valid until the following call, or nil at the end.
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

// close stops the goroutines and frees the memory.
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
