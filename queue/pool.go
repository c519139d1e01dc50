package queue

import "sync"

// Pool holds buffers that queues need for short times: scratch space for encoding and decoding blocks, and
// tails that replace those being written. Queues that share a Pool (see Options) need about three times
// BlockBytes for each queue at work at the same time, not for each queue. The zero Pool is ready to use. It
// is safe for concurrent use.
type Pool struct {
	scratch, tails, coders sync.Pool
}

// get returns an empty buffer of any capacity.
func (p *Pool) get() *[]byte {
	if b, ok := p.scratch.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// put returns a buffer to the pool.
func (p *Pool) put(b *[]byte) {
	*b = (*b)[:0]
	p.scratch.Put(b)
}

// getTail returns an empty buffer, or nil if the pool has none.
func (p *Pool) getTail() []byte {
	if b, ok := p.tails.Get().(*[]byte); ok {
		return *b
	}
	return nil
}

// putTail returns the buffer of a written tail to the pool.
func (p *Pool) putTail(b []byte) {
	b = b[:0]
	p.tails.Put(&b)
}

func (p *Pool) getCoder() *coder {
	if c, ok := p.coders.Get().(*coder); ok {
		return c
	}
	return new(coder)
}

func (p *Pool) putCoder(c *coder) { p.coders.Put(c) }
