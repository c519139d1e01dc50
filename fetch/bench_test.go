package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
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
		must(t, c.Do(ctx, req, &resp))
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
		must(b, do())
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

// BenchmarkHTTPS compares HTTP/1.1 and HTTP/2 of this package with a bare loop of crypto/tls, which writes
// a request and reads as many bytes as the reply has. Each page takes a new connection with a resumed
// session, or all take one. The figures include the server, which does the least for both protocols.
func BenchmarkHTTPS(b *testing.B) {
	addr := listenHTTPS(b)
	size := len(benchHTTPS)
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v/client=bare", kept), func(b *testing.B) {
			cfg := &tls.Config{ServerName: "example.org", InsecureSkipVerify: true, CurvePreferences: curves(),
				ClientSessionCache: tls.NewLRUClientSessionCache(10)}
			var conn *tls.Conn
			p := make([]byte, 64<<10)
			bench(b, func() (err error) {
				if conn == nil {
					if conn, err = tls.Dial("tcp4", addr.String(), cfg); err != nil {
						return err
					}
				}
				io.WriteString(conn, "GET /a?b=c HTTP/1.1\r\nHost: example.org\r\n\r\n")
				for n, m := 0, 0; n < size && err == nil; n += m {
					m, err = conn.Read(p)
				}
				if !kept {
					conn.NetConn().Close()
					conn = nil
				}
				return err
			})
		})
		for name, on := range map[string]bool{"fetch/http=1": false, "fetch/http=2": true} {
			b.Run(fmt.Sprintf("kept=%v/client=%s", kept, name), func(b *testing.B) {
				c, req := loopbackClient(b, addr, Options{HTTP2: on})
				defer c.Close()
				if req.Scheme = "https"; kept {
					req.KeepAlive = time.Minute
				}
				var resp Response
				bench(b, func() error {
					err := c.Do(b.Context(), req, &resp)
					if err == nil && (resp.Kept != kept || (resp.Proto == ProtoHTTP2) != on ||
						len(resp.Body) != 24576) {
						b.Fatalf("kept %v, %s, %d bytes", resp.Kept, resp.Proto, len(resp.Body))
					}
					return err
				})
			})
		}
	}
}

var benchHTTPS = []byte(strings.Replace(benchPage, "Connection: close\r\n", "", 1))

// listenHTTPS serves benchHTTPS by both protocols, prepared in advance.
func listenHTTPS(b *testing.B) netip.AddrPort {
	cert := testCert(b, nil, time.Now().Add(time.Hour), "example.org")
	cfg := &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"}}
	var frames bytes.Buffer
	f := http2.NewFramer(&frames, nil)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSizeLimit(0)
	head, body, _ := bytes.Cut(benchHTTPS, []byte("\r\n\r\n"))
	enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	for _, line := range strings.Split(string(head), "\r\n")[1:] {
		name, value, _ := strings.Cut(line, ": ")
		enc.WriteField(hpack.HeaderField{Name: strings.ToLower(name), Value: value})
	}
	at := []int{frames.Len() + 5} // of the stream numbers
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	at = append(at, frames.Len()+5)
	f.WriteData(1, false, body[:16384])
	at = append(at, frames.Len()+5)
	f.WriteData(1, true, body[16384:])
	return listen(b, func(conn net.Conn) {
		s := tls.Server(conn, cfg)
		if s.Handshake() != nil {
			return
		}
		if s.ConnectionState().NegotiatedProtocol != "h2" {
			for strings.HasPrefix(readRequest(s), "GET") {
				s.Write(benchHTTPS)
			}
			return
		}
		in, p := bufio.NewReader(s), bytes.Clone(frames.Bytes())
		in.Discard(len(http2.ClientPreface))
		http2.NewFramer(s, nil).WriteSettings()
		for {
			h, err := http2.ReadFrameHeader(in)
			if err != nil {
				return
			}
			in.Discard(int(h.Length))
			if h.Type != http2.FrameHeaders {
				continue
			}
			for _, i := range at {
				binary.BigEndian.PutUint32(p[i:], h.StreamID)
			}
			s.Write(p)
		}
	})
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
