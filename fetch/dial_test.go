package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
)

// fullBacklog returns the address of a listener that accepts no more connections.
func fullBacklog(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0))
	}
	must(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	sa, err := syscall.Getsockname(fd)
	must(t, err)
	addr := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(sa.(*syscall.SockaddrInet4).Port))
	for range 16 {
		conn, err := net.DialTimeout("tcp4", addr.String(), 500*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this system's listeners have no bound")
	return addr
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(names)
}

// TestSocketsThatWait: limits and contexts end connects and waits on sockets with the right kinds and leave
// no descriptor open.
func TestSocketsThatWait(t *testing.T) {
	full := fullBacklog(t)
	silent := listen(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	before := descriptors(t)
	for _, tt := range []struct {
		addr   netip.AddrPort
		limits Limits
		cancel bool
		stage  Stage
		kind   Kind
	}{
		{full, Limits{Connect: 30 * time.Millisecond}, false, StageDial, KindTimeout},
		{full, Limits{Connect: Unlimited, Total: 30 * time.Millisecond}, false, StageDial, KindTimeout},
		{full, Limits{}, true, StageDial, KindCanceled},
		{silent, Limits{FirstByte: 30 * time.Millisecond}, false, StageFirstByte, KindTimeout},
		{silent, Limits{FirstByte: Unlimited, Total: 60 * time.Millisecond, Grace: 10 * time.Millisecond},
			false, StageFirstByte, KindTimeout},
		{silent, Limits{}, true, StageFirstByte, KindCanceled},
	} {
		c, req := loopbackClient(t, tt.addr, Options{Limits: tt.limits})
		ctx, cancel := context.WithCancel(t.Context())
		if tt.cancel {
			time.AfterFunc(30*time.Millisecond, cancel)
		}
		var fe *Error
		err := c.Do(ctx, req, new(Response))
		if !errors.As(err, &fe) || fe.Kind != tt.kind || fe.Stage != tt.stage {
			t.Errorf("%+v: got %v, want %v at %v", tt.limits, err, tt.kind, tt.stage)
		}
		cancel()
	}
	if after := descriptors(t); after > before+2 { // sockets that the silent server has not closed yet
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// TestDeadlineThatIsEarly: a deadline set for a later stage does not end the wait for the first byte.
func TestDeadlineThatIsEarly(t *testing.T) {
	addr := listen(t, func(conn net.Conn) {
		readRequest(conn)
		late := time.NewTimer(100 * time.Millisecond)
		<-late.C
		io.WriteString(conn, hello)
	})
	c, req := loopbackClient(t, addr, Options{Limits: Limits{Grace: 10 * time.Millisecond}})
	var resp Response
	if err := c.Do(t.Context(), req, &resp); err != nil || string(resp.Body) != "hello" ||
		resp.FirstByte < 50*time.Millisecond {
		t.Errorf("got %v, %q, first byte after %v", err, resp.Body, resp.FirstByte)
	}
}

// TestIPv6: addresses of both families can be dialled.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			readRequest(conn)
			io.WriteString(conn, hello)
			conn.Close()
		}
	}()
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	c, req := loopbackClient(t, addr, Options{AllowNets: prefixes("::1/128")})
	var resp Response
	if err := c.Do(t.Context(), req, &resp); err != nil || string(resp.Body) != "hello" || resp.Remote != addr {
		t.Errorf("got %v, %q from %v", err, resp.Body, resp.Remote)
	}
}
