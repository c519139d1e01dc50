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

// longRequest is the size in bytes above which a request may not fit into one segment. Nagle's algorithm
// would delay its last part.
const longRequest = 1200

// throttledBuffer bounds the kernel's receive buffer when there is a limiter: the kernel receives these
// bytes before the limiter allows them.
const throttledBuffer = 64 << 10

// sock is a TCP socket on the runtime's poller. Package net would make five more system calls, which return
// known facts or set unneeded options, and need two more timers and a dozen allocations: a fifth of the cost
// of a fetch on loopback.
type sock struct {
	*os.File
	addr   netip.AddrPort
	cerr   error // of the last call on the descriptor
	peeked bool  // wait has polled it once
	ready  int   // bytes available
}

// LocalAddr returns an empty address. No caller uses it.
func (s *sock) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr returns the address that the socket is connected to.
func (s *sock) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.addr) }

// sockets holds the system call arguments, which would otherwise be allocated.
type sockets struct {
	in4 syscall.SockaddrInet4
	in6 syscall.SockaddrInet6
}

// address returns addr as the kernel wants it, and its family.
func (s *sockets) address(addr netip.AddrPort) (syscall.Sockaddr, int) {
	if addr.Addr().Is4() {
		s.in4 = syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
		return &s.in4, syscall.AF_INET
	}
	s.in6 = syscall.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	return &s.in6, syscall.AF_INET6
}

// connect dials the granted address, or the proxy, and starts the exchange on the new conn.
func (x *exchange) connect(c *conn, begin time.Time) error {
	addr := x.peer()
	sa, family := x.sockets.address(addr)
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if x.req.Scheme == "https" || len(x.resp.buf.req) > longRequest {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1) // failure only costs time
	}
	if x.throttle.Metered() {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, throttledBuffer)
	}
	err = tryConnect(fd, sa)
	if err != nil && err != syscall.EINPROGRESS {
		syscall.Close(fd)
		return unrouted(err, addr)
	}
	c.sock = sock{File: os.NewFile(uintptr(fd), "tcp"), addr: addr}
	c.Conn = &c.sock
	c.raw, err = c.sock.SyscallConn()
	if err == nil {
		c.armed = x.connectEnd(begin)
		err = c.sock.SetDeadline(c.armed) // fails if the poller cannot watch the socket
	}
	if err != nil {
		c.Conn.Close()
		return err
	}
	x.attach(c)
	err = c.raw.Write(func(fd uintptr) bool {
		c.sock.cerr = tryConnect(int(fd), sa)
		return c.sock.cerr != syscall.EINPROGRESS
	})
	if err == nil {
		err = c.sock.cerr
	}
	if err != nil {
		c.close()
		return unrouted(err, addr)
	}
	return nil
}

// tryConnect starts to connect or polls the progress. It returns nil when connected and EINPROGRESS until
// then.
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

// readable waits until the socket is readable and returns the number of bytes available, 0 if unknown.
// Exchanges that wait thus hold no buffer, and a buffer of the right size saves a copy.
func (c *conn) readable() (n int, err error) {
	raw := c.rawConn()
	if raw == nil || c.stream != io.Reader(c) {
		return 0, nil
	}
	for {
		c.sock.peeked, c.sock.ready = false, 0
		err = raw.Read(c.wait)
		if err == nil {
			return c.sock.ready, c.sock.cerr
		}
		if !c.early(err) {
			return 0, err
		}
	}
}

// wait is the callback of RawConn.Read. It keeps its results in the conn, because variables captured by a
// closure would be allocated.
func (c *conn) wait(fd uintptr) bool {
	if !c.sock.peeked {
		c.sock.peeked = true
		if c.sock.cerr = peek(int(fd)); c.sock.cerr == syscall.EAGAIN {
			c.sock.cerr = nil
			return false
		}
	}
	c.sock.ready, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) // 0 at the end of the stream or on failure
	return true
}

// peek returns the error of a read that does not wait. Only after EAGAIN may the caller wait, because the
// poller reports each event once.
func peek(fd int) error {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err
		}
	}
}
