package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"drumbeat/fetch"
	"drumbeat/internal/cputime"
	"drumbeat/internal/ports"
)

// fetchForm is a way to fetch a page repeatedly.
type fetchForm struct {
	scheme, path string
	conn         string // new, resumed (new connections whose handshakes resume sessions) or kept
	goroutines   int
}

func (f fetchForm) keep() bool { return f.conn == "kept" }

// at returns the address of the n-th request of goroutine g: a different one each time for new connections,
// otherwise always the same.
func (f fetchForm) at(g, n int) int {
	if f.keep() {
		return g % fetchAddresses
	}
	return (g + n) % fetchAddresses
}

// errPage means that a page isn't the one served.
var errPage = errors.New("not the page that is served")

// fetchWorker makes one fetch of the page, the n-th of its goroutine.
type fetchWorker func(n int) error

// BenchmarkFetch fetches a page of 25 kB with package fetch, net/http, fasthttp's client and a bare loop on
// connections that knows the number of bytes and examines none of them. The server closes first. The bare
// loop verifies no certificate, offers only X25519 and doesn't gunzip. Ours requires a valid chain; the
// others have their library's defaults. Targets for ours: 1.25 times the CPU of the bare loop over new
// connections without TLS; 450 µs more with a full handshake.
func BenchmarkFetch(b *testing.B) {
	s := startFetchServer(b)
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // as in command crawl
	for _, form := range []fetchForm{
		{schemeHTTP, pathPlain, "new", 1}, {schemeHTTP, pathPlain, "new", 64}, {schemeHTTP, pathGzip, "new", 64},
		{schemeHTTP, pathPlain, "kept", 1}, {schemeHTTP, pathPlain, "kept", 64},
		{schemeHTTPS, pathPlain, "new", 64}, {schemeHTTPS, pathPlain, "resumed", 64}, {schemeHTTPS, pathPlain, "kept", 64},
	} {
		for _, c := range []struct {
			name string
			open func(*testing.B, *fetchServer, fetchForm) func(g int) fetchWorker
		}{{"ours", oursFetches}, {"nethttp", netHTTPFetches}, {"fasthttp", fastHTTPFetches}, {"bare", bareFetches}} {
			name := fmt.Sprintf("scheme=%s/conn=%s/path=%s/goroutines=%d/by=%s", form.scheme, form.conn, form.path[1:], form.goroutines, c.name)
			b.Run(name, func(b *testing.B) { fetchAll(b, form.goroutines, c.open(b, s, form)) })
		}
	}
}

