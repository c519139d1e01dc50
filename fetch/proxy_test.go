package fetch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// testProxy is a proxy of both kinds on loopback, which notes where it connected to.
type testProxy struct {
	addr   netip.AddrPort
	user   string // "user:password"; "": none
	refuse int    // answer with this status or code instead

	mu    sync.Mutex
	asked []string
}

func (p *testProxy) note(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, to)
}

func (p *testProxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func startProxy(t *testing.T, user string, refuse int) *testProxy {
	p := &testProxy{user: user, refuse: refuse}
	p.addr = listen(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		first, err := r.Peek(1)
		if err != nil {
			return
		}
		to, ok := "", false
		if first[0] == socksVersion {
			to, ok = p.socks(r, conn)
		} else {
			to, ok = p.connect(r, conn)
		}
		if !ok {
			return
		}
		p.note(to)
		site, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer site.Close()
		var wait sync.WaitGroup
		wait.Go(func() {
			io.Copy(site, r)
			site.(*net.TCPConn).CloseWrite()
		})
		io.Copy(conn, site)
		conn.Close()
		wait.Wait()
	})
	return p
}

func (p *testProxy) connect(r *bufio.Reader, w io.Writer) (to string, ok bool) {
	req, err := http.ReadRequest(r)
	if err != nil || req.Method != "CONNECT" {
		return "", false
	}
	as := &http.Request{Header: http.Header{"Authorization": req.Header["Proxy-Authorization"]}}
	user, password, _ := as.BasicAuth()
	switch {
	case p.user != "" && user+":"+password != p.user:
		io.WriteString(w, "HTTP/1.1 407 Who?\r\nContent-Length: 2\r\n\r\nno")
		return "", false
	case p.refuse > 0:
		fmt.Fprintf(w, "HTTP/1.1 %d No\r\n\r\n", p.refuse)
		return "", false
	}
	io.WriteString(w, "HTTP/1.1 200 Connected\r\nVia: test\r\n\r\n")
	return req.Host, true
}

func (p *testProxy) socks(r *bufio.Reader, w io.Writer) (to string, ok bool) {
	read := func(n int) []byte {
		b := make([]byte, n)
		io.ReadFull(r, b)
		return b
	}
	method := read(int(read(2)[1]))[0]
	w.Write([]byte{5, method})
	if method == socksPassword {
		user := read(int(read(2)[1]))
		password := read(int(read(1)[0]))
		bad := byte(0)
		if string(user)+":"+string(password) != p.user {
			bad = 1
		}
		if w.Write([]byte{1, bad}); bad != 0 {
			return "", false
		}
	}
	size := 4
	if read(4)[3] == socksIPv6 {
		size = 16
	}
	addr, _ := netip.AddrFromSlice(read(size))
	port := binary.BigEndian.Uint16(read(2))
	if p.refuse > 0 {
		w.Write([]byte{5, byte(p.refuse), 0, 1, 0, 0, 0, 0, 0, 0})
		return "", false
	}
	w.Write(append([]byte{5, 0, 0, socksName, 4}, "none\x00\x00"...))
	return netip.AddrPortFrom(addr, port).String(), true
}

// TestProxy: pages by http, https and HTTP/2 come through a tunnel to the granted address, which later requests
// reuse; another proxy, or none, gets a connection of its own.
func TestProxy(t *testing.T) {
	for _, kind := range []ProxyKind{ProxyHTTP, ProxySOCKS5} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(kind.String()+"/"+scheme, func(t *testing.T) {
				handle := func(w http.ResponseWriter, r *http.Request) {
					io.WriteString(w, r.Host+" "+r.Header.Get("Proxy-Authorization"))
				}
				var addr netip.AddrPort
				if scheme == "https" {
					addr, _ = serveHTTP2(t, handle)
				} else {
					s := &http.Server{Handler: http.HandlerFunc(handle)}
					l, err := net.Listen("tcp", "127.0.0.1:0")
					must(t, err)
					go s.Serve(l)
					t.Cleanup(func() { s.Close() })
					addr = l.Addr().(*net.TCPAddr).AddrPort()
				}
				c, req := http2Client(t, addr, Options{})
				req.Scheme = scheme
				one, two := startProxy(t, "bob:hunter2", 0), startProxy(t, "", 0)
				req.Proxy = &Proxy{Kind: kind, Addr: one.addr, User: "bob", Password: "hunter2"}
				get := func() {
					t.Helper()
					var resp Response
					must(t, c.Do(t.Context(), req, &resp))
					if got := string(resp.Body); got != "example.org " || resp.Remote != addr {
						t.Errorf("got %q from %v", got, resp.Remote)
					}
					if bytes.Contains(resp.RequestHead, []byte("Proxy")) {
						t.Errorf("the request has %q", resp.RequestHead)
					}
				}
				get()
				get()
				req.Proxy = &Proxy{Kind: kind, Addr: two.addr}
				get()
				req.Proxy = nil
				get()
				if one.count() != 1 || one.asked[0] != addr.String() || two.count() != 1 {
					t.Errorf("the proxies connected to %v and %v, want %v once each", one.asked, two.asked, addr)
				}
			})
		}
	}
}

