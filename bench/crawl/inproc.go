package crawl

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	gosync "sync"
	"time"

	"drumbeat/crawl"
	"drumbeat/fetch"
	"drumbeat/internal/simweb"
)

// inProcess is the web without sockets: the crawler's client on in-memory connections. The generator writes
// the response when the client writes the request, without goroutines at the other end and without DNS.
type inProcess struct {
	*fetch.Client
	flat  *simweb.Flat
	conns gosync.Pool // *memoryConn
}

func newInProcess(flat *simweb.Flat, opt fetch.Options) (*inProcess, error) {
	t := &inProcess{flat: flat}
	t.conns.New = func() any { return &memoryConn{session: simweb.NewFlatSession(flat)} }
	opt.Dial = func(_ context.Context, addr netip.AddrPort) (net.Conn, error) {
		c := t.conns.Get().(*memoryConn)
		*c = memoryConn{session: c.session, addr: addr, to: t}
		return c, nil
	}
	var err error
	t.Client, err = fetch.New(opt)
	return t, err
}

func (t *inProcess) close() error { return t.Client.Close() }

// inProcessLife is the lifetime of addresses.
const inProcessLife = 24 * time.Hour

// LookupHost implements crawl.Resolver.
func (t *inProcess) LookupHost(_ context.Context, host, _ string) (crawl.Lookup, error) {
	n, ok := t.flat.HostOf([]byte(host))
	if !ok {
		return crawl.Lookup{}, &crawl.LookupError{Host: host, NotFound: true,
			Err: errors.New("the generated web has no such host")}
	}
	return crawl.Lookup{Addrs: []netip.Addr{t.flat.AddrOf(n)}, Expires: time.Now().Add(inProcessLife)}, nil
}

// memoryConn is a connection to the flat web: a write is a request, the following reads are its response.
// It is for one goroutine, except for the deadline methods, which do nothing.
type memoryConn struct {
	session *simweb.FlatSession
	addr    netip.AddrPort
	to      *inProcess // owner of the pool; nil after Close
	unread  []byte
}

func (c *memoryConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// Write accepts only whole requests, which is how the client writes them.
func (c *memoryConn) Write(p []byte) (int, error) {
	c.unread, _ = c.session.Answer(p)
	return len(p), nil
}

func (c *memoryConn) Close() error {
	if t := c.to; t != nil {
		c.to, c.unread = nil, nil
		t.conns.Put(c)
	}
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr              { return net.TCPAddrFromAddrPort(netip.AddrPort{}) }
func (c *memoryConn) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(c.addr) }
func (c *memoryConn) SetDeadline(time.Time) error      { return nil }
func (c *memoryConn) SetReadDeadline(time.Time) error  { return nil }
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }
