package fetch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The buffers of all exchanges of a client share Options.BufferBytes. An exchange takes up to
// FreeBufferBytes without asking, which is enough for most pages and for an idle Response. It takes any
// excess from the budget and returns it when the Response is reset. So bodies that wait for a parser count
// like bodies being received.
//
// If the budget is exhausted, exchanges queue in order and keep what they hold. To prevent deadlock, the
// budget has a reserve that is large enough for any one exchange. The first in the queue gets the reserve
// for the rest of its exchange, then the next. So one exchange can always proceed, whatever the others hold.

const (
	// FreeBufferBytes is what an exchange may hold outside the budget.
	FreeBufferBytes = 64 << 10
	// memoryWait bounds the time for which one exchange waits for memory in total. Its time limits are
	// suspended meanwhile. Web servers tolerate a client that does not read for a minute or more.
	memoryWait = 30 * time.Second
)

var errMemory = errors.New("not enough memory for the body within --ram")

// MemoryBytes returns the most that the buffers of one exchange with these limits can take: the reply, its
// unchunked payload, the intermediate form between two codings, and the decoded body.
func (l Limits) MemoryBytes() int64 {
	l = l.resolved()
	head, body, decoded := int64(l.HeaderBytes), int64(l.HeldBytes), int64(l.DecodedBytes)
	need := head + body + 1 + body + min(body, decoded) + 1 + decoded + 1
	return need + need/poolSlack + FreeBufferBytes
}

// budget bounds what all exchanges of a client hold beyond their free allowances, in bytes.
type budget struct {
	total, reserve int64 // constant

	mu      sync.Mutex // guards the fields below; never held while blocking
	free    int64      // free part of total - reserve
	elder   *lease     // owner of the reserve; nil: none
	line    []*claim   // waiting claims in order, at most one for each exchange
	charged int64      // held by all leases
	most    int64      // maximum of charged
	waits   int64      // number of claims that had to wait
}

// claim is the request of a waiting exchange.
type claim struct {
	l       *lease
	n       int64
	granted chan struct{} // closed under budget.mu
}

// newBudget returns nil if total is 0, meaning no bound. The reserve is at least need, the most that one
// exchange with the client's limits takes, and at least total/4, because requests may have larger limits.
func newBudget(total, need int64) *budget {
	if total == 0 {
		return nil
	}
	reserve := max(need, total/4)
	return &budget{total: total, reserve: reserve, free: total - reserve}
}

// lease tracks what one exchange holds. Only the exchange's goroutine uses it, except that the budget
// accesses charged while the exchange waits.
type lease struct {
	b       *budget // nil: no bound
	held    int64   // capacity of its buffers
	charged int64   // the part of held taken from the budget
}

// beyond returns how much more of the budget n more bytes would take.
func (l *lease) beyond(n int) int64 { return max(0, l.held+int64(n)-FreeBufferBytes) - l.charged }

// try takes n bytes if they are available at once.
func (l *lease) try(n int) bool {
	more := l.beyond(n)
	if l.b != nil && more > 0 {
		l.b.mu.Lock()
		ok := l.b.take(l, more)
		l.b.mu.Unlock()
		if !ok {
			return false
		}
	}
	l.held += int64(n)
	return true
}

// take charges n bytes to l if they are available. mu must be held.
func (b *budget) take(l *lease, n int64) bool {
	switch {
	case b.elder == l:
		if l.charged+n > b.reserve {
			return false
		}
	case len(b.line) > 0 || n > b.free:
		return false
	default:
		b.free -= n
	}
	b.charge(l, n)
	return true
}

func (b *budget) charge(l *lease, n int64) {
	l.charged += n
	b.charged += n
	b.most = max(b.most, b.charged)
}

// wait queues for n bytes for at most d. It reports whether it got them.
func (l *lease) wait(ctx context.Context, n int, d time.Duration) bool {
	b := l.b
	b.mu.Lock()
	c := &claim{l: l, n: l.beyond(n), granted: make(chan struct{})}
	if l.charged+c.n > b.reserve {
		b.mu.Unlock()
		return false // more than one exchange may hold
	}
	b.waits++
	b.line = append(b.line, c)
	b.grant()
	b.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.granted:
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-c.granted:
		l.held += int64(n)
		return true
	default:
	}
	for i, o := range b.line {
		if o == c {
			b.line = append(b.line[:i], b.line[i+1:]...)
			break
		}
	}
	b.grant()
	return false
}

