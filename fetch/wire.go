package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// wire is one connection with its clocks. Read stands below TLS and above the socket. Deadlines are set
// once per stage and looked at again only when they fire, so the minimum rate costs nothing per read.
type wire struct {
	net.Conn               // the socket
	stream   io.ReadWriter // the wire itself, or TLS over it
	ctx      context.Context
	lim      *Limits
	end      time.Time // of the whole exchange
	stage    time.Time // end of the current stage; zero: none
	first    time.Time // when the reply began; zero: not yet, no rate is asked for
	got      int64     // bytes since first
	last     time.Time // when the last byte came
	stop     func() bool
	stopped  chan struct{}
}

// open dials the granted address and shakes hands.
func (x *exchange) open() *Error {
	w := &x.wire
	w.ctx, w.lim = x.ctx, x.lim
	w.end = x.resp.Start.Add(x.lim.Total)
	conn, err := x.dial()
	x.resp.Connect = time.Since(x.resp.Start)
	if err != nil {
		return x.fault(StageDial, err)
	}
	w.Conn, w.stream = conn, w
	w.watch()
	if x.req.Scheme == "https" {
		if e := x.handshake(); e != nil {
			w.close()
			return e
		}
	}
	w.arm(x.lim.FirstByte)
	return nil
}

// dial connects to the address, and to no other: what the connection says about its peer is compared.
func (x *exchange) dial() (net.Conn, error) {
	end := x.wire.end
	if x.lim.Connect > 0 {
		if t := x.resp.Start.Add(x.lim.Connect); t.Before(end) {
			end = t
		}
	}
	ctx, cancel := context.WithDeadline(x.ctx, end)
	defer cancel()
	addr := x.resp.Remote
	if x.c.opt.Dial != nil {
		return x.c.opt.Dial(ctx, addr)
	}
	network := "tcp6"
	if addr.Addr().Is4() {
		network = "tcp4"
	}
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.DialContext(ctx, network, addr.String())
	if err != nil {
		if errors.Is(err, syscall.ENETUNREACH) && hasRoute(network, addr) {
			err = &Error{Stage: StageDial, Kind: KindUnreachable, Err: err}
		}
		return nil, err
	}
	peer, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || peer.AddrPort().Addr().Unmap() != addr.Addr() {
		conn.Close()
		return nil, &Error{Stage: StageDial, Kind: KindForbiddenAddress}
	}
	return conn, nil
}

// hasRoute tells whether this machine knows a way to addr: then it was a router far away that knew none,
// and told so by ICMP. Connecting a UDP socket asks the routing table and sends nothing.
func hasRoute(network string, addr netip.AddrPort) bool {
	conn, err := net.Dial("udp"+network[len("tcp"):], addr.String())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// watch makes an ended context end every read and write at once.
func (w *wire) watch() {
	w.stopped = make(chan struct{})
	w.stop = context.AfterFunc(w.ctx, func() {
		w.Conn.SetDeadline(time.Unix(1, 0))
		close(w.stopped)
	})
}

// close closes the socket and waits for the watcher if it is running. TLS isn't told: the connection is
// over, and an alert could block.
func (w *wire) close() {
	if !w.stop() {
		<-w.stopped
	}
	w.Conn.Close()
}

// arm starts a stage of at most d; 0 or less: only the whole exchange is bounded.
func (w *wire) arm(d time.Duration) {
	w.stage = time.Time{}
	if d > 0 {
		w.stage = time.Now().Add(d)
	}
	w.rearm()
}

func (w *wire) rearm() {
	w.Conn.SetDeadline(w.limit())
	if w.ctx.Err() != nil {
		w.Conn.SetDeadline(time.Unix(1, 0)) // the watcher may have run before
	}
}

// began marks the first byte of the reply: the rate counts from here.
func (w *wire) began(now time.Time, n int) {
	w.first, w.got, w.stage = now, int64(n), time.Time{}
	w.rearm()
}

// pause moves all clocks by a time in which we didn't read.
func (w *wire) pause(d time.Duration) {
	w.end = w.end.Add(d)
	if !w.stage.IsZero() {
		w.stage = w.stage.Add(d)
	}
	if !w.first.IsZero() {
		w.first = w.first.Add(d)
	}
	w.rearm()
}

// limit is the moment at which waiting ends, as things stand.
func (w *wire) limit() time.Time {
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

// Read reads from the socket. A deadline that fired because it was set when less had come is moved.
func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if w.got += int64(n); n > 0 {
			w.last = time.Now()
		}
		if n > 0 || err == nil || !isTimeout(err) || w.ctx.Err() != nil || !time.Now().Before(w.limit()) {
			return n, err
		}
		w.rearm()
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
