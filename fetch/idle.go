package fetch

import (
	"container/heap"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"drumbeat/internal/bug"
)

const (
	// defaultIdle bounds idle connections. With TLS each takes about 40 KiB, for a few seconds.
	defaultIdle = 1024
	// serverMargin is subtracted from the server's keep-alive time so that the request still arrives in time.
	serverMargin = time.Second
	// spoilt lists the marks of replies whose end two readers may locate differently, or whose connection has
	// ended. RFC 9112 (6.3, 9.6) wants such connections closed. Oddities of the content coding do not matter.
	spoilt = FlawRepaired | FlawBareLF | FlawHeadCut | FlawLengths | FlawEarly | FlawExcess | FlawCloseDelimited |
		FlawNotChunked | FlawBadChunk
)

// idleKey identifies the requests that may use a connection.
type idleKey struct {
	https bool
	host  string
	addr  netip.AddrPort
	proxy Proxy // zero: none
}

func (x *exchange) key() idleKey {
	host := strings.TrimSuffix(x.req.Host, ".")
	if x.req.Connection > 0 {
		host += "#" + strconv.Itoa(int(x.req.Connection)) // no host has this sign
	}
	return idleKey{https: x.req.Scheme == "https", host: host, addr: x.resp.Remote, proxy: x.proxyKey()}
}

// idlePool holds connections between exchanges. It owns no goroutine: a timer closes expired connections and
// runs only while there are any.
type idlePool struct {
	most int

	mu     sync.Mutex       // guards the fields below; connections are closed without it
	byHost map[string]*conn // one for each host: more at once would not be polite
	queue  idleHeap         // all connections, earliest expiry first
	timer  *time.Timer      // nil: not created yet
	fires  time.Time        // when timer fires; zero: stopped
	closed bool
	sweeps sync.WaitGroup // sweeps in progress
}

// idleHeap orders conns by expiry.
type idleHeap []*conn

func (h idleHeap) Len() int           { return len(h) }
func (h idleHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h idleHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
func (h *idleHeap) Push(v any) {
	c := v.(*conn)
	c.place = len(*h)
	*h = append(*h, c)
}
func (h *idleHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}

// put keeps a detached conn until the given time. It replaces an older conn of the same host. When the pool
// is full, the conn that would expire first is closed.
func (p *idlePool) put(c *conn, key idleKey, until time.Time) {
	if c.key.host == "" {
		key.host = strings.Clone(key.host) // the name may share memory with the text of a page
		c.key = key
	}
	c.until = until
	if victim := p.add(c); victim != nil {
		victim.Conn.Close()
	}
}

// add returns the conn to close, if any.
func (p *idlePool) add(c *conn) (victim *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c
	}
	victim = p.byHost[c.key.host]
	if victim == nil && len(p.queue) >= p.most {
		victim = p.queue[0]
	}
	if victim != nil {
		p.remove(victim)
	}
	if p.byHost == nil {
		p.byHost = make(map[string]*conn)
	}
	p.byHost[c.key.host] = c
	heap.Push(&p.queue, c)
	p.schedule()
	return victim
}

// take removes and returns the conn for key, or nil. The caller must probe it before use. If the host's conn
// has another scheme or address, take closes it, so that a host never has two connections.
func (p *idlePool) take(key idleKey) *conn {
	p.mu.Lock()
	c := p.byHost[key.host]
	if c != nil {
		p.remove(c)
		p.schedule()
	}
	p.mu.Unlock()
	if c != nil && c.key != key {
		c.Conn.Close()
		return nil
	}
	return c
}

// remove removes a conn from the pool. mu must be held.
func (p *idlePool) remove(c *conn) {
	heap.Remove(&p.queue, c.place)
	delete(p.byHost, c.key.host)
}

// schedule sets the timer for the next expiry. mu must be held.
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
		return // let the timer fire early and set it then: cheaper than resetting it on each put
	}
	p.fires = due
	if d := time.Until(due); p.timer == nil {
		p.timer = time.AfterFunc(d, p.sweep)
	} else {
		p.timer.Reset(d)
	}
}

// sweep closes the expired conns.
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

// close closes all conns. Later calls of put close theirs at once.
func (p *idlePool) close() {
	p.mu.Lock()
	p.closed = true
	all := p.empty()
	p.mu.Unlock()
	closeAll(all)
	p.sweeps.Wait()
}

// shed closes all conns and reports whether there were any.
func (p *idlePool) shed() bool {
	p.mu.Lock()
	all := p.empty()
	p.mu.Unlock()
	closeAll(all)
	return len(all) > 0
}

// empty removes and returns all conns. mu must be held.
func (p *idlePool) empty() []*conn {
	all := p.queue
	p.queue, p.byHost = nil, nil
	p.schedule()
	return all
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.Conn.Close()
	}
}

func (p *idlePool) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// CloseIdle closes the idle connections. Those of exchanges that end later are kept again.
func (c *Client) CloseIdle() { c.idle.shed() }

// Idle returns the current number of idle connections.
func (c *Client) Idle() int { return c.idle.len() }

// reuse starts the exchange on a working idle connection, if there is one.
func (x *exchange) reuse() bool {
	for {
		c := x.c.idle.take(x.key())
		switch {
		case c == nil:
			return false
		case !time.Now().Before(c.until) || !x.trusts(c) || !c.quiet():
			c.Conn.Close()
			continue
		}
		x.attach(c)
		x.resp.Reused = true
		x.resp.TLSVerdict, x.resp.TLSVersion, x.resp.Resumed = c.tls.verdict, c.tls.version, c.tls.resumed
		x.resp.CipherSuite = c.tls.cipher
		return true
	}
}

// trusts reports whether a kept connection has a good certificate if the request needs one: an exchange without secrets
// may have opened it.
func (x *exchange) trusts(c *conn) bool {
	return !x.req.Verified || x.req.Scheme != "https" || c.trusted()
}

// trusted reports whether the certificate of a connection over TLS and its version are good.
func (c *conn) trusted() bool { return c.tls.verdict == VerdictOK && !c.tls.old }

// stale reports whether a reused connection ended before the first byte of the reply: the server had closed
// it and probably never saw the request. RFC 9110, 9.2.2 allows the client to retry a GET.
func (x *exchange) stale(e *Error) bool {
	if e == nil || x.resp.BytesRead > 0 || isHTTP2(e.Err) {
		return false
	}
	return e.Kind != KindCanceled && e.Kind != KindTimeout && e.Kind != KindResources
}

// finish returns the conn to the idle pool or closes it.
func (x *exchange) finish(e *Error) {
	c := x.conn
	if e == nil && x.keep > 0 && x.resp.Flaws&x.spoils() == 0 && c.rest() && c.detach() {
		x.resp.Kept = true
		x.conn = nil // another exchange may use it from now on
		x.c.idle.put(c, x.key(), time.Now().Add(x.keep))
		return
	}
	x.closeConn()
}

// keepFor returns how long to keep the connection, 0 to close it. exact says that the body is whole and no
// byte follows it.
func (x *exchange) keepFor(exact bool) time.Duration {
	if x.conn.h2 != nil {
		return x.keepHTTP2(exact)
	}
	f := &x.f
	stays := x.resp.Proto == "HTTP/1.1" && !f.closes || x.resp.Proto == "HTTP/1.0" && f.keeps && !f.closes
	framed := f.none || f.chunked != (f.lengths > 0) // exactly one of the two
	if f.status == 204 && (f.chunked || f.length > 0) {
		framed = false // the server may send a body regardless
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

// errNotYet is the error of a probing read that finds nothing. It is temporary, because TLS remembers
// permanent errors.
var errNotYet net.Error = notYet{}

type notYet struct{}

func (notYet) Error() string   { return "nothing to read" }
func (notYet) Timeout() bool   { return true }
func (notYet) Temporary() bool { return true }

// quiet reports whether an idle connection is open and has nothing to read, in TLS buffers included.
// Unsolicited bytes are a TLS alert, or a forged reply to the next request.
func (c *conn) quiet() bool {
	c.probing = true
	defer func() { c.probing = false }()
	if c.h2 != nil {
		return c.h2.Quiet(errNotYet)
	}
	var b [1]byte
	n, err := c.stream.Read(b[:])
	return n == 0 && err == errNotYet
}

// readNow reads without waiting. On connections that are not sockets it detects only that they have ended.
func (c *conn) readNow(p []byte) (n int, err error) {
	raw := c.rawConn()
	if raw == nil {
		c.armed = longAgo // the next Read corrects it (early)
		c.Conn.SetDeadline(longAgo)
		n, err := c.Conn.Read(p)
		if n == 0 && isTimeout(err) {
			err = errNotYet
		}
		return n, err
	}
	if !c.armed.IsZero() && !time.Now().Before(c.armed) { // an expired deadline would make the read fail
		c.armed = time.Time{}
		c.Conn.SetDeadline(time.Time{})
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

// rawConn returns the socket for calls that do not wait; nil if the connection is not a socket.
func (c *conn) rawConn() syscall.RawConn {
	if c.raw == nil {
		if s, ok := c.Conn.(syscall.Conn); ok {
			c.raw, _ = s.SyscallConn()
		}
	}
	return c.raw
}
