package fetch

import (
	"math/bits"
	"sync"
)

const (
	// firstBufferBytes is what an exchange holds at least when a reply comes: most pages in gzip come in with one read.
	// firstTLSBytes is what it holds with TLS while it waits; the connection's own buffers take more.
	firstBufferBytes = 16 << 10
	firstTLSBytes    = 4 << 10
	// keepBufferBytes is what a Response keeps per buffer over Reset; larger ones go to the pool.
	keepBufferBytes = 16 << 10
	minClass        = 12 // 4 KiB
	maxClass        = 24 // 16 MiB
	// poolBytes bounds what the pool keeps.
	poolBytes = 32 << 20
	// poolTries is how many buffers of a class are looked at for one that fits; nearly all have a power of two, or a limit.
	poolTries = 8
	// poolSlack: a buffer may be larger than asked for by this part.
	poolSlack = 16
)

// bufferPool lends byte buffers by powers of two. What it keeps is bounded; the rest is the garbage
// collector's.
type bufferPool struct {
	mu   sync.Mutex // guards what follows; nothing waits under it
	free [maxClass + 1][][]byte
	kept int
	most int // that is kept; 0: poolBytes
}

// take returns an empty buffer of capacity n or a little more, nil if there is none.
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
	if p.kept+cap(b) <= orInt(p.most, poolBytes) {
		p.kept += cap(b)
		p.free[class] = append(p.free[class], b[:0])
	}
	p.mu.Unlock()
}

// responseBuffers is what a Response owns. Slices of the Response point into it.
type responseBuffers struct {
	pool                    *bufferPool // of the client that filled it; nil: none yet
	lease                   lease       // of raw, payload and body
	req, raw, payload, body []byte
	head                    header
	x                       *exchange // room for the state of a Do
}

// release keeps small buffers and gives large ones back.
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
	if b.head.fields = b.head.fields[:0]; cap(b.head.text) > keepBufferBytes {
		b.head.text = nil
	}
}

// Reset empties r. It keeps buffers of up to 16 KiB and gives larger ones back to the client's pool and
// budget, so that an idle Response holds little. Slices taken from r are invalid afterwards. With
// Options.BufferBytes set it must be called for every Response that isn't used again.
func (r *Response) Reset() {
	r.buf.release()
	*r = Response{buf: r.buf}
}
