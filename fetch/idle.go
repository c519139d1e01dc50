package fetch

import (
	"container/heap"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"drumbeat/internal/bug"
)

const (
	// defaultIdle bounds idle connections: that many hosts are waited for a few seconds each, at some 40 KiB with TLS.
	defaultIdle = 1024
	// serverMargin is taken off the time for which a server says it keeps a connection: the request has to get there.
	serverMargin = time.Second
	// spoilt are the marks of replies whose end two readers may see differently, or whose connection has ended.
	// RFC 9112 (6.3, 9.6) wants such connections closed. Mere oddities of the body's coding don't matter.
	spoilt = MarkRepaired | MarkBareLF | MarkHeadCut | MarkLengths | MarkEarly | MarkExcess | MarkCloseDelimited |
		MarkNotChunked | MarkBadChunk
)

// idleKey says for which requests a connection may be used again.
type idleKey struct {
	https bool
	host  string
	addr  netip.AddrPort
}

func (x *exchange) key() idleKey {
	return idleKey{https: x.req.Scheme == "https", host: strings.TrimSuffix(x.req.Host, "."), addr: x.resp.Remote}
}

// idlePool holds connections between exchanges. It owns no goroutine; a timer closes those whose time is over, and runs
// only while there are any.
type idlePool struct {
	most int

	mu     sync.Mutex       // guards what follows; no connection is closed under it
	byHost map[string]*conn // one of a host: whoever asks for more at once isn't polite
	queue  idleHeap         // all, the first to be closed first
	timer  *time.Timer      // nil: not yet made
	fires  time.Time        // when timer does; zero: it is stopped
	closed bool
	sweeps sync.WaitGroup // sweeps under way
}

// idleHeap orders conns by the time at which they are closed.
type idleHeap []*conn

func (h idleHeap) Len() int           { return len(h) }
func (h idleHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h idleHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
func (h *idleHeap) Push(v any) {
	w := v.(*conn)
	w.place = len(*h)
	*h = append(*h, w)
}
func (h *idleHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}

// put keeps a detached conn until a time. Of a host one is kept, the last one; when all places are taken the one that
// would be closed next goes.
func (p *idlePool) put(w *conn, key idleKey, until time.Time) {
	if w.key.host == "" {
		key.host = strings.Clone(key.host) // it may be part of a page's text
		w.key = key
	}
	w.until = until
	if victim := p.add(w); victim != nil {
		victim.Conn.Close()
	}
}

// add returns the conn that has to go.
func (p *idlePool) add(w *conn) (victim *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return w
	}
	victim = p.byHost[w.key.host]
	if victim == nil && len(p.queue) >= p.most {
		victim = p.queue[0]
	}
	if victim != nil {
		p.remove(victim)
	}
	if p.byHost == nil {
		p.byHost = make(map[string]*conn)
	}
	p.byHost[w.key.host] = w
	heap.Push(&p.queue, w)
	p.schedule()
	return victim
}

// take returns the conn of a key, nil if there is none. It must be probed before it is used. One of the same host, but
// by another scheme or at another address, is closed: the host is about to get a new connection, and shall have no other.
func (p *idlePool) take(key idleKey) *conn {
	p.mu.Lock()
	w := p.byHost[key.host]
	if w != nil {
		p.remove(w)
		p.schedule()
	}
	p.mu.Unlock()
	if w != nil && w.key != key {
		w.Conn.Close()
		return nil
	}
	return w
}

// remove takes a conn out. Held: mu.
func (p *idlePool) remove(w *conn) {
	heap.Remove(&p.queue, w.place)
	delete(p.byHost, w.key.host)
}

// schedule has the timer fire when the first conn is due, not before. Held: mu.
func (p *idlePool) schedule() {
	if len(p.queue) == 0 {
		if !p.fires.IsZero() {
			p.timer.Stop()
			p.fires = time.Time{}
		}
		return
	}
	due := p.queue[0].until
	if !p.fires.IsZero() && !due.Before(p.fires) {
		return // it fires early, finds nothing and is set again: cheaper than to set it each time
	}
	p.fires = due
	if d := time.Until(due); p.timer == nil {
		p.timer = time.AfterFunc(d, p.sweep)
	} else {
		p.timer.Reset(d)
	}
}

// sweep closes what is due.
func (p *idlePool) sweep() {
	defer bug.Fatal()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.sweeps.Add(1)
	defer p.sweeps.Done()
	var due []*conn
	for now := time.Now(); len(p.queue) > 0 && !p.queue[0].until.After(now); {
		due = append(due, p.queue[0])
		p.remove(p.queue[0])
	}
	p.fires = time.Time{}
	p.schedule()
	p.mu.Unlock()
	closeAll(due)
}

