package fetch

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/internal/pace"
)

// serveHTTP2 runs the standard library's server with HTTP/2. It returns a counter of its connections.
func serveHTTP2(t testing.TB, handle http.HandlerFunc) (addr netip.AddrPort, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	s := httptest.NewUnstartedServer(handle)
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).AddrPort(), conns
}

func http2Client(t testing.TB, addr netip.AddrPort, opt Options) (*Client, *Request) {
	t.Helper()
	opt.HTTP2 = true
	c, req := loopbackClient(t, addr, opt)
	req.Scheme, req.KeepAlive = "https", time.Minute
	return c, req
}

// siteHTTP2 is a site with replies of many forms.
func siteHTTP2(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	switch n, _ := strconv.Atoi(r.URL.Query().Get("n")); r.URL.Path {
	case "/page":
		h.Set("Content-Length", strconv.Itoa(n))
		io.WriteString(w, strings.Repeat("x", n))
	case "/flushes":
		for i := range n {
			fmt.Fprintf(w, "%d,", i)
			w.(http.Flusher).Flush()
		}
	case "/gzip":
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, strings.Repeat("page ", n))
		z.Close()
	case "/moved":
		h.Set("Location", "/page?n=1")
		w.WriteHeader(http.StatusMovedPermanently)
	case "/same":
		w.WriteHeader(http.StatusNotModified)
	case "/empty":
		w.WriteHeader(http.StatusNoContent)
	case "/nothing":
	case "/early":
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "late")
	case "/trailer":
		h.Set("Trailer", "X-Sum")
		io.WriteString(w, "summed")
		h.Set("X-Sum", "1")
	case "/short":
		h.Set("Content-Length", strconv.Itoa(n))
		io.WriteString(w, "short")
	case "/cookies":
		h.Add("Set-Cookie", "a=b")
		h.Add("Set-Cookie", "c=d")
		fmt.Fprintf(w, "%s %s %s %v", r.Proto, r.Host, r.RequestURI, r.Header)
	default:
		http.Error(w, "no such page", http.StatusNotFound)
	}
}

// TestHTTP2 reads replies of all forms from the standard library's server, on one connection.
func TestHTTP2(t *testing.T) {
	addr, conns := serveHTTP2(t, siteHTTP2)
	c, req := http2Client(t, addr, Options{UserAgent: "drumbeat/1", From: "a@example.org"})
	flushes := ""
	for i := range 1000 {
		flushes += fmt.Sprint(i, ",")
	}
	var resp Response
	for i, tt := range []struct {
		path   string
		status int
		body   string
		marks  Flaws
	}{
		{path: "/page?n=10", status: 200, body: "xxxxxxxxxx"},
		{path: "/page?n=0", status: 200},
		{path: "/page?n=1999999", status: 200, body: strings.Repeat("x", 1999999)},
		{path: "/flushes?n=1000", status: 200, body: flushes},
		{path: "/gzip?n=5000", status: 200, body: strings.Repeat("page ", 5000)},
		{path: "/moved", status: 301},
		{path: "/same", status: 304},
		{path: "/empty", status: 204},
		{path: "/nothing", status: 200},
		{path: "/early", status: 200, body: "late", marks: FlawInterim},
		{path: "/trailer", status: 200, body: "summed"},
		{path: "/none", status: 404, body: "no such page\n"},
		{path: "/" + strings.Repeat("long", 10000), status: 404, body: "no such page\n"},
	} {
		req.PathQuery = tt.path
		err := c.Do(t.Context(), req, &resp)
		if err != nil || resp.Status != tt.status || string(resp.Body) != tt.body || resp.Proto != ProtoHTTP2 ||
			resp.Truncated != NotTruncated || resp.Flaws != tt.marks || !resp.Kept || resp.Reused != (i > 0) {
			t.Errorf("%.20s: got %v, %d %.20q (%d bytes), %s, %q, marks %b, kept %v, reused %v", tt.path,
				err, resp.Status, resp.Body, len(resp.Body), resp.Proto, resp.Truncated, resp.Flaws,
				resp.Kept, resp.Reused)
		}
		if resp.BytesRead < int64(len(resp.Raw)) || resp.BytesWritten < 10 || resp.FirstByte <= 0 {
			t.Errorf("%.20s: %d bytes read, %d written, %v", tt.path, resp.BytesRead, resp.BytesWritten, resp.FirstByte)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestHTTP2Record: the request and the reply are stored as such of HTTP/1.1.
func TestHTTP2Record(t *testing.T) {
	addr, _ := serveHTTP2(t, siteHTTP2)
	c, req := http2Client(t, addr, Options{UserAgent: "drumbeat/1", From: "a@example.org", AcceptLanguage: "de"})
	req.PathQuery, req.KeepAlive, req.IfNoneMatch = "/cookies?a=%zz&b", 0, `"tag"`
	var resp Response
	if err := c.Do(t.Context(), req, &resp); err != nil || resp.Kept {
		t.Fatal(err, resp.Kept)
	}
	want := "HTTP/2.0 example.org /cookies?a=%zz&b map[Accept:[text/html,application/xhtml+xml,*/*;q=0.8] " +
		"Accept-Encoding:[gzip] Accept-Language:[de] From:[a@example.org] If-None-Match:[\"tag\"] " +
		"User-Agent:[drumbeat/1]]"
	if string(resp.Body) != want {
		t.Errorf("the server saw %s\nwant %s", resp.Body, want)
	}
	head := string(resp.RawHead)
	if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(head, "\r\n\r\n") ||
		!strings.Contains(head, "\r\nset-cookie: a=b\r\nset-cookie: c=d\r\n") ||
		string(resp.Header("Content-Type")) != "text/html; charset=utf-8" {
		t.Errorf("head %q", head)
	}
	r, err := http.ReadRequest(newReader(string(resp.RequestHead)))
	if err != nil || r.URL.RequestURI() != req.PathQuery || r.Close || r.Proto != "HTTP/1.1" {
		t.Errorf("request %q: %v", resp.RequestHead, err)
	}
	if p, err := http.ReadResponse(newReader(string(resp.Raw)), r); err != nil || p.ContentLength != int64(len(want)) {
		t.Errorf("response %q: %v", resp.Raw, err)
	}
}

// TestHTTP2Chosen: without Options.HTTP2, or if the server does not know it, HTTP/1.1 is spoken.
func TestHTTP2Chosen(t *testing.T) {
	both, _ := serveHTTP2(t, siteHTTP2)
	cert := testCert(t, nil, time.Now().Add(time.Hour), "example.org")
	old := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"http/1.1"}})
	none := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{*cert}})
	for _, tt := range []struct {
		addr  netip.AddrPort
		on    bool
		proto string
	}{{both, true, ProtoHTTP2}, {both, false, "HTTP/1.1"}, {old, true, "HTTP/1.1"}, {none, true, "HTTP/1.1"}} {
		c, req := loopbackClient(t, tt.addr, Options{HTTP2: tt.on})
		req.Scheme, req.PathQuery = "https", "/page?n=2"
		var resp Response
		if err := c.Do(t.Context(), req, &resp); err != nil || resp.Proto != tt.proto || len(resp.Body) != 2 {
			t.Errorf("%v: got %v, %s, %q; want %s", tt, err, resp.Proto, resp.Body, tt.proto)
		}
	}
}

// TestHTTP2Limits: bodies are cut, refused and spooled as over HTTP/1.1. The connection is closed if the body
// did not arrive whole.
func TestHTTP2Limits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	addr, _ := serveHTTP2(t, siteHTTP2)
	lim := Limits{BodyBytes: 4 << 20, HeldBytes: 1 << 20}
	for _, tt := range []struct {
		path          string
		limit         func(*Response, []byte) int64
		spool         bool
		bytes         int
		trunc         Reason
		kept, refused bool
	}{
		{path: "/page?n=1048576", bytes: 1 << 20, kept: true},
		{path: "/page?n=1048577", bytes: 1 << 20, trunc: TruncatedLength},
		{path: "/flushes?n=300000", bytes: 1 << 20, trunc: TruncatedLength},
		{path: "/page?n=3000000", spool: true, bytes: 3000000, kept: true},
		{path: "/page?n=5000000", spool: true, bytes: 4 << 20, trunc: TruncatedLength},
		{path: "/flushes?n=300000", spool: true, bytes: 1988890, kept: true},
		{path: "/page?n=5000", limit: func(*Response, []byte) int64 { return 1000 }, bytes: 1000,
			trunc: TruncatedLength},
		{path: "/page?n=5000", limit: func(*Response, []byte) int64 { return NoBody }, trunc: TruncatedLength,
			refused: true},
		{path: "/nothing", limit: func(*Response, []byte) int64 { return NoBody }, kept: true},
		{path: "/page?n=5000", limit: func(_ *Response, begin []byte) int64 {
			if begin == nil {
				return LookFirst
			}
			return NoBody
		}, bytes: LookBytes, trunc: TruncatedLength, refused: true},
		{path: "/short?n=100", bytes: 5, trunc: TruncatedDisconnect},
	} {
		c, req := http2Client(t, addr, Options{Limits: lim})
		req.PathQuery, req.BodyLimit = tt.path, tt.limit
		spool := new(testSpool)
		if tt.spool {
			req.Spool = spool.open
		}
		var resp Response
		err := c.Do(t.Context(), req, &resp)
		n := len(resp.RawBody)
		if resp.Spill != nil {
			n = int(resp.SpoolBytes)
		}
		if refused := resp.Flaws&FlawBodyRefused != 0; err != nil || n != tt.bytes || resp.Truncated != tt.trunc ||
			resp.Kept != tt.kept || refused != tt.refused || (resp.Spill != nil) != tt.spool ||
			spool.Len() != len(spool.Bytes()) {
			t.Errorf("%s: got %v, %d bytes, %q, kept %v, refused %v; want %+v", tt.path, err, n,
				resp.Truncated, resp.Kept, refused, tt)
		}
		resp.Reset()
	}
}