// grant serves claims in order. mu must be held.
func (b *budget) grant() {
	for len(b.line) > 0 {
		c := b.line[0]
		switch {
		case b.elder == c.l: // wait has checked the claim against the reserve
		case c.n <= b.free:
			b.free -= c.n
		case b.elder == nil:
			b.elder = c.l
			b.free += c.l.charged
		default:
			return
		}
		b.line = b.line[1:]
		b.charge(c.l, c.n)
		close(c.granted)
	}
	b.line = nil
}

// give returns n bytes.
func (l *lease) give(n int) {
	l.held -= int64(n)
	back := l.charged - max(0, l.held-FreeBufferBytes)
	if l.b == nil || back <= 0 {
		return
	}
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	l.charged -= back
	b.charged -= back
	if b.elder != l {
		b.free += back
	} else if l.charged == 0 {
		b.elder = nil
	}
	b.grant()
}

// MemoryStats are statistics of the budget of Options.BufferBytes.
type MemoryStats struct {
	Bytes     int64 // held now beyond the free allowances
	MostBytes int64 // maximum of Bytes
	Waits     int64 // number of times an exchange had to wait for memory
}

// Memory returns the statistics of the budget, all 0 if there is none.
func (c *Client) Memory() MemoryStats {
	b := c.budget
	if b == nil {
		return MemoryStats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return MemoryStats{Bytes: b.charged, MostBytes: b.most, Waits: b.waits}
}

// get returns an empty buffer with capacity n or slightly more, or nil if the memory is not available now.
func (b *responseBuffers) get(n int) []byte {
	p := b.pool.take(n)
	size := max(n, cap(p))
	if !b.lease.try(size) {
		b.pool.put(p)
		return nil
	}
	if p == nil {
		p = make([]byte, 0, size)
	}
	return p
}

// put returns a buffer. The caller must not use p afterwards.
func (b *responseBuffers) put(p []byte) {
	if p != nil {
		b.pool.put(p)
		b.lease.give(cap(p))
	}
}

// grow returns p with room for more bytes and a capacity of at most limit: first 16 KiB, then double each
// time. len(p) must be below limit. It returns nil and leaves p valid if the memory is not available now.
func (b *responseBuffers) grow(p []byte, limit int) []byte {
	if len(p) < cap(p) {
		return p
	}
	n := grownSize(p, limit)
	np := b.get(n)
	if np == nil {
		return nil
	}
	np = append(np, p...)
	b.put(p)
	return np
}

func grownSize(p []byte, limit int) int {
	return max(min(max(firstBufferBytes, 2*cap(p)), limit), len(p)+1)
}

// get is responseBuffers.get, but waits for memory. The error has KindResources, or KindCanceled if the
// context ended.
func (x *exchange) get(n int) ([]byte, *Error) {
	b := &x.resp.buf
	if p := b.get(n); p != nil {
		return p, nil
	}
	begin := time.Now()
	ok := b.lease.wait(x.ctx, n, memoryWait-x.waited)
	d := time.Since(begin)
	x.waited += d
	if x.conn != nil { // not while decoding
		x.conn.pause(d)
	}
	if ok {
		return make([]byte, 0, n), nil
	}
	if e := x.canceled(StageBody); e != nil {
		return nil, e
	}
	return nil, &Error{Stage: StageBody, Kind: KindResources, Err: errMemory}
}

// grow is responseBuffers.grow, but waits for memory.
func (x *exchange) grow(p []byte, limit int) ([]byte, *Error) {
	if np := x.resp.buf.grow(p, limit); np != nil {
		return np, nil
	}
	np, e := x.get(grownSize(p, limit))
	if e != nil {
		return p, e
	}
	np = append(np, p...)
	x.resp.buf.put(p)
	return np, nil
}
