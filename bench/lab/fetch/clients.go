package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	gosync "sync"
	"time"

	"github.com/valyala/fasthttp"

	"drumbeat/fetch"
)

// Clients are the names of the clients that can be measured: ours, that of net/http, that of fasthttp, and bare, which
// does no more than to dial, to write a request and to read as many bytes as are known to come.
func Clients() []string { return []string{clientOurs, "nethttp", "fasthttp", clientBare} }

const (
	clientOurs, clientBare = "ours", "bare"
	// fetchTimeout ends what hangs.
	fetchTimeout = 30 * time.Second
)

// errFetched is a page that isn't the one served.
var errFetched = errors.New("not the page that is served")

// fetchClient fetches the page. A worker belongs to one goroutine.
type fetchClient interface {
	worker(ctx context.Context, i int) fetchWorker
	close() error
}

// fetchWorker fetches the page once, from an address that n says.
type fetchWorker func(n int) error

// newFetchClient returns the client of a name.
func newFetchClient(name string, form Form, s *fetchServer) (fetchClient, error) {
	roots, err := s.rootsOf(form.Scheme)
	if err != nil {
		return nil, err
	}
	b := fetchBase{form: form, s: s, path: pathPlain, roots: roots}
	if form.Coding == codingGzip {
		b.path = pathGzip
	}
	switch name {
	case clientOurs:
		return newOursClient(b)
	case "nethttp":
		return newNetHTTPClient(b), nil
	case "fasthttp":
		return newFastHTTPClient(b), nil
	}
	c := &bareClient{fetchBase: b}
	if form.Scheme != schemeHTTP {
		c.tls = b.bareTLS()
	}
	return c, nil
}

// fetchBase is what all clients know.
type fetchBase struct {
	form  Form
	s     *fetchServer
	path  string
	roots *x509.CertPool
}

// at is the address of worker i for its n-th request: another one each time if connections are new, else always the same.
func (b *fetchBase) at(i, n int) int {
	if b.form.Keep {
		return i % fetchAddresses
	}
	return (i + n) % fetchAddresses
}

// urls are those of the page, by address.
func (b *fetchBase) urls() []string {
	u := make([]string, fetchAddresses)
	for i := range u {
		u[i] = urlScheme(b.form.Scheme) + "://" + b.s.address(b.form.Scheme, i).String() + b.path
	}
	return u
}

// crew has goroutines fetch for some time, and returns how many pages they got.
func crew(ctx context.Context, goroutines int, d time.Duration, c fetchClient) (int64, error) {
	end := time.Now().Add(d)
	var all gosync.WaitGroup
	counts, errs := make([]int64, goroutines), make([]error, goroutines)
	for i := range goroutines {
		all.Go(func() {
			do := c.worker(ctx, i)
			for n := 0; ctx.Err() == nil && errs[i] == nil && time.Now().Before(end); n++ {
				errs[i] = do(n)
				counts[i]++
			}
		})
	}
	all.Wait()
	var sum int64
	for _, n := range counts {
		sum += n
	}
	return sum, errors.Join(append(errs, ctx.Err())...)
}

// oursClient is package fetch.
type oursClient struct {
	fetchBase
	c *fetch.Client
}

func newOursClient(b fetchBase) (*oursClient, error) {
	sessions := -1
	if b.form.Resume {
		sessions = 0 // the default
	}
	c, err := fetch.New(fetch.Options{UserAgent: "bench", Ports: b.s.Ports[b.form.Scheme],
		TLS: fetch.TLSOptions{Require: true, Roots: b.roots, Sessions: sessions}, AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, IdleConns: b.form.Goroutines + 1})
	return &oursClient{fetchBase: b, c: c}, err
}

func (c *oursClient) worker(ctx context.Context, i int) fetchWorker {
	var resp fetch.Response
	req := fetch.Request{Scheme: urlScheme(c.form.Scheme), PathQuery: c.path}
	if c.form.Keep {
		req.KeepAlive = fetchTimeout
	}
	hosts := make([]string, fetchAddresses)
	for j := range hosts {
		hosts[j] = fetchHost(j)
		if c.form.Keep {
			hosts[j] = fetchHost(i) // of a host one connection is kept
		}
	}
	return func(n int) error {
		at := c.at(i, n)
		req.Host, req.Addr = hosts[at], c.s.address(c.form.Scheme, at)
		req.Port = req.Addr.Port()
		if err := c.c.Do(ctx, &req, &resp); err != nil {
			return err
		}
		if resp.Status != 200 || len(resp.Body) != c.s.page {
			return errFetched
		}
		return nil
	}
}

func (c *oursClient) close() error { return c.c.Close() }

// netHTTPClient is net/http. Each goroutine has its own buffer; connections are the library's.
type netHTTPClient struct {
	fetchBase
	c *http.Client
}