// TestHTTP2Shutdown: a server that ended the connection between requests, politely or not, costs a new
// connection and no request. The server sees each request once.
func TestHTTP2Shutdown(t *testing.T) {
	var seen atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		siteHTTP2(w, r)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	c, req := http2Client(t, s.Listener.Addr().(*net.TCPAddr).AddrPort(), Options{})
	var resp Response
	for i := range 3 {
		req.PathQuery = "/page?n=7"
		if err := c.Do(t.Context(), req, &resp); err != nil || len(resp.Body) != 7 || !resp.Kept {
			t.Fatalf("%d: %v, %q, kept %v", i, err, resp.Body, resp.Kept)
		}
		s.CloseClientConnections()
	}
	if n := seen.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// TestHTTP2Throttled: the bandwidth limit counts the bytes of HTTP/2, and delays a body.
func TestHTTP2Throttled(t *testing.T) {
	addr, _ := serveHTTP2(t, siteHTTP2)
	c, req := http2Client(t, addr, Options{Limiter: pace.NewBandwidth(pace.Plain(pace.Bits, 64<<20), time.Now())})
	req.PathQuery = "/page?n=600000"
	var resp Response
	if err := c.Do(t.Context(), req, &resp); err != nil || len(resp.Body) != 600000 || resp.Received < 600000 {
		t.Errorf("got %v, %d bytes, %d counted", err, len(resp.Body), resp.Received)
	}
}

// TestHTTP2Canceled: a context that ends during a body ends the exchange.
func TestHTTP2Canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	addr, _ := serveHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		cancel()
		<-stop
	})
	defer close(stop)
	c, req := http2Client(t, addr, Options{})
	var resp Response
	err, _ := c.Do(ctx, req, &resp).(*Error)
	if err == nil || err.Kind != KindCanceled || c.Idle() != 0 {
		t.Errorf("got %v, %d idle connections", err, c.Idle())
	}
}

// TestHTTP2Slow: the limits on time hold for a silent server and for a body that stalls.
func TestHTTP2Slow(t *testing.T) {
	stop := make(chan struct{})
	addr, _ := serveHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stall" {
			io.WriteString(w, "begin")
			w.(http.Flusher).Flush()
		}
		<-stop
	})
	defer close(stop)
	var resp Response
	c, req := http2Client(t, addr, Options{Limits: Limits{FirstByte: 50 * time.Millisecond}})
	err, _ := c.Do(t.Context(), req, &resp).(*Error)
	if err == nil || err.Kind != KindTimeout || err.Stage != StageFirstByte {
		t.Errorf("silent: got %v", err)
	}
	c, req = http2Client(t, addr, Options{Limits: Limits{Grace: 50 * time.Millisecond, MinRate: 1 << 20}})
	req.PathQuery = "/stall"
	if err := c.Do(t.Context(), req, &resp); err != nil || resp.Truncated != TruncatedTime ||
		string(resp.Body) != "begin" {
		t.Errorf("stall: got %v, %q, %q", err, resp.Truncated, resp.Body)
	}
}

func newReader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }
