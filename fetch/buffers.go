package fetch

import (
	"math/bits"
	"sync"
)

const (
	// firstBufferBytes is the smallest first buffer for a reply. One read of this size fetches most gzipped
	// pages. firstTLSBytes is the first buffer with TLS, whose connection has buffers of its own.
	firstBufferBytes = 16 << 10
	firstTLSBytes    = 4 << 10
	// keepBufferBytes is the largest buffer that a Response keeps over Reset. Larger ones return to the pool.
	keepBufferBytes = 16 << 10
	// keepFields is how many fields of a head a Response keeps room for over Reset: 16 KiB.
	keepFields = keepBufferBytes / 12
	minClass   = 12 // 4 KiB
	maxClass   = 24 // 16 MiB
	// poolBytes bounds the memory that the pool keeps.
	poolBytes = 32 << 20
	// poolTries is the number of buffers of a class that take examines. Nearly all have a size that is a
	// power of two or equal to a limit.
	poolTries = 8
	// poolSlack: take may return a buffer larger than requested by up to 1/poolSlack.
	poolSlack = 16
)

// bufferPool lends byte buffers in size classes of powers of two. It keeps a bounded number of bytes and
// leaves the rest to the garbage collector.
type bufferPool struct {
	mu   sync.Mutex // guards the fields below; never held while blocking
	free [maxClass + 1][][]byte
	kept int
	most int // limit of kept in bytes; 0: poolBytes
}

// take returns an empty buffer with capacity n or slightly more, or nil if the pool has none.
func (p *bufferPool) take(n int) []byte {
	class := bits.Len(uint(n)) - 1
	if class < minClass || class > maxClass {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.free[class]
	for i := len(l) - 1; i >= max(0, len(l)-poolTries); i-- {
		if b := l[i]; cap(b) >= n && cap(b) <= n+n/poolSlack {
			l[i] = l[len(l)-1]
			l[len(l)-1] = nil
			p.free[class] = l[:len(l)-1]
			p.kept -= cap(b)
			return b
		}
	}
	return nil
}

// put returns b to the pool. The caller must not use b afterwards.
func (p *bufferPool) put(b []byte) {
	if cap(b) < 1<<minClass {
		return
	}
	class := bits.Len(uint(cap(b))) - 1
	if class > maxClass {
		return
	}
	p.mu.Lock()
	if p.kept+cap(b) <= orInt(p.most, poolBytes) {
		p.kept += cap(b)
		p.free[class] = append(p.free[class], b[:0])
	}
	p.mu.Unlock()
}

// responseBuffers are the buffers that a Response owns. Slices of the Response point into them.
type responseBuffers struct {
	pool                    *bufferPool // of the client that last filled the Response; nil: none yet
	lease                   lease       // accounts for raw, payload and body
	req, raw, payload, body []byte
	head                    header
	x                       *exchange // reused by each Do
}

// release keeps small buffers and returns large ones to the pool.
func (b *responseBuffers) release() {
	for _, p := range []*[]byte{&b.raw, &b.payload, &b.body} {
		if cap(*p) > keepBufferBytes {
			b.put(*p)
			*p = nil
		}
		*p = (*p)[:0]
	}
	if b.req = b.req[:0]; cap(b.req) > keepBufferBytes {
		b.req = nil
	}
	if b.head.fields = b.head.fields[:0]; cap(b.head.fields) > keepFields {
		b.head.fields = nil
	}
	if cap(b.head.text) > keepBufferBytes {
		b.head.text = nil
	}
}

// Reset empties r and releases its spool. It keeps buffers of up to 16 KiB and returns larger ones to the
// client's pool and budget, so an idle Response holds little memory. Slices taken from r become invalid. If
// Options.BufferBytes is set, call Reset on each Response that is not used again.
func (r *Response) Reset() {
	r.dropSpool()
	if r.Undecoded() {
		*r.buf.x = exchange{}
	}
	r.buf.release()
	*r = Response{buf: r.buf}
}