// fetchAll fetches b.N pages in several goroutines, after a warm-up for each address that fills pools and
// sessions and verifies chains.
func fetchAll(b *testing.B, goroutines int, worker func(g int) fetchWorker) {
	crew := make([]fetchWorker, goroutines)
	for g := range crew {
		crew[g] = worker(g)
	}
	run := func(pages int64) {
		var all sync.WaitGroup
		var left atomic.Int64
		left.Store(pages)
		for _, do := range crew {
			all.Go(func() {
				for n := 0; left.Add(-1) >= 0; n++ {
					if err := do(n); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	run(4 * fetchAddresses)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cputime.Process()
	run(int64(b.N))
	b.ReportMetric(float64(cputime.Process()-cpu)/float64(b.N), "cpu-ns/op")
}

func (s *fetchServer) roots(b *testing.B) *x509.CertPool {
	root, err := x509.ParseCertificate(s.Root)
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return pool
}

// clientTLS returns the library's default configuration, with a session cache if the form requires one.
func (s *fetchServer) clientTLS(b *testing.B, form fetchForm) *tls.Config {
	cfg := &tls.Config{RootCAs: s.roots(b), ServerName: fetchHost(0)}
	if form.conn == "resumed" {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return cfg
}

// urls returns the page's URLs, by address.
func (s *fetchServer) urls(form fetchForm) (urls []string) {
	for i := range fetchAddresses {
		urls = append(urls, form.scheme+"://"+s.address(form.scheme, i).String()+form.path)
	}
	return urls
}

func oursFetches(b *testing.B, s *fetchServer, form fetchForm) func(g int) fetchWorker {
	sessions := -1
	if form.conn == "resumed" {
		sessions = 0 // means the default
	}
	c, err := fetch.New(fetch.Options{UserAgent: "bench", Ports: ports.Of(s.Ports[form.scheme]...), IdleConns: form.goroutines + 1,
		TLS:       fetch.TLSOptions{Require: true, Roots: s.roots(b), Sessions: sessions},
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return func(g int) fetchWorker {
		var resp fetch.Response
		req := fetch.Request{Scheme: form.scheme, PathQuery: form.path}
		hosts := make([]string, fetchAddresses)
		for i := range hosts {
			hosts[i] = fetchHost(i)
			if form.keep() {
				hosts[i], req.KeepAlive = fetchHost(g), time.Minute // one connection per host is kept
			}
		}
		return func(n int) error {
			at := form.at(g, n)
			req.Host, req.Addr = hosts[at], s.address(form.scheme, at)
			req.Port = req.Addr.Port()
			if err := c.Do(b.Context(), &req, &resp); err != nil {
				return err
			}
			return isServed(resp.Status, len(resp.Body))
		}
	}
}

func isServed(status, bytes int) error {
	if status != 200 || bytes != pageBytes {
		return errPage
	}
	return nil
}

func netHTTPFetches(b *testing.B, s *fetchServer, form fetchForm) func(g int) fetchWorker {
	t := &http.Transport{DisableKeepAlives: !form.keep(), DisableCompression: form.path != pathGzip, MaxIdleConns: 2 * form.goroutines,
		MaxIdleConnsPerHost: 2 * form.goroutines, TLSClientConfig: s.clientTLS(b, form)}
	b.Cleanup(t.CloseIdleConnections)
	c, urls := &http.Client{Transport: t}, s.urls(form)
	return func(g int) fetchWorker {
		var body bytes.Buffer
		return func(n int) error {
			resp, err := c.Get(urls[form.at(g, n)])
			if err != nil {
				return err
			}
			body.Reset()
			_, err = body.ReadFrom(resp.Body)
			return errors.Join(err, resp.Body.Close(), isServed(resp.StatusCode, body.Len()))
		}
	}
}

func fastHTTPFetches(b *testing.B, s *fetchServer, form fetchForm) func(g int) fetchWorker {
	c, urls := &fasthttp.Client{MaxConnsPerHost: 2 * form.goroutines, TLSConfig: s.clientTLS(b, form)}, s.urls(form)
	b.Cleanup(c.CloseIdleConnections)
	return func(g int) fetchWorker {
		var req fasthttp.Request
		var resp fasthttp.Response
		return func(n int) (err error) {
			req.Reset()
			resp.Reset()
			req.SetRequestURI(urls[form.at(g, n)])
			if !form.keep() {
				req.SetConnectionClose()
			}
			if err := c.Do(&req, &resp); err != nil {
				return err
			}
			body := resp.Body()
			if form.path == pathGzip {
				if body, err = resp.BodyGunzip(); err != nil {
					return err
				}
			}
			return isServed(resp.StatusCode(), len(body))
		}
	}
}

func bareFetches(b *testing.B, s *fetchServer, form fetchForm) func(g int) fetchWorker {
	request, reply := "GET "+form.path+" HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: bench\r\n", s.Replies[form.path+" keep-alive"]
	if !form.keep() {
		request, reply = request+"Connection: close\r\n", s.Replies[form.path+" close"]
	}
	cfg := s.clientTLS(b, form)
	cfg.InsecureSkipVerify, cfg.CurvePreferences, cfg.MinVersion = true, []tls.CurveID{tls.X25519}, tls.VersionTLS13
	head := []byte(request + "\r\n")
	return func(g int) fetchWorker {
		buf := make([]byte, 64<<10)
		var kept net.Conn
		b.Cleanup(func() {
			if kept != nil {
				kept.Close()
			}
		})
		return func(n int) (err error) {
			if kept != nil {
				return exchange(kept, head, buf, reply)
			}
			// The leanest call of package net: Dialer.DialTCP without a local address would bind one.
			raw, err := (&net.Dialer{KeepAlive: -1}).Dial("tcp4", s.address(form.scheme, form.at(g, n)).String())
			if err != nil {
				return err
			}
			conn := raw
			if form.scheme == schemeHTTPS {
				conn = tls.Client(raw, cfg)
			}
			if err = exchange(conn, head, buf, reply); err == nil && form.keep() {
				kept = conn
				return nil
			}
			return errors.Join(err, raw.Close()) // without TLS close_notify
		}
	}
}
