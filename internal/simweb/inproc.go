package simweb

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// Dial connects to an address of the web without sockets: a goroutine serves the far end of a net.Pipe
// until either side closes. Port 443 speaks TLS, every other port HTTP. Failures are *DialError. For silent
// addresses of dead hosts, and for every address in an outage, Dial blocks until ctx ends.
//
// It works in a testing/synctest bubble: its goroutines belong to the bubble, and the log's times are
// virtual.
func (w *Web) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) { return nil, &DialError{Addr: addr, Err: err} }
	if w.dark("", false) != nil || inDeadNet(addr.Addr(), silentNet) {
		<-ctx.Done()
		return fail(os.ErrDeadlineExceeded)
	}
	if err := ctx.Err(); err != nil {
		return fail(os.ErrDeadlineExceeded)
	}
	if !w.listens(addr.Addr()) {
		if inDeadNet(addr.Addr(), refusedNet) {
			return fail(syscall.ECONNREFUSED)
		}
		return fail(syscall.EHOSTUNREACH)
	}
	near, far := net.Pipe()
	w.startSession(far, addr)
	return near, nil
}

// startSession starts the goroutine that serves one in-process connection; it ends when the connection does.
func (w *Web) startSession(far net.Conn, addr netip.AddrPort) {
	secure := addr.Port() == 443
	if secure {
		w.authority() // create it in the caller's goroutine: it takes long
	}
	go func() {
		if w.hostileAccept(far, addr.Addr(), addr.Port()) {
			far.Close()
			return
		}
		s := w.newSession(far, addr.Addr(), nil)
		if secure {
			s.https, s.conn = true, tls.Server(far, w.tlsConfig())
		}
		s.serve()
	}()
}

func inDeadNet(a netip.Addr, network byte) bool {
	return a.Is4() && a.As4()[0] == 127 && a.As4()[1] == network
}

// listens reports whether a live host has the address.
func (w *Web) listens(a netip.Addr) bool {
	if a.Is6() {
		for _, b := range w.opt.IPv6Addrs {
			if a == b {
				return true
			}
		}
		return false
	}
	if _, ok := w.hostile.byAddr[a]; ok {
		return true
	}
	inside := func(list []netip.Addr) bool {
		last := a.As4()[3]
		return len(list) > 0 && !a.Less(list[0]) && !list[len(list)-1].Less(a) && last != 0 && last != 255
	}
	return inside(w.addrs) || inside(w.spamIP)
}
