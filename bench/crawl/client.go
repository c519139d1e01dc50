package crawl

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	gosync "sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl"
	"drumbeat/dnscache"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
)

// transport is the connection of a benchmark's crawl to its web.
type transport interface {
	crawl.Fetcher
	crawl.Resolver
	AllowedAddr(addr netip.Addr) bool
	Ports() ports.Set
	close() error
}

// sockets is the crawler's own client and DNS cache. It counts the kinds of connections.
type sockets struct {
	*fetch.Client
	crawl.Resolver
	dns                       *dnscache.Resolver
	handshakes, resumed, kept atomic.Int64
}

// Do implements crawl.Fetcher.
func (s *sockets) Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error {
	err := s.Client.Do(ctx, req, resp)
	switch {
	case resp.Reused:
		s.kept.Add(1)
	case resp.TLSVersion == 0:
	case resp.Resumed:
		s.resumed.Add(1)
	default:
		s.handshakes.Add(1)
	}
	return err
}

// wireCounts counts full handshakes, resumed sessions, and exchanges on kept connections.
type wireCounts struct{ Handshakes, Resumed, Kept int64 }

func (c wireCounts) sub(d wireCounts) wireCounts {
	return wireCounts{c.Handshakes - d.Handshakes, c.Resumed - d.Resumed, c.Kept - d.Kept}
}

func (s *sockets) wires() wireCounts {
	if s == nil {
		return wireCounts{}
	}
	return wireCounts{s.handshakes.Load(), s.resumed.Load(), s.kept.Load()}
}

func (s *sockets) close() error { return errors.Join(s.Client.Close(), s.dns.Close()) }

// crawlDNSBytes is the RAM of the DNS cache, the value of command crawl with --ram 1GiB.
const crawlDNSBytes = 16 << 20

// fetchOptions returns the client's options for any transport.
func (b *crawlBench) fetchOptions() fetch.Options {
	return fetch.Options{UserAgent: b.UserAgent,
		AllowNets: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)}}
}

// client returns the crawler's client for a server.
func (b *crawlBench) client(s *crawlServer) (*sockets, error) {
	opt := b.fetchOptions()
	opt.MapPort = func(uint16) uint16 { return s.says.Port }
	if s.says.Root != nil {
		root, err := x509.ParseCertificate(s.says.Root)
		if err != nil {
			return nil, fmt.Errorf("bench: crawl: the server's certificate: %w", err)
		}
		opt.TLS.Roots = x509.NewCertPool()
		opt.TLS.Roots.AddCert(root)
	}
	client, err := fetch.New(opt)
	if err != nil {
		return nil, err
	}
	dns, err := dnscache.New(dnscache.Options{Servers: []netip.AddrPort{s.says.DNS}, MaxBytes: crawlDNSBytes,
		Family: dnscache.Family4})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &sockets{Client: client, Resolver: b.Names(dns), dns: dns}, nil
}

// bareLoop fetches pages with the crawler's client and discards them. It uses one goroutine per connection
// that the crawl may open.
func (b *crawlBench) bareLoop(ctx context.Context, n int, client *sockets, server *crawlServer) (*Result, error) {
	b.progress("bare loop")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next, pages, bytes atomic.Int64
	var fault atomic.Pointer[error]
	var wg gosync.WaitGroup
	for g := range min(b.Connections, b.web.Roots) {
		wg.Go(func() {
			var resp fetch.Response
			for i := uint64(0); ctx.Err() == nil; i++ {
				k := uint64(next.Add(1))
				page := simweb.FlatPage{Host: uint32(k % uint64(b.web.Roots)), Index: k / uint64(b.web.Roots)}
				if b.KeepAlive > 0 { // a host's pages one after the other, as in a crawl
					page = simweb.FlatPage{Host: uint32(g), Index: i}
				}
				err := b.fetchBare(ctx, client, page, &resp)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					fault.Store(&err)
					cancel()
					return
				}
				pages.Add(1)
				bytes.Add(int64(len(resp.Body)))
			}
		})
	}
	w := window{b: b, server: server, client: client, name: fmt.Sprintf("bare-%d", n)}
	sample := func() windowCounts { return windowCounts{Pages: pages.Load(), BytesBody: bytes.Load()} }
	err := w.wait(ctx, bareWarm)
	if err == nil {
		err = w.open(sample())
	}
	if err == nil {
		err = w.wait(ctx, b.bareTime())
		err = errors.Join(err, w.shut(sample()))
	}
	cancel()
	wg.Wait()
	if p := fault.Load(); p != nil {
		err = errors.Join(*p, err)
	}
	if err != nil {
		return nil, err
	}
	return w.result("bare")
}

// wait sleeps for d or until ctx ends.
func (w *window) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bareWarm is the time before the measurement of the bare loop.
const bareWarm = 300 * time.Millisecond

func (b *crawlBench) fetchBare(ctx context.Context, client *sockets, page simweb.FlatPage, resp *fetch.Response) error {
	var name, path [96]byte
	req := fetch.Request{Scheme: "http", Host: string(b.flat.AppendHost(name[:0], page.Host)),
		PathQuery: string(b.flat.AppendPath(path[:0], page)), Addr: netip.AddrPortFrom(b.flat.AddrOf(page.Host), 80),
		KeepAlive: b.KeepAlive}
	if b.web.HTTPS {
		req.Scheme, req.Addr = "https", netip.AddrPortFrom(req.Addr.Addr(), 443)
	}
	if err := client.Do(ctx, &req, resp); err != nil {
		return err
	}
	if resp.Status != 200 || len(resp.Body) == 0 {
		return fmt.Errorf("bench: crawl: bare loop: status %d and %d bytes for %s", resp.Status,
			len(resp.Body), req.PathQuery)
	}
	return nil
}
