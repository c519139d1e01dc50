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

	"drumbeat/internal/bug"
)

// conn is one connection with its clocks. Read and Write stand below TLS and above the socket. Deadlines are set seldom: one
// that fires too early, because it was set when less had come or for an earlier stage, is looked at again then; so neither
// stages nor the minimum rate cost a call. A conn outlives its exchange if it is kept (idle.go).
type conn struct {
	net.Conn                 // the socket
	sock     sock            // its room
	raw      syscall.RawConn // nil: not asked for, or no socket
	stream   io.ReadWriter   // the conn itself, or TLS over it
	tls      tlsFacts
	// Of the exchange that it is on.
	ctx     context.Context
	lim     *Limits
	end     time.Time // of the whole exchange
	stage   time.Time // end of the current stage; zero: none
	first   time.Time // when the reply began; zero: not yet, no rate is asked for
	got     int64     // bytes since first
	last    time.Time // when the last byte came
	armed   time.Time // the deadline that the socket has, never later than it should be; zero: none
	stop    func() bool
	watcher sync.WaitGroup // what runs when ctx has ended
	probing bool           // Read doesn't wait
	// throttle holds Read back; nil without Options.Limiter, and while it is on no exchange.
	throttle *throttle
	// Of the pool of idle ones.
	key   idleKey
	until time.Time // when it is closed
	place int       // in the heap
}

// tlsFacts are what a handshake found out, for all responses on its conn.
type tlsFacts struct {
	verdict string
	version uint16
	resumed bool
	heavy   bool // the chain is too long for its session to be kept
}

// open dials the granted address and shakes hands.
func (x *exchange) open() *Error {
	begin := time.Now()
	w := new(conn)
	w.stream = w
	var err error
	if x.c.opt.Dial != nil {
		err = x.dialHook(w, begin)
	} else {
		err = x.connect(w, begin)
	}
	x.resp.Connect = time.Since(begin)
	if err != nil {
		return x.fault(StageDial, err)
	}
	if x.req.Scheme == "https" {
		if e := x.handshake(); e != nil {
			w.close()
			return e
		}
	}
	return nil
}

// dialHook connects by Options.Dial.
func (x *exchange) dialHook(w *conn, begin time.Time) error {
	ctx, cancel := context.WithDeadline(x.ctx, x.connectEnd(begin))
	defer cancel()
	conn, err := x.c.opt.Dial(ctx, x.resp.Remote)
	if err == nil {
		w.Conn = conn
		x.attach(w)
	}
	return err
}

// connectEnd is when connecting has to be over.
func (x *exchange) connectEnd(begin time.Time) time.Time {
	end := x.resp.Start.Add(x.lim.Total)
	if t := begin.Add(x.lim.Connect); x.lim.Connect > 0 && t.Before(end) {
		return t
	}
	return end
}

// attach begins the exchange on a conn.
func (x *exchange) attach(w *conn) {
	x.wire = w
	if x.throttle.Metered() {
		w.throttle = &x.throttle
	}
	w.ctx, w.lim, w.end = x.ctx, x.lim, x.resp.Start.Add(x.lim.Total)
	w.stage, w.first, w.last, w.got = time.Time{}, time.Time{}, time.Time{}, 0
	w.watch()
}

// detach ends the exchange on a conn that stays open. It returns false if the context has ended: the conn is spoilt then.
func (w *conn) detach() bool {
	if !w.unwatch() {
		return false
	}
	w.ctx, w.lim, w.throttle = nil, nil, nil
	return true
}

// unrouted tells a network that this machine has no way to from one that a router far away had none to, and from a lack of ports:
// on a machine without any address of the family, connecting fails with EADDRNOTAVAIL.
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

// hasRoute tells whether this machine knows a way to addr: then it was a router far away that knew none,
// and told so by ICMP. Connecting a UDP socket asks the routing table and sends nothing.
func hasRoute(addr netip.AddrPort) bool {
	conn, err := net.Dial("udp", addr.String())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// watch makes an ended context end every read and write at once.
func (w *conn) watch() {
	w.watcher.Add(1)
	w.stop = context.AfterFunc(w.ctx, func() {
		defer bug.Fatal()
		w.Conn.SetDeadline(longAgo)
		w.watcher.Done()
	})
}

// unwatch ends that, and tells whether the context had not ended.
func (w *conn) unwatch() bool {
	if w.stop() {
		w.watcher.Done()
		return true
	}
	w.watcher.Wait()
	return false
}

// close closes the socket and waits for the watcher if it is running. TLS isn't told: the connection is
// over, and an alert could block.
func (w *conn) close() {
	w.unwatch()
	w.throttle = nil
	w.Conn.Close()
}

// arm starts a stage of at most d; 0 or less: only the whole exchange is bounded. The deadline that is set will do for the
// reply as well: nothing is asked of that before Grace is over.
func (w *conn) arm(d time.Duration) {
	now := time.Now()
	w.stage = time.Time{}
	if d > 0 {
		w.stage = now.Add(d)
	}
	t := w.limit()
	if g := now.Add(w.lim.Grace); w.lim.MinRate > 0 && g.Before(t) {
		t = g
	}
	if w.armed.IsZero() || t.Before(w.armed) {
		w.set(t)
	}
}

// set sets the deadline of the socket.
func (w *conn) set(t time.Time) {
	w.armed = t
	w.Conn.SetDeadline(t)
	if w.ctx.Err() != nil {
		w.Conn.SetDeadline(longAgo) // the watcher may have run before
	}
}

// began marks the first byte of the reply: the rate counts from here.
func (w *conn) began(now time.Time, n int) {
	w.first, w.got, w.stage = now, int64(n), time.Time{}
	if t := w.limit(); t.Before(w.armed) {
		w.set(t)
	}
}

// pause moves all clocks by a time in which we didn't read.
func (w *conn) pause(d time.Duration) {
	w.end = w.end.Add(d)
	if !w.stage.IsZero() {
		w.stage = w.stage.Add(d)
	}
	if !w.first.IsZero() {
		w.first = w.first.Add(d)
	}
}

// limit is the moment at which waiting ends, as things stand.
func (w *conn) limit() time.Time {
	t := w.end
	if !w.stage.IsZero() && w.stage.Before(t) {
		t = w.stage
	}
	if !w.first.IsZero() && w.lim.MinRate > 0 {
		earned := time.Duration(float64(w.got) / float64(w.lim.MinRate) * float64(time.Second))
		if r := w.first.Add(max(w.lim.Grace, earned)); r.Before(t) {
			t = r
		}
	}
	return t
}

// early tells whether an error is a deadline that fired before its time, and then sets the right one.
func (w *conn) early(err error) bool {
	if !isTimeout(err) || w.ctx.Err() != nil {
		return false
	}
	t := w.limit()
	if !time.Now().Before(t) {
		return false
	}
	w.set(t)
	return true
}

// Read reads from the socket.
func (w *conn) Read(p []byte) (int, error) {
	if w.probing {
		return w.readNow(p)
	}
	if w.throttle != nil {
		return w.readThrottled(p)
	}
	return w.read(p)
}

func (w *conn) read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if w.got += int64(n); n > 0 {
			w.last = time.Now()
		}
		if n > 0 || err == nil || !w.early(err) {
			return n, err
		}
	}
}

// Write writes to the socket.
func (w *conn) Write(p []byte) (n int, _ error) {
	for {
		m, err := w.Conn.Write(p[n:])
		if n += m; err == nil || !w.early(err) {
			return n, err
		}
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// kindOf types an error of dialling, reading or writing.
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
	switch {
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
