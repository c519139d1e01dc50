package fetch

import (
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// longRequest is what may not fit into one segment; Nagle's algorithm would hold its end back.
const longRequest = 1200

// throttledBuffer is what the kernel may hold of a reply while the limiter keeps us from reading it: what lies there was received
// before its time.
const throttledBuffer = 64 << 10

// sock is a TCP socket on the runtime's poller. Package net could have made it, by five more system calls that tell
// what is known or set what we don't need, two more timers, and a dozen allocations: a fifth of a fetch on loopback.
type sock struct {
	*os.File
	addr   netip.AddrPort
	cerr   error // of the last call on the descriptor
	peeked bool  // it has been looked at before waiting
	ready  int   // bytes to be read
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

// connect dials the address, and no other, and begins the exchange on the new conn.
func (x *exchange) connect(w *conn, begin time.Time) error {
	addr := x.resp.Remote
	sa, family := x.sockets.address(addr)
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if x.req.Scheme == "https" || len(x.resp.buf.req) > longRequest {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1) // slower at worst
	}
	if x.throttle.Metered() {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, throttledBuffer)
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
	err = w.raw.Write(func(fd uintptr) bool {
		w.sock.cerr = tryConnect(int(fd), sa)
		return w.sock.cerr != syscall.EINPROGRESS
	})
	if err == nil {
		err = w.sock.cerr
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

// readable waits until something can be read, without a buffer to read it into, and returns how much there is; 0 if that
// can't be told. A thousand exchanges that wait hold no buffers so, and one that is as large as what has come saves a copy.
func (w *conn) readable() (n int, err error) {
	raw := w.rawConn()
	if raw == nil || w.stream != io.ReadWriter(w) {
		return 0, nil
	}
	for {
		w.sock.peeked, w.sock.ready = false, 0
		err = raw.Read(w.wait)
		if err == nil {
			return w.sock.ready, w.sock.cerr
		}
		if !w.early(err) {
			return 0, err
		}
	}
}

// wait is for RawConn.Read. Its results lie in the conn, as what a closure captures would be allocated one by one.
func (w *conn) wait(fd uintptr) bool {
	if !w.sock.peeked {
		w.sock.peeked = true
		if w.sock.cerr = peek(int(fd)); w.sock.cerr == syscall.EAGAIN {
			w.sock.cerr = nil
			return false
		}
	}
	w.sock.ready, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) // 0 at the end, and if it fails
	return true
}

// peek returns what a read would that doesn't wait. Only EAGAIN lets us wait: the poller reports each event once.
func peek(fd int) error {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err
		}
	}
}