// TestProxyFaults: a failure of the proxy is ours, and one of the site is the site's. Forbidden addresses stay
// forbidden, and the proxy is not asked for them. No error has a secret.
func TestProxyFaults(t *testing.T) {
	open := startProxy(t, "", 0)
	silent := listen(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	waits := listen(t, func(conn net.Conn) {
		if _, err := io.ReadFull(conn, make([]byte, 3)); err == nil {
			conn.Write([]byte{5, 0})
			io.Copy(io.Discard, conn)
		}
	})
	babbles := listen(t, func(conn net.Conn) {
		readRequest(conn)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
	})
	endless := listen(t, func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+strings.Repeat("x: y\r\n", 5000))
	})
	dead := netip.MustParseAddrPort("127.0.0.1:1")
	for _, test := range []struct {
		name  string
		proxy Proxy
		kind  Kind
	}{
		{"no proxy there", Proxy{Addr: dead}, KindProxy},
		{"no SOCKS5 there", Proxy{Kind: ProxySOCKS5, Addr: dead}, KindProxy},
		{"bad credentials", Proxy{Addr: startProxy(t, "bob:hunter2", 0).addr, User: "bob", Password: "s3cret"},
			KindProxy},
		{"bad credentials", Proxy{Kind: ProxySOCKS5, Addr: startProxy(t, "bob:hunter2", 0).addr, User: "bob",
			Password: "s3cret"}, KindProxy},
		{"403", Proxy{Addr: startProxy(t, "", 403).addr}, KindProxy},
		{"502", Proxy{Addr: startProxy(t, "", 502).addr}, KindUnreachable},
		{"504", Proxy{Addr: startProxy(t, "", 504).addr}, KindTimeout},
		{"not allowed", Proxy{Kind: ProxySOCKS5, Addr: startProxy(t, "", 2).addr}, KindProxy},
		{"unreachable", Proxy{Kind: ProxySOCKS5, Addr: startProxy(t, "", 4).addr}, KindUnreachable},
		{"refused", Proxy{Kind: ProxySOCKS5, Addr: startProxy(t, "", 5).addr}, KindRefused},
		{"silent", Proxy{Addr: silent}, KindTimeout},
		{"silent", Proxy{Kind: ProxySOCKS5, Addr: silent}, KindProxy}, // it does not know the site yet
		{"silent once it knows the site", Proxy{Kind: ProxySOCKS5, Addr: waits}, KindTimeout},
		{"a reply before the request", Proxy{Addr: babbles}, KindProxy},
		{"an endless head", Proxy{Addr: endless}, KindProxy},
		{"HTTP by SOCKS5", Proxy{Kind: ProxySOCKS5, Addr: endless}, KindProxy},
		{"no port", Proxy{Addr: netip.AddrPortFrom(open.addr.Addr(), 0)}, KindBadRequest},
	} {
		c := newTestClient(t, Options{Limits: Limits{Connect: 300 * time.Millisecond}})
		req := testRequest()
		req.Proxy = &test.proxy
		var resp Response
		err := c.Do(context.Background(), req, &resp)
		var fe *Error
		if !errors.As(err, &fe) || fe.Kind != test.kind || fe.Ours() != (test.kind == KindProxy) {
			t.Errorf("%s, %v: %v, want kind %v", test.name, test.proxy.Kind, err, test.kind)
		}
		if strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("%v contains a secret", err)
		}
	}
	c := newTestClient(t, Options{AllowNets: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	for _, addr := range []string{"127.0.0.1:80", "10.0.0.1:80", "[fd00::1]:80"} {
		req := testRequest()
		req.Addr, req.Proxy = netip.MustParseAddrPort(addr), &Proxy{Addr: open.addr}
		var resp Response
		if err := c.Do(context.Background(), req, &resp); err == nil || err.(*Error).Kind != KindForbiddenAddress {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if open.count() > 0 {
		t.Errorf("the proxy was asked for %v", open.asked)
	}
}
