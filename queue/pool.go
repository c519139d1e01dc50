package queue

import "sync"

// Pool holds scratch buffers for coding and decoding blocks. Queues that share one (see Options) need
// together as many as are at work at the same time, not one each. The zero Pool is ready; safe for concurrent
// use.
type Pool struct {
	p sync.Pool
}

// get returns an empty buffer of some capacity.
func (p *Pool) get() *[]byte {
	if b, ok := p.p.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// put takes a buffer back.
func (p *Pool) put(b *[]byte) {
	*b = (*b)[:0]
	p.p.Put(b)
}
