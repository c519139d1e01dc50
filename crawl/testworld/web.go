package testworld

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl/resolve"
)

// Answer is a response of a Web. Header consists of whole lines, with line ends. It is an alias of a struct without a
// name, so that go vet lets tests of other packages write Answer{200, "", "text"}.
type Answer = struct {
	Status       int
	Header, Body string
}

// NoRobots is the answer of a host without robots.txt.
var NoRobots = Answer{Status: http.StatusNotFound}

// Request is a request that a Web received.
type Request struct {
	Host, Path string
	At         time.Time
	Codings    string // Accept-Encoding
	Header     http.Header
}

// Web is an in-process web whose answers come from a function. It serves one request at a time.
type Web struct {
	Mu       sync.Mutex // guards Requests and Lookups, and is held during Serve and Lookup
	Requests []Request
	Lookups  int
	// Serve answers a request. host includes the port if it is not the default.
	Serve func(host, path string) Answer
	// Raw, if set, may write the whole reply itself, and then returns true.
	Raw func(c net.Conn, host, path string) bool
	// Reply, if set, answers a request before Serve, if ok.
	Reply func(req *http.Request) (a Answer, ok bool)
	// Lookup, if set, returns a host's address, or "" for OwnAddr.
	Lookup func(host string) (ip string, err error)
	// Connect, if set, replaces the connection to the server, unless it returns neither a connection nor an error.
	Connect func() (net.Conn, error)
	// TTL is the time to live of an address; zero means one hour.
	TTL time.Duration
}

// PagesOnly serves the same page everywhere and no robots.txt.
func PagesOnly(_, path string) Answer {
	if path == "/robots.txt" {
		return NoRobots
	}
	return Answer{200, "", "<html>x"}
}

// Linked serves pages that link to all urls.
func Linked(urls ...string) func(host, path string) Answer {
	page := "<html>"
	for _, u := range urls {
		page += "<a href=\"" + u + "\">x</a>"
	}
	return func(_, path string) Answer {
		if path == "/robots.txt" {
			return NoRobots
		}
		return Answer{200, "", page}
	}
}

// RawPages makes w answer with whole responses, by path. It adds their Content-Length.
func (w *Web) RawPages(pages map[string][2]string) {
	w.Serve = PagesOnly
	w.Raw = func(c net.Conn, _, path string) bool {
		p, ok := pages[path]
		if ok {
			_, _ = fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", p[0], len(p[1]), p[1])
		}
		return ok
	}
}

// LookupHost is the resolver of the web's names.
func (w *Web) LookupHost(_ context.Context, host, _ string) (resolve.Lookup, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Lookups++
	ip := ""
	if w.Lookup != nil {
		var err error
		if ip, err = w.Lookup(host); err != nil {
			return resolve.Lookup{}, &resolve.Error{Host: host, Err: err}
		}
	}
	addr := OwnAddr(host)
	if ip != "" {
		addr = netip.MustParseAddr(ip)
	}
	ttl := w.TTL
	if ttl == 0 {
		ttl = time.Hour
	}
	return resolve.Lookup{Addrs: []netip.Addr{addr}, Expires: time.Now().Add(ttl)}, nil
}

// OwnAddr returns a loopback address derived from the name.
func OwnAddr(host string) netip.Addr {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	sum := h.Sum32()
	return netip.AddrFrom4([4]byte{127, byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// Dial connects to the web's only server. Nothing listens on port 443.
func (w *Web) Dial(_ context.Context, addr netip.AddrPort) (net.Conn, error) {
	if addr.Port() == 443 {
		return nil, syscall.ECONNREFUSED
	}
	if w.Connect != nil {
		if c, err := w.Connect(); c != nil || err != nil {
			return c, err
		}
	}
	client, server := net.Pipe()
	go w.Handle(server)
	return client, nil
}

// Handle serves one request on c.
func (w *Web) Handle(c net.Conn) {
	defer func() { _ = c.Close() }()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	host, path := req.Host, req.RequestURI
	w.Mu.Lock()
	w.Requests = append(w.Requests, Request{host, path, time.Now(), req.Header.Get("Accept-Encoding"), req.Header})
	w.Mu.Unlock()
	if w.Raw != nil && w.Raw(c, host, path) {
		return
	}
	w.Mu.Lock()
	a, ok := Answer{}, false
	if w.Reply != nil {
		a, ok = w.Reply(req)
	}
	if !ok {
		a = w.Serve(host, path)
	}
	w.Mu.Unlock()
	// Ignore the error: the crawler may have closed the connection.
	const form = "HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: %d\r\n" +
		"%sConnection: close\r\n\r\n%s"
	_, _ = fmt.Fprintf(c, form, a.Status, len(a.Body), a.Header, a.Body)
}

// Got returns the requests for a host and a path; "" matches any.
func (w *Web) Got(host, path string) (rs []Request) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, r := range w.Requests {
		if (host == "" || r.Host == host) && (path == "" || r.Path == path) {
			rs = append(rs, r)
		}
	}
	return rs
}

// Pages returns the requests, other than for robots.txt, to hosts whose names start with prefix.
func (w *Web) Pages(prefix string) (rs []Request) {
	for _, r := range w.Got("", "") {
		if strings.HasPrefix(r.Host, prefix) && r.Path != "/robots.txt" {
			rs = append(rs, r)
		}
	}
	return rs
}

// Asked returns the sorted URLs of all requests to a web, including robots.txt.
func (w *Web) Asked() (urls []string) {
	for _, r := range w.Got("", "") {
		urls = append(urls, "http://"+r.Host+r.Path)
	}
	slices.Sort(urls)
	return urls
}

// Listen serves the web on a loopback address of its own, until the test ends.
func (w *Web) Listen(t *testing.T, ip string) (port uint16) {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			} else if err == nil {
				go w.Handle(c)
			}
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// URLs returns n seeds of each of the hosts prefix0.test, prefix1.test …
func URLs(prefix string, hosts, n int) (lines []string) {
	for h := range hosts {
		for i := range n {
			lines = append(lines, fmt.Sprintf("http://%s%d.test/%d", prefix, h, i))
		}
	}
	return lines
}