// close closes all conns; those put later are closed at once.
func (p *idlePool) close() {
	p.mu.Lock()
	p.closed = true
	all := p.empty()
	p.mu.Unlock()
	closeAll(all)
	p.sweeps.Wait()
}

// shed closes all conns and tells whether there were any.
func (p *idlePool) shed() bool {
	p.mu.Lock()
	all := p.empty()
	p.mu.Unlock()
	closeAll(all)
	return len(all) > 0
}

// empty takes all conns out. Held: mu.
func (p *idlePool) empty() []*conn {
	all := p.queue
	p.queue, p.byHost = nil, nil
	p.schedule()
	return all
}

func closeAll(wires []*conn) {
	for _, w := range wires {
		w.Conn.Close()
	}
}

func (p *idlePool) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// Idle returns how many connections wait to be used again at this moment.
func (c *Client) Idle() int { return c.idle.len() }

// reuse begins the exchange on an idle connection, if there is one that works.
func (x *exchange) reuse() bool {
	for {
		w := x.c.idle.take(x.key())
		switch {
		case w == nil:
			return false
		case !time.Now().Before(w.until) || !w.quiet():
			w.Conn.Close()
			continue
		}
		x.attach(w)
		x.resp.Reused = true
		x.resp.TLSVerdict, x.resp.TLSVersion, x.resp.Resumed = w.tls.verdict, w.tls.version, w.tls.resumed
		return true
	}
}

// stale tells whether a used connection turned out to be over before a byte of the reply came: the server had closed it,
// and has hardly seen the request. RFC 9110, 9.2.2 lets a GET be sent once more.
func (x *exchange) stale(e *Error) bool {
	if e == nil || x.resp.BytesRead > 0 {
		return false
	}
	return e.Kind != KindCanceled && e.Kind != KindTimeout && e.Kind != KindResources
}

// finish keeps the conn for the next request, or closes it.
func (x *exchange) finish(e *Error) {
	w := x.wire
	if e == nil && x.keep > 0 && x.resp.Marks&spoilt == 0 && w.detach() {
		x.resp.Kept = true
		x.c.idle.put(w, x.key(), time.Now().Add(x.keep))
		return
	}
	w.close()
}

// keepFor is how long the connection may be kept after a reply whose body is whole, without a byte behind it; 0: not.
func (x *exchange) keepFor(exact bool) time.Duration {
	f := &x.f
	stays := x.resp.Proto == "HTTP/1.1" && !f.closes || x.resp.Proto == "HTTP/1.0" && f.keeps && !f.closes
	framed := f.none || f.chunked != (f.lengths > 0) // exactly one of the two
	if f.status == 204 && (f.chunked || f.length > 0) {
		framed = false // a body may come all the same
	}
	if !exact || !stays || !framed || f.odd || x.resp.Truncated != NotTruncated {
		return 0
	}
	keep := x.req.KeepAlive
	if f.idle >= 0 {
		keep = min(keep, time.Duration(f.idle)*time.Second-serverMargin)
	}
	return max(keep, 0)
}

// errNotYet is what a probing read returns when there is nothing to be read. It is temporary, as TLS must not remember it.
var errNotYet net.Error = notYet{}

type notYet struct{}

func (notYet) Error() string   { return "nothing to read" }
func (notYet) Timeout() bool   { return true }
func (notYet) Temporary() bool { return true }

// quiet tells whether a connection that nobody asked for anything is open and silent. What has come, be it in the buffers
// of TLS, is a goodbye, or a reply that somebody hopes we take for the next one.
func (w *conn) quiet() bool {
	var b [1]byte
	w.probing = true
	n, err := w.stream.Read(b[:])
	w.probing = false
	return n == 0 && err == errNotYet
}

// readNow reads what is there without waiting. Connections that aren't sockets tell only that they are over.
func (w *conn) readNow(p []byte) (n int, err error) {
	raw := w.rawConn()
	if raw == nil {
		w.armed = longAgo // the next Read sets it right
		w.Conn.SetDeadline(longAgo)
		n, err := w.Conn.Read(p)
		if n == 0 && isTimeout(err) {
			err = errNotYet
		}
		return n, err
	}
	if !w.armed.IsZero() && !time.Now().Before(w.armed) { // it would be refused
		w.armed = time.Time{}
		w.Conn.SetDeadline(time.Time{})
	}
	rerr := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = syscall.Read(int(fd), p); err != syscall.EINTR {
				return true
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, rerr
	case err == syscall.EAGAIN:
		return 0, errNotYet
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// rawConn is the socket for calls that don't wait; nil if it is none.
func (w *conn) rawConn() syscall.RawConn {
	if w.raw == nil {
		if s, ok := w.Conn.(syscall.Conn); ok {
			w.raw, _ = s.SyscallConn()
		}
	}
	return w.raw
}
