package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"drumbeat/bench/measure"
	"drumbeat/dnscache"
)

// client makes the client of a case, for that many lookups.
func (r *dnsRun) client(c *dnsCase, lookups int) (dnsClient, error) {
	switch c.client {
	case dnsLib:
		return newLibClient(r.server, c.inFlight)
	case dnsStd:
		addr := r.server.String()
		return stdClient{&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		}}}, nil
	}
	resolver, err := dnscache.New(dnscache.Options{
		Servers: []netip.AddrPort{r.server}, Family: dnscache.Family4, MaxInFlight: max(c.inFlight, 4096), MixCase: true,
		MaxEntries: lookups + 1,
	})
	return ourClient{resolver, c.want}, err
}

// ourClient is package dnscache, used as a crawl does but for the PLDs: each name is its own.
type ourClient struct {
	*dnscache.Resolver
	want dnscache.Kind
}

func (c ourClient) lookup(ctx context.Context, _ int, name string) bool {
	answer, err := c.Lookup(ctx, name, name)
	var e *dnscache.Error
	if errors.As(err, &e) {
		return e.Kind == c.want
	}
	return err == nil && c.want == 0 && len(answer.Addrs) == 1
}

func (c ourClient) resent() int64 {
	s := c.Stats()
	return s.Sent - s.Lookups + s.Hits + s.Joined
}

func (c ourClient) close() error { return c.Close() }

// stdClient is the standard library's resolver in Go: a socket for each question.
type stdClient struct{ *net.Resolver }

func (c stdClient) lookup(ctx context.Context, _ int, name string) bool {
	addrs, err := c.LookupNetIP(ctx, "ip4", name+".")
	return err == nil && len(addrs) == 1
}

func (stdClient) resent() int64 { return 0 }
func (stdClient) close() error  { return nil }

// libClient is the client of miekg/dns, with a socket for each caller.
type libClient struct {
	client dns.Client
	conns  []*dns.Conn
}

func newLibClient(server netip.AddrPort, n int) (*libClient, error) {
	c := &libClient{client: dns.Client{Timeout: 2 * time.Second}}
	for range n {
		conn, err := c.client.Dial(server.String())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bench: dns: open a socket: %w", err), c.close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

func (c *libClient) lookup(_ context.Context, worker int, name string) bool {
	m := new(dns.Msg)
	m.SetQuestion(name+".", dns.TypeA)
	m.SetEdns0(1232, false)
	reply, _, err := c.client.ExchangeWithConn(m, c.conns[worker])
	return err == nil && len(reply.Answer) == 1
}

func (c *libClient) resent() int64 { return 0 }

func (c *libClient) close() (err error) {
	for _, conn := range c.conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// dnsBareWindow bounds the questions in flight of the bare loop: replies to it must fit into one socket.
const dnsBareWindow = 64

// measureBareDNS is the floor: one thread sends questions that were packed before and reads replies, blocking, with a window
// in flight and without looking at what comes.
func measureBareDNS(ctx context.Context, server netip.AddrPort, names []string, window int) (s dnsSample, err error) {
	msgs := make([][]byte, len(names))
	for i, name := range names {
		m := new(dns.Msg)
		m.SetQuestion(name+".", dns.TypeA)
		m.SetEdns0(1232, false)
		if msgs[i], err = m.Pack(); err != nil {
			return s, fmt.Errorf("bench: dns: pack a question: %w", err)
		}
		binary.BigEndian.PutUint16(msgs[i], uint16(i))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return s, fmt.Errorf("bench: dns: open a socket: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	second := unix.Timeval{Sec: 1}
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second),
		unix.Connect(fd, &unix.SockaddrInet4{Addr: server.Addr().As4(), Port: int(server.Port())})); err != nil {
		return s, fmt.Errorf("bench: dns: connect a socket: %w", err)
	}
	buf := make([]byte, 4096)
	runtime.GC()
	cpu, began := measure.CPUTime(), time.Now()
	for sent, got := 0, 0; got < len(msgs); {
		if sent < len(msgs) && sent-got < window {
			if _, err := unix.Write(fd, msgs[sent]); err != nil {
				return s, fmt.Errorf("bench: dns: send: %w", err)
			}
			sent++
			continue
		}
		_, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN): // what is missing after a second is lost
			s.failed += int64(sent - got)
			got = sent
		case err != nil:
			return s, fmt.Errorf("bench: dns: receive: %w", err)
		default:
			got++
		}
		if got%1024 == 0 && ctx.Err() != nil {
			return s, ctx.Err()
		}
	}
	s.cpu, s.lookups = measure.CPUTime()-cpu, int64(len(msgs))
	s.rate = float64(s.lookups) / time.Since(began).Seconds()
	return s, nil
}
