package fetch

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// longRequest is what may not fit into one segment; Nagle's algorithm would hold its end back.
const longRequest = 1200

// sock is a TCP socket on the runtime's poller. Package net could have made it, by five more system calls that tell
// what is known or set what we don't need, two more timers, and a dozen allocations: a fifth of a fetch on loopback.
type sock struct {
	*os.File
	addr netip.AddrPort
}

// LocalAddr isn't known, and nobody asks.
func (s *sock) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr is the address that was connected to.
func (s *sock) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.addr) }

// sockets is room for what the kernel is told, so that it needn't be allocated.
type sockets struct {
	in4 syscall.SockaddrInet4
	in6 syscall.SockaddrInet6
}

// address returns addr for the kernel, with its family.
func (s *sockets) address(addr netip.AddrPort) (syscall.Sockaddr, int) {
	if addr.Addr().Is4() {
		s.in4 = syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
		return &s.in4, syscall.AF_INET
	}
	s.in6 = syscall.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	return &s.in6, syscall.AF_INET6
}

// connect dials the address, and no other, and begins the exchange on the new wire.
func (x *exchange) connect(w *wire, begin time.Time) error {
	addr := x.resp.Remote
	sa, family := x.sockets.address(addr)
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if x.req.Scheme == "https" || len(x.resp.buf.req) > longRequest {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1) // slower at worst
	}
	err = tryConnect(fd, sa)
	if err != nil && err != syscall.EINPROGRESS {
		syscall.Close(fd)
		return unrouted(err, addr)
	}
	w.sock = sock{File: os.NewFile(uintptr(fd), "tcp"), addr: addr}
	w.Conn = &w.sock
	w.raw, err = w.sock.SyscallConn()
	if err == nil {
		w.armed = x.connectEnd(begin)
		err = w.sock.SetDeadline(w.armed) // fails if the poller couldn't take it
	}
	if err != nil {
		w.Conn.Close()
		return err
	}
	x.attach(w)
	var cerr error
	err = w.raw.Write(func(fd uintptr) bool {
		cerr = tryConnect(int(fd), sa)
		return cerr != syscall.EINPROGRESS
	})
	if err == nil {
		err = cerr
	}
	if err != nil {
		w.close()
		return unrouted(err, addr)
	}
	return nil
}

// tryConnect begins to connect, or asks how far it is: nil when the connection stands, EINPROGRESS while it doesn't.
func tryConnect(fd int, sa syscall.Sockaddr) error {
	for {
		switch err := syscall.Connect(fd, sa); err {
		case syscall.EINTR:
		case syscall.EISCONN:
			return nil
		case syscall.EALREADY:
			return syscall.EINPROGRESS
		default:
			return err
		}
	}
}
