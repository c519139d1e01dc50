package crawl

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/state"
)

// answer is a response of a tinyWeb. header consists of whole lines, with line ends.
type answer struct {
	status       int
	header, body string
}

// noRobots is the answer of a host without robots.txt.
var noRobots = answer{status: http.StatusNotFound}

// request is a request that a tinyWeb received.
type request struct {
	host, path string
	at         time.Time
	codings    string // Accept-Encoding
	header     http.Header
}

// tinyWeb is an in-process web whose answers come from a function. It serves one request at a time.
type tinyWeb struct {
	mu       sync.Mutex // guards requests and lookups, and is held during serve and lookup
	requests []request
	lookups  int
	// serve answers a request. host includes the port if it is not the default.
	serve func(host, path string) answer
	// raw, if set, may write the whole reply itself, and then returns true.
	raw func(c net.Conn, host, path string) bool
	// reply, if set, answers a request before serve, if ok.
	reply func(req *http.Request) (a answer, ok bool)
	// lookup, if set, returns a host's address, or "" for ownAddr.
	lookup func(host string) (ip string, err error)
	// ttl is the time to live of an address; zero means one hour.
	ttl time.Duration
}

// pagesOnly serves the same page everywhere and no robots.txt.
func pagesOnly(_, path string) answer {
	if path == "/robots.txt" {
		return noRobots
	}
	return answer{200, "", "<html>x"}
}

func (w *tinyWeb) LookupHost(_ context.Context, host, _ string) (Lookup, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	ip := ""
	if w.lookup != nil {
		var err error
		if ip, err = w.lookup(host); err != nil {
			return Lookup{}, &LookupError{Host: host, Err: err}
		}
	}
	addr := ownAddr(host)
	if ip != "" {
		addr = netip.MustParseAddr(ip)
	}
	ttl := w.ttl
	if ttl == 0 {
		ttl = time.Hour
	}
	return Lookup{Addrs: []netip.Addr{addr}, Expires: time.Now().Add(ttl)}, nil
}

// ownAddr returns a loopback address derived from the name.
func ownAddr(host string) netip.Addr {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	sum := h.Sum32()
	return netip.AddrFrom4([4]byte{127, byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// dial connects to the web's only server. Nothing listens on port 443.
func (w *tinyWeb) dial(_ context.Context, addr netip.AddrPort) (net.Conn, error) {
	if addr.Port() == 443 {
		return nil, syscall.ECONNREFUSED
	}
	client, server := net.Pipe()
	go w.handle(server)
	return client, nil
}

func (w *tinyWeb) handle(c net.Conn) {
	defer func() { _ = c.Close() }()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	host, path := req.Host, req.RequestURI
	w.mu.Lock()
	w.requests = append(w.requests, request{host, path, time.Now(), req.Header.Get("Accept-Encoding"), req.Header})
	w.mu.Unlock()
	if w.raw != nil && w.raw(c, host, path) {
		return
	}
	w.mu.Lock()
	a, ok := answer{}, false
	if w.reply != nil {
		a, ok = w.reply(req)
	}
	if !ok {
		a = w.serve(host, path)
	}
	w.mu.Unlock()
	// Ignore the error: the crawler may have closed the connection.
	const form = "HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: %d\r\n" +
		"%sConnection: close\r\n\r\n%s"
	_, _ = fmt.Fprintf(c, form, a.status, len(a.body), a.header, a.body)
}

// got returns the requests for a host and a path; "" matches any.
func (w *tinyWeb) got(host, path string) (rs []request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if (host == "" || r.host == host) && (path == "" || r.path == path) {
			rs = append(rs, r)
		}
	}
	return rs
}

// pages returns the requests, other than for robots.txt, to hosts whose names start with prefix.
func (w *tinyWeb) pages(prefix string) (rs []request) {
	for _, r := range w.got("", "") {
		if strings.HasPrefix(r.host, prefix) && r.path != "/robots.txt" {
			rs = append(rs, r)
		}
	}
	return rs
}

// options returns the options of a crawl of w with the program's default delays, on fs.
func (w *tinyWeb) options(t testing.TB, fs disk.FS, seeds ...string) Options {
	t.Helper()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	client, err := fetch.New(fetch.Options{Dial: w.dial, AllowNets: loopback})
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		FS: fs, Dirs: []string{"d0", "d1"}, SeedLines: seeds, Agent: "drumbeat", Contact: "test@example.org",
		Resolver: w, Fetcher: client, RAMBytes: 128 << 20, DiskBytes: 10 << 30, Connections: 200, Retries: 3,
		HostDelay: 40 * time.Second, HostDelayMin: time.Second,
		ServerDelay: time.Second, ServerDelayMin: 200 * time.Millisecond,
		MaxDepth: Unlimited, Linger: time.Minute, CheckpointEvery: time.Hour, Store: true, CrawlLog: state.LogAll,
	}
}

// atOnce removes all delays.
func atOnce(o *Options) { o.HostDelay, o.HostDelayMin, o.ServerDelay, o.ServerDelayMin = 0, 0, 0, 0 }

// mustRun runs a crawl to its end.
func mustRun(t *testing.T, ctx context.Context, opt Options) *Result {
	t.Helper()
	res, err := Run(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// urls returns n seeds of each of the hosts prefix0.test, prefix1.test …
func urls(prefix string, hosts, n int) (lines []string) {
	for h := range hosts {
		for i := range n {
			lines = append(lines, fmt.Sprintf("http://%s%d.test/%d", prefix, h, i))
		}
	}
	return lines
}