func newNetHTTPClient(b fetchBase) *netHTTPClient {
	t := &http.Transport{
		DisableKeepAlives: !b.form.Keep, DisableCompression: b.form.Coding == codingIdentity, MaxIdleConns: 2 * b.form.Goroutines,
		MaxIdleConnsPerHost: 2 * b.form.Goroutines, TLSClientConfig: b.libraryTLS(),
	}
	return &netHTTPClient{fetchBase: b, c: &http.Client{Transport: t, Timeout: fetchTimeout}}
}

func (c *netHTTPClient) worker(ctx context.Context, i int) fetchWorker {
	urls := c.urls()
	var body bytes.Buffer
	return func(n int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, urls[c.at(i, n)], nil)
		if err != nil {
			return err
		}
		resp, err := c.c.Do(req)
		if err != nil {
			return err
		}
		body.Reset()
		_, err = body.ReadFrom(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if body.Len() != c.s.page {
			return errFetched
		}
		return nil
	}
}

func (c *netHTTPClient) close() error {
	c.c.CloseIdleConnections()
	return nil
}

// fastHTTPClient is fasthttp's client.
type fastHTTPClient struct {
	fetchBase
	c *fasthttp.Client
}

func newFastHTTPClient(b fetchBase) *fastHTTPClient {
	return &fastHTTPClient{fetchBase: b, c: &fasthttp.Client{
		MaxConnsPerHost: 2 * b.form.Goroutines, ReadTimeout: fetchTimeout, WriteTimeout: fetchTimeout,
		TLSConfig: b.libraryTLS(),
	}}
}

func (c *fastHTTPClient) worker(_ context.Context, i int) fetchWorker {
	urls := c.urls()
	var req fasthttp.Request
	var resp fasthttp.Response
	var body []byte
	return func(n int) (err error) {
		req.Reset()
		resp.Reset()
		req.SetRequestURI(urls[c.at(i, n)])
		if !c.form.Keep {
			req.SetConnectionClose()
		}
		if err := c.c.Do(&req, &resp); err != nil {
			return err
		}
		body = resp.Body()
		if c.form.Coding == codingGzip {
			if body, err = resp.BodyGunzip(); err != nil {
				return err
			}
		}
		if len(body) != c.s.page {
			return errFetched
		}
		return nil
	}
}

func (c *fastHTTPClient) close() error {
	c.c.CloseIdleConnections()
	return nil
}

// bareClient is the floor: what package net can do and nothing else. It knows how many bytes come, doesn't look at them,
// and asks for no timers or contexts.
type bareClient struct {
	fetchBase
	tls  *tls.Config  // nil without TLS
	mu   gosync.Mutex // guards kept
	kept []net.Conn   // to be closed at the end
}

func (c *bareClient) worker(_ context.Context, i int) fetchWorker {
	request := "GET " + c.path + " HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: bench\r\n"
	if !c.form.Keep {
		request += "Connection: close\r\n"
	}
	head := []byte(request + "\r\n")
	want := c.s.replyBytes(c.path, c.form.Keep)
	buf := make([]byte, 64<<10)
	addrs := make([]string, fetchAddresses)
	for j := range addrs {
		addrs[j] = c.s.address(c.form.Scheme, j).String()
	}
	var kept net.Conn
	return func(n int) error {
		conn := kept
		if conn == nil {
			var err error
			if conn, err = c.dial(addrs[c.at(i, n)]); err != nil {
				return err
			}
		}
		err := bareExchange(conn, head, buf, want)
		if c.form.Keep && err == nil {
			if kept == nil {
				kept = conn
				c.mu.Lock()
				c.kept = append(c.kept, conn)
				c.mu.Unlock()
			}
			return nil
		}
		if t, ok := conn.(*tls.Conn); ok {
			conn = t.NetConn() // no farewell
		}
		return errors.Join(err, conn.Close())
	}
}

// dial is the leanest that package net has: Dialer.DialTCP without a local address would bind one.
func (c *bareClient) dial(addr string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.Dial("tcp4", addr)
	if err == nil && c.tls != nil {
		return tls.Client(conn, c.tls), nil
	}
	return conn, err
}

func (c *bareClient) close() error {
	var errs []error
	for _, conn := range c.kept {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// bareExchange writes a request and reads so many bytes.
func bareExchange(conn io.ReadWriter, request, buf []byte, want int) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	for want > 0 {
		n, err := conn.Read(buf)
		if want -= n; err != nil && want > 0 {
			return err
		}
	}
	if want < 0 {
		return errFetched
	}
	return nil
}

// replyBytes is the length of a whole reply.
func (s *fetchServer) replyBytes(path string, kept bool) int {
	body, more := s.page, ""
	if path == pathGzip {
		body, more = s.GzipBytes, "Content-Encoding: gzip\r\n"
	}
	r := newFetchReply(nil, more)
	n := len(r.closed)
	if kept {
		n = len(r.kept)
	}
	return n - len("0") + len(strconv.Itoa(body)) + body
}
