package fetch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The buffers of all exchanges of a client share Options.BufferBytes. Up to FreeBufferBytes an exchange takes what
// it needs: most pages fit, and an idle Response keeps no more. What goes beyond is taken from the budget and given
// back when the Response is reset, so bodies that wait for a parser count as those under way do.
//
// Whoever asks for more than there is waits in the order of asking, and keeps what it has. So that this can't lock up,
// a part of the budget large enough for any one exchange is kept apart: the first in the line gets it for itself, as
// long as its exchange lasts; then the next. One exchange can go on at any time, whatever the others hold.

const (
	// FreeBufferBytes is what an exchange may hold without asking the budget.
	FreeBufferBytes = 64 << 10
	// memoryWait is how long one exchange waits for memory in all. Its clocks stand still meanwhile. Web servers wait for
	// readers for a minute or more.
	memoryWait = 30 * time.Second
)

var errMemory = errors.New("no memory for the body within --ram")

// MemoryBytes is the most that the buffers of one exchange with these limits take: the reply, its payload without
// chunked framing, the intermediate of two codings, the decoded body.
func (l Limits) MemoryBytes() int64 {
	l = l.resolved()
	head, body, decoded := int64(l.HeaderBytes), int64(l.BodyBytes), int64(l.DecodedBytes)
	need := head + body + 1 + body + min(body, decoded) + 1 + decoded + 1
	return need + need/poolSlack + FreeBufferBytes
}

// budget is what all exchanges of a client may hold beyond their allowances.
type budget struct {
	total, reserve int64 // never change

	mu      sync.Mutex // guards all below; nothing waits under it
	free    int64      // of total - reserve
	elder   *lease     // who has the reserve; nil: nobody
	line    []*claim   // who waits, the first first; at most one for each exchange
	charged int64      // what all leases hold of it
	most    int64      // the highest that charged has been
	waits   int64      // how often somebody had to wait
}

// claim is one exchange in the line.
type claim struct {
	l       *lease
	n       int64
	granted chan struct{} // closed under budget.mu
}

// newBudget returns nil for no bound. The part kept apart is what one exchange may need, and a quarter at least: single
// requests may have larger limits, up to that.
func newBudget(total, need int64) *budget {
	if total == 0 {
		return nil
	}
	reserve := max(need, total/4)
	return &budget{total: total, reserve: reserve, free: total - reserve}
}

// lease is what one exchange holds. It belongs to the exchange's goroutine, but for charged, which the budget reads
// while it waits in line.
type lease struct {
	b       *budget // nil: no bound
	held    int64   // capacity of its buffers
	charged int64   // of held, taken from the budget
}

// beyond is how much more n bytes would take from the budget.
func (l *lease) beyond(n int) int64 {
	return max(0, l.held+int64(n)-FreeBufferBytes) - l.charged
}

// try takes n bytes if nobody need wait for them.
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

// take charges n bytes to l if they are there. Held: mu.
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

// wait takes n bytes, in its turn, within d. It tells whether they were had.
func (l *lease) wait(ctx context.Context, n int, d time.Duration) bool {
	b := l.b
	b.mu.Lock()
	c := &claim{l: l, n: l.beyond(n), granted: make(chan struct{})}
	if l.charged+c.n > b.reserve {
		b.mu.Unlock()
		return false // more than any exchange gets
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

// grant serves the line from its head on. Held: mu.
func (b *budget) grant() {
	for len(b.line) > 0 {
		c := b.line[0]
		switch {
		case b.elder == c.l: // its claim was checked against the reserve
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

// give gives n bytes back.
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

// MemoryStats says what the budget of Options.BufferBytes has seen.
type MemoryStats struct {
	Bytes     int64 // held beyond the allowances at this moment
	MostBytes int64 // the highest that Bytes has been
	Waits     int64 // how often an exchange had to wait for memory
}

// Memory returns the figures of the budget; all are 0 without one.
func (c *Client) Memory() MemoryStats {
	b := c.budget
	if b == nil {
		return MemoryStats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return MemoryStats{Bytes: b.charged, MostBytes: b.most, Waits: b.waits}
}

// get returns an empty buffer of capacity n or a little more, nil if there is no memory for it at this moment.
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

// put gives a buffer back. The caller keeps no slice of it.
func (b *responseBuffers) put(p []byte) {
	if p != nil {
		b.pool.put(p)
		b.lease.give(cap(p))
	}
}

// grow returns p with room for more bytes, and no more than limit of capacity in all: 16 KiB, then twice as much.
// len(p) < limit. It returns nil, and p stays as it is, if there is no memory at this moment.
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

// get is that of responseBuffers, but waits for its turn. The error is of KindResources, or of an ended context.
func (x *exchange) get(n int) ([]byte, *Error) {
	b := &x.resp.buf
	if p := b.get(n); p != nil {
		return p, nil
	}
	begin := time.Now()
	ok := b.lease.wait(x.ctx, n, memoryWait-x.waited)
	d := time.Since(begin)
	x.waited += d
	x.wire.pause(d)
	if ok {
		return make([]byte, 0, n), nil
	}
	if e := x.canceled(StageBody); e != nil {
		return nil, e
	}
	return nil, &Error{Stage: StageBody, Kind: KindResources, Err: errMemory}
}

// grow is that of responseBuffers, but waits for its turn.
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
