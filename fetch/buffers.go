package fetch

import (
	"math/bits"
	"sync"

	"github.com/valyala/fasthttp"
)

const (
	// firstBufferBytes is what an exchange holds while it waits for the first byte.
	firstBufferBytes = 4 << 10
	// keepBufferBytes is what a Response keeps per buffer over Reset; larger ones go to the pool.
	keepBufferBytes = 16 << 10
	minClass        = 12 // 4 KiB
	maxClass        = 24 // 16 MiB
	// poolBytes bounds what the pool keeps.
	poolBytes = 32 << 20
)

// bufferPool lends byte buffers by powers of two. What it keeps is bounded by poolBytes; the rest is the
// garbage collector's.
type bufferPool struct {
	mu   sync.Mutex // guards what follows; nothing waits under it
	free [maxClass + 1][][]byte
	kept int
}

// get returns an empty buffer of capacity n or more.
func (p *bufferPool) get(n int) []byte {
	class := max(bits.Len(uint(n-1)), minClass)
	if class > maxClass {
		return make([]byte, 0, n)
	}
	p.mu.Lock()
	if l := len(p.free[class]); l > 0 {
		b := p.free[class][l-1]
		p.free[class][l-1] = nil
		p.free[class] = p.free[class][:l-1]
		p.kept -= cap(b)
		p.mu.Unlock()
		return b
	}
	p.mu.Unlock()
	return make([]byte, 0, n)
}

// put gives b back. The caller keeps no slice of it.
func (p *bufferPool) put(b []byte) {
	if cap(b) < 1<<minClass {
		return
	}
	class := bits.Len(uint(cap(b))) - 1
	if class > maxClass {
		return
	}
	p.mu.Lock()
	if p.kept+cap(b) <= poolBytes {
		p.kept += cap(b)
		p.free[class] = append(p.free[class], b[:0])
	}
	p.mu.Unlock()
}

// grow returns b with room for more bytes, and no more than limit of capacity in all: four times larger
// up to 64 KiB, then twice. len(b) < limit.
func (p *bufferPool) grow(b []byte, limit int) []byte {
	if len(b) < cap(b) {
		return b
	}
	n := max(firstBufferBytes, 2*cap(b))
	if cap(b) <= keepBufferBytes && cap(b) > 0 {
		n = 4 * cap(b)
	}
	nb := append(p.get(max(min(n, limit), len(b)+1)), b...)
	p.put(b)
	return nb
}

// responseBuffers is what a Response owns. Slices of the Response point into it.
type responseBuffers struct {
	pool                    *bufferPool // of the client that filled it; nil: none yet
	req, raw, payload, body []byte
	head                    *fasthttp.ResponseHeader
	headBytes               int // size of the head that head was read from
}

// release keeps small buffers and gives large ones back.
func (b *responseBuffers) release() {
	for _, p := range []*[]byte{&b.req, &b.raw, &b.payload, &b.body} {
		if cap(*p) > keepBufferBytes {
			if b.pool != nil {
				b.pool.put(*p)
			}
			*p = nil
		}
		*p = (*p)[:0]
	}
	if b.headBytes > keepBufferBytes {
		b.head = nil // its line table never shrinks
	}
	b.headBytes = 0
}

// Reset empties r. It keeps buffers of up to 16 KiB and gives larger ones back to the client's pool, so
// that an idle Response holds little. Slices taken from r are invalid afterwards.
func (r *Response) Reset() {
	r.buf.release()
	*r = Response{buf: r.buf}
	if r.buf.head != nil {
		r.buf.head.Reset()
	}
}
