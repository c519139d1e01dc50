package bareloop

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"drumbeat/disk"
	"drumbeat/warc"
)

const html = "<a href=/x>x</a> <a href=/y>y</a> <a href=/x#z>x</a>"

// testServer serves pages, as gzip unless the path begins with /plain, and counts requests, the most at
// once, and connections. It closes the connection after the fifth request.
type testServer struct {
	asked, running, most, conns atomic.Int64
	addr                        netip.AddrPort
}

func newTestServer(t *testing.T) *testServer {
	var page bytes.Buffer
	z := gzip.NewWriter(&page)
	fmt.Fprint(z, html)
	z.Close()
	s := new(testServer)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.most.Store(max(s.most.Load(), s.running.Add(1)))
		defer s.running.Add(-1)
		if s.asked.Add(1) == 5 {
			w.Header().Set("Connection", "close")
		}
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.URL.Path == "/missing":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, html)
		case r.URL.Path == "/text":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, html)
		case strings.HasPrefix(r.URL.Path, "/plain"):
			fmt.Fprint(w, html)
		default:
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(page.Bytes())
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s.addr = netip.MustParseAddrPort(server.Listener.Addr().String())
	return s
}

func (s *testServer) list(targets ...string) (list []Request) {
	for _, target := range targets {
		list = append(list, Request{s.addr, "a.test:80", target})
	}
	return list
}

// TestSerial: with one connection there is one request at a time, over one connection until the server
// closes it.
func TestSerial(t *testing.T) {
	s := newTestServer(t)
	sum, err := Run(context.Background(), s.list(slices.Repeat([]string{"/a", "/plain"}, 10)...),
		Options{Connections: 1})
	if want := (Counts{Responses: 20, Bytes: 20 * int64(len(html)), Links: 40}); err != nil || sum != want {
		t.Errorf("got %+v (%v), want %+v", sum, err, want)
	}
	if s.asked.Load() != 20 || s.conns.Load() != 2 || s.most.Load() != 1 {
		t.Errorf("got %d requests, %d at once, over %d connections; want 20, 1, 2", s.asked.Load(), s.most.Load(),
			s.conns.Load())
	}
}

// TestStore: every response is in the WARC files, whatever its status and type, in one record. Links are
// those of HTML.
func TestStore(t *testing.T) {
	s := newTestServer(t)
	dir := t.TempDir()
	targets := []string{"/missing", "/text"}
	for i := range 499 {
		targets = append(targets, fmt.Sprintf("/%d", i), fmt.Sprintf("/plain%d", i))
	}
	sum, err := Run(context.Background(), s.list(targets...), Options{Connections: 16, Store: dir})
	if err != nil || sum.Responses != 1000 || sum.Links != 2*999 || s.conns.Load() > 17 {
		t.Fatalf("got %+v over %d connections (%v), want 1000 responses with 1998 links over 17 at most", sum,
			s.conns.Load(), err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz.open"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got files %q (%v), want one", names, err)
	}
	var got []string
	err = warc.ReadFile(disk.OS(), names[0], 1<<20, func(r *warc.Record) error {
		if r.Type() == "response" {
			got = append(got, strings.TrimPrefix(r.Get("WARC-Target-URI"), "http://a.test:80"))
		}
		return nil
	})
	slices.Sort(got)
	slices.Sort(targets)
	if err != nil || !slices.Equal(got, targets) {
		t.Errorf("got records %q (%v), want %q", got, err, targets)
	}
}

func TestErrors(t *testing.T) {
	s := newTestServer(t)
	if _, err := Run(context.Background(), nil, Options{}); err == nil {
		t.Error("no connections: got no error")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if sum, err := Run(ctx, s.list("/a"), Options{Connections: 1}); err == nil || sum.Responses != 0 {
		t.Errorf("cancelled: got %d responses, error %v", sum.Responses, err)
	}
	for name, text := range map[string]string{
		"no length":   "HTTP/1.1 200 OK\r\n\r\nabc",
		"bad length":  "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc",
		"short body":  "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
		"empty":       "",
		"old version": "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"no status":   "HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
	} {
		if err := new(response).read(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	w := &worker{response: response{body: []byte("not gzip"), coded: true}}
	if _, err := w.decode(); err == nil {
		t.Error("a body that is no gzip: got no error")
	}
}
