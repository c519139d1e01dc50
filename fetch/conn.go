package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"drumbeat/fetch/h2"
	"drumbeat/internal/bug"
)

// conn is one connection with its time limits. Read and Write sit between TLS and the socket. To save system
// calls, conn sets socket deadlines rarely: a deadline may be earlier than the limit in force, because more
// bytes arrived or a later stage began. When such a deadline fires, early sets the right one and the call
// continues. A conn outlives its exchange if it is kept (idle.go).
type conn struct {
	net.Conn                 // the socket
	sock     sock            // storage for the socket
	raw      syscall.RawConn // nil: not requested yet, or not a socket
	stream   io.Reader       // the conn itself, TLS over it, or HTTP/2 over TLS
	h2       *h2.Conn        // of TLS with HTTP/2; it is then the stream, too
	tls      tlsFacts
	// Of the current exchange.
	ctx     context.Context
	lim     *Limits
	end     time.Time // of the whole exchange
	stage   time.Time // end of the current stage; zero: none
	first   time.Time // when the reply began; zero: not yet, so MinRate does not apply
	got     int64     // bytes since first
	last    time.Time // when the last byte arrived
	armed   time.Time // the socket's deadline, never later than the limit in force; zero: none
	stop    func() bool
	watcher sync.WaitGroup // of the function that runs when ctx ends
	probing bool           // Read returns without waiting
	// throttle delays Read. It is nil without Options.Limiter and between exchanges.
	throttle *throttle
	// Of the idle pool.
	key   idleKey
	until time.Time // when the pool closes it
	place int       // index in the heap
}

// tlsFacts are the results of a handshake, copied to each response on its conn.
type tlsFacts struct {
	verdict string
	version uint16
	cipher  uint16
	resumed bool
	old     bool // only TLSOptions.Old offers what was chosen
	heavy   bool // the chain is too long to cache its session
	conn    *tls.Conn
}

// open opens a connection. If the server's certificate cannot be parsed, it opens another one with a standIn.
// The server is remembered, so that its next connection is at once such a one.
func (x *exchange) open() *Error {
	if x.req.Scheme != "https" || x.c.tls.opt.Require || x.req.Verified {
		return x.connection()
	}
	key, now := unreadableKey(x.key()), time.Now()
	_, x.standIn = x.c.tls.verdicts.get(key, now)
	e := x.connection()
	switch {
	case x.standIn && e != nil:
		x.c.tls.verdicts.put(key, "", now) // it may have another certificate: the next exchange looks
	case !x.standIn && e.unreadable():
		x.standIn = true
		if again := x.connection(); again == nil {
			x.c.tls.verdicts.put(key, VerdictInvalid, now.Add(verdictLife))
			return nil
		} else if again.Ours() {
			return again
		}
		x.resp.TLSVerdict = ""
	}
	return e
}

// connection dials the granted address, or the proxy for it, and, for https, makes the handshake.
func (x *exchange) connection() *Error {
	begin := time.Now()
	c := new(conn)
	c.stream = c
	var err error
	if x.c.opt.Dial != nil {
		err = x.dialHook(c, begin)
	} else {
		err = x.connect(c, begin)
	}
	x.resp.Connect = time.Since(begin)
	if err != nil && x.req.Proxy != nil {
		return x.proxyFault(err)
	} else if err != nil {
		return x.fault(StageDial, err)
	}
	if x.req.Proxy != nil {
		e := x.tunnel()
		if x.resp.Connect = time.Since(begin); e != nil {
			x.closeConn()
			return e
		}
	}
	if x.req.Scheme == "https" {
		if e := x.handshake(); e != nil {
			x.closeConn()
			return e
		}
	}
	return nil
}

func (x *exchange) closeConn() {
	x.conn.close()
	x.conn = nil
}

// dialHook connects through Options.Dial.
func (x *exchange) dialHook(c *conn, begin time.Time) error {
	ctx, cancel := context.WithDeadline(x.ctx, x.connectEnd(begin))
	defer cancel()
	conn, err := x.c.opt.Dial(ctx, x.peer())
	if err == nil {
		c.Conn = conn
		x.attach(c)
	}
	return err
}

// connectEnd returns the deadline for the connect.
func (x *exchange) connectEnd(begin time.Time) time.Time {
	end := x.resp.Start.Add(x.lim.Total)
	if t := begin.Add(x.lim.Connect); x.lim.Connect > 0 && t.Before(end) {
		return t
	}
	return end
}

// attach starts the exchange on a conn.
func (x *exchange) attach(c *conn) {
	x.conn = c
	if x.throttle.Metered() {
		c.throttle = &x.throttle
	}
	c.ctx, c.lim, c.end = x.ctx, x.lim, x.resp.Start.Add(x.lim.Total)
	c.stage, c.first, c.last, c.got = time.Time{}, time.Time{}, time.Time{}, 0
	c.watch()
}

// detach ends the exchange on a conn that stays open. It returns false if the context has ended: the conn is
// then unusable.
func (c *conn) detach() bool {
	if !c.unwatch() {
		return false
	}
	c.ctx, c.lim, c.throttle = nil, nil, nil
	return true
}

// unrouted corrects the kind of a failed connect. ENETUNREACH can mean that this machine has no route, or
// that a distant router has none. EADDRNOTAVAIL can mean a lack of ports, or that this machine has no
// address of the family.
func unrouted(err error, addr netip.AddrPort) error {
	return routeFault(err, func() bool { return hasRoute(addr) })
}

func routeFault(err error, routed func() bool) error {
	switch {
	case errors.Is(err, syscall.ENETUNREACH) && routed():
		return &Error{Stage: StageDial, Kind: KindUnreachable, Err: err}
	case errors.Is(err, syscall.EADDRNOTAVAIL) && !routed():
		return &Error{Stage: StageDial, Kind: KindNoRoute, Err: err}
	}
	return err
}

// hasRoute reports whether this machine has a route to addr; if so, a distant router reported the error by
// ICMP. Connecting a UDP socket consults the routing table and sends nothing.
func hasRoute(addr netip.AddrPort) bool {
	conn, err := net.Dial("udp", addr.String())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// longAgo is a deadline in the past.
var longAgo = time.Unix(1, 0)

// watch aborts all reads and writes when the context ends.
func (c *conn) watch() {
	c.watcher.Add(1)
	c.stop = context.AfterFunc(c.ctx, func() {
		defer bug.Fatal()
		c.Conn.SetDeadline(longAgo)
		c.watcher.Done()
	})
}

// unwatch undoes watch. It returns false if the context had already ended.
func (c *conn) unwatch() bool {
	if c.stop() {
		c.watcher.Done()
		return true
	}
	c.watcher.Wait()
	return false
}

// close closes the socket and waits for the watcher if it is running. It sends no TLS alert: the connection
// is over, and the write could block.
func (c *conn) close() {
	c.unwatch()
	c.throttle = nil
	c.Conn.Close()
}

// arm starts a stage that may last d; with d <= 0 only the limit of the whole exchange applies. The deadline
// also covers the start of the reply, since MinRate does not apply before Grace is over.
func (c *conn) arm(d time.Duration) {
	now := time.Now()
	c.stage = time.Time{}
	if d > 0 {
		c.stage = now.Add(d)
	}
	t := c.limit()
	if g := now.Add(c.lim.Grace); c.lim.MinRate > 0 && g.Before(t) {
		t = g
	}
	if c.armed.IsZero() || t.Before(c.armed) {
		c.set(t)
	}
}

// set sets the deadline of the socket.
func (c *conn) set(t time.Time) {
	c.armed = t
	c.Conn.SetDeadline(t)
	if c.ctx.Err() != nil {
		c.Conn.SetDeadline(longAgo) // the watcher may have set it before
	}
}

// began records the first byte of the reply. MinRate counts from here.
func (c *conn) began(now time.Time, n int) {
	c.first, c.got, c.stage = now, int64(n), time.Time{}
	if t := c.limit(); t.Before(c.armed) {
		c.set(t)
	}
}

// pause extends all limits by d, a time in which this side did not read.
func (c *conn) pause(d time.Duration) {
	c.end = c.end.Add(d)
	if !c.stage.IsZero() {
		c.stage = c.stage.Add(d)
	}
	if !c.first.IsZero() {
		c.first = c.first.Add(d)
	}
}

// extend moves the end of the exchange to t, unless it is later already.
func (c *conn) extend(t time.Time) {
	if t.After(c.end) {
		c.end = t
	}
}

// limit returns the time at which waiting must end.
func (c *conn) limit() time.Time {
	t := c.end
	if !c.stage.IsZero() && c.stage.Before(t) {
		t = c.stage
	}
	if !c.first.IsZero() && c.lim.MinRate > 0 {
		earned := time.Duration(float64(c.got) / float64(c.lim.MinRate) * float64(time.Second))
		if r := c.first.Add(max(c.lim.Grace, earned)); r.Before(t) {
			t = r
		}
	}
	return t
}

// early reports whether err is a deadline that fired before the limit in force. It then sets the right
// deadline.
func (c *conn) early(err error) bool {
	if !isTimeout(err) || c.ctx.Err() != nil {
		return false
	}
	t := c.limit()
	if !time.Now().Before(t) {
		return false
	}
	c.set(t)
	return true
}

// Read reads from the socket.
func (c *conn) Read(p []byte) (int, error) {
	if c.probing {
		return c.readNow(p)
	}
	if c.throttle != nil {
		return c.readThrottled(p)
	}
	return c.read(p)
}

func (c *conn) read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if c.got += int64(n); n > 0 {
			c.last = time.Now()
		}
		if n > 0 || err == nil || !c.early(err) {
			return n, err
		}
	}
}

// Write writes to the socket.
func (c *conn) Write(p []byte) (n int, _ error) {
	for {
		m, err := c.Conn.Write(p[n:])
		if n += m; err == nil || !c.early(err) {
			return n, err
		}
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// kindOf returns the kind of an error from dialling, reading or writing.
func kindOf(err error) Kind {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.ECONNREFUSED:
			return KindRefused
		case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
			return KindReset
		case syscall.EHOSTUNREACH, syscall.EHOSTDOWN:
			return KindUnreachable
		case syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EAFNOSUPPORT, syscall.EPERM,
			syscall.EACCES:
			return KindNoRoute
		case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN,
			syscall.EADDRNOTAVAIL:
			return KindResources
		case syscall.ETIMEDOUT:
			return KindTimeout
		}
	}
	var he *h2.Error
	switch {
	case errors.As(err, &he):
		return kindOfHTTP2(he)
	case isTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return KindEmptyReply
	case errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return KindReset
	case errors.Is(err, context.Canceled):
		return KindCanceled
	}
	var alert tls.AlertError
	var record tls.RecordHeaderError
	if errors.As(err, &alert) || errors.As(err, &record) {
		return KindTLS
	}
	return KindOther
}
