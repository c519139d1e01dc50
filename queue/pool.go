package queue

import "sync"

// Pool holds buffers that queues need for moments: scratch for coding and decoding blocks, and tails that
// take the place of those being written. Queues that share one (see Options) need together as many as are at
// work at the same time, not one each: some three times BlockBytes each. The zero Pool is ready; safe for concurrent use.
type Pool struct {
	scratch, tails, coders sync.Pool
}

// get returns an empty buffer of some capacity.
func (p *Pool) get() *[]byte {
	if b, ok := p.scratch.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// put takes a buffer back.
func (p *Pool) put(b *[]byte) {
	*b = (*b)[:0]
	p.scratch.Put(b)
}

// getTail returns an empty buffer, nil if there is none.
func (p *Pool) getTail() []byte {
	if b, ok := p.tails.Get().(*[]byte); ok {
		return *b
	}
	return nil
}

// putTail takes a written tail.
func (p *Pool) putTail(b []byte) {
	b = b[:0]
	p.tails.Put(&b)
}

// getCoder returns a coder.
func (p *Pool) getCoder() *coder {
	if c, ok := p.coders.Get().(*coder); ok {
		return c
	}
	return new(coder)
}

// putCoder takes a coder back.
func (p *Pool) putCoder(c *coder) { p.coders.Put(c) }
