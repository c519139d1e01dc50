package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var benchPage = "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: x\r\nContent-Type: text/html\r\n" +
	"Content-Length: 24576\r\nCache-Control: max-age=3600\r\nETag: \"abc\"\r\nConnection: close\r\n\r\n" +
	strings.Repeat("x", 24576)

var benchBytes = []byte(benchPage)

// TestAllocs reports the allocations of an exchange over an in-memory connection.
func TestAllocs(t *testing.T) {
	conn := new(script)
	c := newTestClient(t, Options{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
		conn.rest, conn.piece = benchBytes, 1<<20
		return conn, nil
	}})
	req, ctx := testRequest(), t.Context()
	var resp Response
	n := testing.AllocsPerRun(100, func() {
		if err := c.Do(ctx, req, &resp); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.1f allocations", n)
	if n > 10 {
		t.Errorf("%.1f allocations per exchange, want at most 10", n)
	}
}

// BenchmarkExchange compares this package, net/http, and a bare loop of dial, write and read to the end,
// over loopback with a new connection each.
func BenchmarkExchange(b *testing.B) {
	addr := listen(b, func(conn net.Conn) {
		readRequest(conn)
		io.WriteString(conn, benchPage)
	})
	url := fmt.Sprintf("http://%s/a?b=c", addr)
	b.Run("client=fetch", func(b *testing.B) {
		c, req := loopbackClient(b, addr, Options{})
		var resp Response
		bench(b, func() error { return c.Do(b.Context(), req, &resp) })
	})
	b.Run("client=nethttp", func(b *testing.B) {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
		bench(b, func() error {
			resp, err := c.Get(url)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.ReadAll(resp.Body)
			return err
		})
	})
	b.Run("client=bare", func(b *testing.B) {
		p := make([]byte, 64<<10)
		bench(b, func() error {
			conn, err := net.Dial("tcp4", addr.String())
			if err != nil {
				return err
			}
			defer conn.Close()
			io.WriteString(conn, "GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")
			for br := bufio.NewReaderSize(conn, 1); err == nil; {
				_, err = br.Read(p)
			}
			return nil
		})
	})
}

func bench(b *testing.B, do func() error) {
	b.SetBytes(int64(len(benchPage)))
	b.ReportAllocs()
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTLS measures an exchange with a full handshake and with a resumed one, including the server's
// part.
func BenchmarkTLS(b *testing.B) {
	cfg := &tls.Config{Certificates: []tls.Certificate{*testCert(b, nil, time.Now().Add(time.Hour), "example.org")}}
	addr := listen(b, func(conn net.Conn) {
		s := tls.Server(conn, cfg)
		readRequest(s)
		io.WriteString(s, benchPage)
		s.Close()
	})
	for name, sessions := range map[string]int{"resumed=no": -1, "resumed=yes": 10} {
		b.Run(name, func(b *testing.B) {
			c, req := loopbackClient(b, addr, Options{TLS: TLSOptions{Sessions: sessions}})
			req.Scheme = "https"
			var resp Response
			bench(b, func() error { return c.Do(b.Context(), req, &resp) })
		})
	}
}

// BenchmarkOverhead measures an exchange without a socket: the cost of this package without the kernel.
func BenchmarkOverhead(b *testing.B) {
	conn := new(script)
	c := newTestClient(b, Options{UserAgent: "bench", Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
		conn.rest, conn.piece = benchBytes, 1<<20
		return conn, nil
	}})
	req := testRequest()
	var resp Response
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	bench(b, func() error { return c.Do(ctx, req, &resp) })
}
