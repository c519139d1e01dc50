package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/internal/ports"
)

// staying is a server behind net.Pipe whose connections answer requests until they are closed. reply returns
// the reply to the n-th request of a connection; "" closes it.
type staying struct {
	reply       func(conn, n int, path string) string
	dials, open atomic.Int64
	requests    atomic.Int64
}

func (s *staying) dial(context.Context, netip.AddrPort) (net.Conn, error) {
	client, server := net.Pipe()
	id := int(s.dials.Add(1))
	s.open.Add(1)
	go func() {
		defer s.open.Add(-1)
		defer server.Close()
		br := bufio.NewReader(server)
		for n := 1; ; n++ {
			line, err := br.ReadString('\n')
			for l := line; err == nil && l != "\r\n"; {
				l, err = br.ReadString('\n')
			}
			if err != nil {
				return
			}
			s.requests.Add(1)
			text := s.reply(id, n, strings.Fields(line)[1])
			if text == "" {
				return
			}
			if _, err := io.WriteString(server, text); err != nil {
				return
			}
		}
	}()
	return client, nil
}

const hello = ok200 + "Content-Length: 5\r\n\r\nhello"

func always(text string) func(int, int, string) string {
	return func(int, int, string) string { return text }
}

func keepRequest() *Request {
	req := testRequest()
	req.KeepAlive = 10 * time.Second
	return req
}

// TestReuse: a connection is reused within its time, even by a request that then closes it.
func TestReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &staying{reply: always(hello)}
		c := newTestClient(t, Options{Dial: s.dial})
		var resp Response
		for i := range 5 {
			writes := 0
			req := keepRequest()
			req.BeforeWrite = func() { writes++ }
			if i == 4 {
				req.KeepAlive = 0
			}
			err := c.Do(t.Context(), req, &resp)
			if err != nil || string(resp.Body) != "hello" || resp.Reused != (i > 0) || writes != 1 {
				t.Errorf("%d: got %v, %q, reused %v, %d writes", i, err, resp.Body, resp.Reused, writes)
			}
			if strings.Contains(string(resp.RequestHead), "Connection: close") != (i == 4) {
				t.Errorf("%d: sent\n%s", i, resp.RequestHead)
			}
			time.Sleep(9 * time.Second)
		}
		synctest.Wait()
		if s.dials.Load() != 1 || s.open.Load() != 0 || c.Idle() != 0 || len(c.idle.byHost) != 0 {
			t.Errorf("%d connections, %d open, %d idle; want 1, none, none", s.dials.Load(), s.open.Load(), c.Idle())
		}
	})
}

// TestIdleExpires: connections are closed when their time or the server's is over, and by Close. No timer
// and no map entry remains.
func TestIdleExpires(t *testing.T) {
	for said, want := range map[string]time.Duration{"": 10 * time.Second,
		"Keep-Alive: timeout=5, max=100\r\n": 4 * time.Second, "Keep-Alive: timeout=60\r\n": 10 * time.Second,
		"Keep-Alive: timeout=1\r\n": 0, "Keep-Alive: max=0\r\n": 0,
		"Keep-Alive: timeout=99999999999999999999\r\n": 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &staying{reply: always(ok200 + said + "Content-Length: 5\r\n\r\nhello")}
			c := newTestClient(t, Options{Dial: s.dial})
			must(t, c.Do(t.Context(), keepRequest(), new(Response)))
			begin := time.Now()
			synctest.Wait() // until the server has seen what was closed at once
			for s.open.Load() > 0 && time.Since(begin) < time.Minute {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			got := time.Since(begin)
			if got != want || c.Idle() != 0 || len(c.idle.byHost) != 0 || !c.idle.fires.IsZero() {
				t.Errorf("%q: closed after %v, want %v; %d idle, timer %v", said, got, want, c.Idle(), c.idle.fires)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &staying{reply: always(hello)}
		c := newTestClient(t, Options{Dial: s.dial})
		for range 2 {
			must(t, c.Do(t.Context(), keepRequest(), new(Response)))
			must(t, c.Close())
			synctest.Wait()
			if s.open.Load() != 0 || c.Idle() != 0 {
				t.Errorf("%d open, %d idle after Close", s.open.Load(), c.Idle())
			}
		}
	})
}

// TestIdleIsBounded: at most one connection for each host is kept, and in total at most IdleConns, those
// that expire last.
func TestIdleIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &staying{reply: always(hello)}
		c := newTestClient(t, Options{Dial: s.dial, IdleConns: 10})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := c.Do(t.Context(), keepRequest(), new(Response)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if c.Idle() != 1 || s.open.Load() != 1 {
			t.Errorf("%d idle of one host, %d open, want 1", c.Idle(), s.open.Load())
		}
		// Another address of the host gets a new connection, and the old one is closed.
		other := keepRequest()
		other.Addr = netip.AddrPortFrom(netip.MustParseAddr("93.184.216.35"), other.Addr.Port())
		var first Response
		if err := c.Do(t.Context(), other, &first); err != nil || first.Reused || !first.Kept {
			t.Errorf("got %v, reused %v, kept %v", err, first.Reused, first.Kept)
		}
		synctest.Wait()
		if c.Idle() != 1 || s.open.Load() != 1 {
			t.Errorf("%d idle of one host, %d open, want 1", c.Idle(), s.open.Load())
		}
		for i := range 100 {
			req := keepRequest()
			req.Host = fmt.Sprintf("host%d.example", i)
			req.KeepAlive = time.Duration(i+11) * time.Second
			if err := c.Do(t.Context(), req, new(Response)); err != nil {
				t.Error(err)
			}
			if n := c.Idle(); n > 10 || len(c.idle.byHost) > n {
				t.Fatalf("%d idle, %d hosts; want at most 10", n, len(c.idle.byHost))
			}
		}
		synctest.Wait()
		if s.open.Load() != 10 {
			t.Errorf("%d open, want 10", s.open.Load())
		}
		req := keepRequest()
		req.Host = "host95.example"
		var resp Response
		if err := c.Do(t.Context(), req, &resp); err != nil || !resp.Reused {
			t.Errorf("got %v, reused %v", err, resp.Reused)
		}
		time.Sleep(200 * time.Second)
		synctest.Wait()
		if s.open.Load() != 0 || c.Idle() != 0 || len(c.idle.byHost) != 0 {
			t.Errorf("%d open, %d idle at the end", s.open.Load(), c.Idle())
		}
	})
	if _, err := New(Options{IdleConns: Unlimited}); err == nil {
		t.Error("idle connections without a bound were taken")
	}
}

// TestOtherKeys: a connection serves one scheme, host and address.
func TestOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &staying{reply: always(hello)}
		c := newTestClient(t, Options{Dial: s.dial, Ports: ports.Of(81)})
		do := func(change func(*Request)) bool {
			req := keepRequest()
			change(req)
			var resp Response
			if err := c.Do(t.Context(), req, &resp); err != nil {
				t.Error(err)
			}
			return resp.Reused
		}
		for name, change := range map[string]func(*Request){
			"host":    func(r *Request) { r.Host = "example.com" },
			"address": func(r *Request) { r.Addr = netip.MustParseAddrPort("192.0.2.2:80") },
			"port":    func(r *Request) { r.Addr, r.Port = netip.MustParseAddrPort("192.0.2.1:81"), 81 },
		} {
			do(func(*Request) {})
			if do(change) {
				t.Errorf("another %s: used again", name)
			}
			if !do(change) {
				t.Errorf("another %s, the second time: not used again", name)
			}
		}
		c.Close()
	})
}

// TestNotReused: after any of these replies the connection is not reused, whatever the server does with it.
func TestNotReused(t *testing.T) {
	replies := map[string]string{
		"said close":           ok200 + "Connection: close\r\nContent-Length: 5\r\n\r\nhello",
		"said close in a list": ok200 + "Connection: x, Close\r\nContent-Length: 5\r\n\r\nhello",
		"said both":            ok200 + "Connection: keep-alive\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.0":             "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/2.0":             "HTTP/2.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
		"identity":             ok200 + "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
		"chunked twice":        ok200 + "Transfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"equal lengths":        ok200 + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"204 with a length":    "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n",
		"204 with a body":      "HTTP/1.1 204 No\r\n\r\nhello",
		"304 with a body":      "HTTP/1.1 304 No\r\n\r\nhello",
		"too long":             ok200 + "Content-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000),
	}
	for _, d := range desyncs {
		replies["desync: "+d.name] = d.reply
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &staying{reply: func(_, _ int, path string) string {
					if path == "/next" {
						return ok200 + "Content-Length: 4\r\n\r\nnext"
					}
					return reply
				}}
				c := newTestClient(t, Options{Dial: s.dial, Limits: Limits{BodyBytes: 1000, Total: 9 * time.Second}})
				var resp Response
				_ = c.Do(t.Context(), keepRequest(), &resp) // some fail
				next := keepRequest()
				next.PathQuery = "/next"
				idle := c.Idle()
				if err := c.Do(t.Context(), next, &resp); err != nil || string(resp.Body) != "next" ||
					resp.Reused || idle != 0 {
					t.Errorf("got %v, %q, reused %v, %d idle", err, resp.Body, resp.Reused, idle)
				}
				c.Close()
			})
		})
	}
}

// TestReusedAfter: these replies leave no doubt about their end.
func TestReusedAfter(t *testing.T) {
	for name, reply := range map[string]string{
		"length":       hello,
		"empty":        ok200 + "Content-Length: 0\r\n\r\n",
		"chunks":       ok200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
		"304":          "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
		"204":          "HTTP/1.1 204 No Content\r\n\r\n",
		"404":          "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
		"HTTP/1.0":     "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi",
		"early hints":  "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + hello,
		"bad gzip":     ok200 + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
		"said to stay": ok200 + "Connection: keep-alive\r\nKeep-Alive: timeout=15\r\nContent-Length: 5\r\n\r\nhello",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &staying{reply: always(reply)}
			c := newTestClient(t, Options{Dial: s.dial})
			for i := range 3 {
				var resp Response
				if err := c.Do(t.Context(), keepRequest(), &resp); err != nil || resp.Reused != (i > 0) {
					t.Errorf("%s: got %v, reused %v", name, err, resp.Reused)
				}
			}
			c.Close()
		})
	}
}

// TestStale: if the server closes a kept connection without a byte, the request is sent once more on a new
// one. If the server has sent something, or the connection was new, it is not.
func TestStale(t *testing.T) {
	for _, tt := range []struct {
		name     string
		second   string // reply to the second request of the first connection
		dials    int64
		requests int64
		writes   int
		kind     Kind
	}{
		{"left", "", 2, 3, 2, KindOther},
		{"half a head", "HTTP/1.1 2\r\n\r\n", 1, 2, 1, KindBadHead},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &staying{reply: func(conn, n int, _ string) string {
				if conn == 1 && n == 2 {
					return tt.second
				}
				return hello
			}}
			c := newTestClient(t, Options{Dial: s.dial})
			must(t, c.Do(t.Context(), keepRequest(), new(Response)))
			var resp Response
			req := keepRequest()
			writes := 0
			req.BeforeWrite = func() { writes++ }
			err := c.Do(t.Context(), req, &resp)
			var fe *Error
			if tt.kind == KindOther && (err != nil || string(resp.Body) != "hello") ||
				tt.kind != KindOther && (!errors.As(err, &fe) ||
					fe.Kind != tt.kind) {
				t.Errorf("%s: got %v, %q, want %v", tt.name, err, resp.Body, tt.kind)
			}
			if s.dials.Load() != tt.dials || s.requests.Load() != tt.requests || writes != tt.writes ||
				err == nil && (resp.Reused || resp.BytesWritten != int64(len(resp.RequestHead))) {
				t.Errorf("%s: %d dials, %d requests, %d writes, reused %v, %d bytes", tt.name, s.dials.Load(),
					s.requests.Load(), writes, resp.Reused, resp.BytesWritten)
			}
			c.Close()
		})
	}
	synctest.Test(t, func(t *testing.T) { // all connections are closed: no third try
		s := &staying{reply: func(conn, n int, _ string) string {
			if conn == 1 && n == 1 {
				return hello
			}
			return ""
		}}
		c := newTestClient(t, Options{Dial: s.dial})
		must(t, c.Do(t.Context(), keepRequest(), new(Response)))
		var fe *Error
		if err := c.Do(t.Context(), keepRequest(), new(Response)); !errors.As(err, &fe) ||
			fe.Kind != KindEmptyReply || s.dials.Load() != 2 {
			t.Errorf("got %v after %d dials", err, s.dials.Load())
		}
	})
}

// TestClocksOfReused: the durations of an exchange on a kept connection are its own.
func TestClocksOfReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &staying{reply: func(_, n int, _ string) string {
			if n == 3 {
				time.Sleep(time.Hour)
			}
			time.Sleep(4 * time.Second)
			return hello
		}}
		c := newTestClient(t, Options{Dial: s.dial, Limits: Limits{FirstByte: 5 * time.Second, Total: 6 * time.Second}})
		for i := range 3 {
			var resp Response
			begin := time.Now()
			err := c.Do(t.Context(), keepRequest(), &resp)
			var fe *Error
			if i < 2 && (err != nil || time.Since(begin) != 4*time.Second || resp.Reused != (i == 1)) {
				t.Errorf("%d: got %v after %v, reused %v", i, err, time.Since(begin), resp.Reused)
			}
			if i == 2 && (!errors.As(err, &fe) || fe.Kind != KindTimeout || time.Since(begin) != 5*time.Second) {
				t.Errorf("got %v after %v, want a timeout after 5 s, and no second try", err, time.Since(begin))
			}
			time.Sleep(8 * time.Second)
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestCancelledIsNotKept: a context that ends during or just after an exchange does not affect a later one.
func TestCancelledIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &staying{reply: always(hello)}
		c := newTestClient(t, Options{Dial: s.dial})
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			var resp Response
			must(t, c.Do(ctx, keepRequest(), &resp))
			cancel()
			synctest.Wait()
			if err := c.Do(t.Context(), keepRequest(), &resp); err != nil || !resp.Reused {
				t.Errorf("got %v, reused %v", err, resp.Reused)
			}
		}
		c.Close()
	})
}

// stayTLS serves requests on each connection until it is closed, over TLS if cfg is set. reply may close it.
func stayTLS(t testing.TB, cfg *tls.Config, reply func(conn net.Conn, n int)) (addr netip.AddrPort,
	dials *atomic.Int64) {
	dials = new(atomic.Int64)
	return listen(t, func(conn net.Conn) {
		dials.Add(1)
		if cfg != nil {
			conn = tls.Server(conn, cfg)
		}
		for n := 1; readRequest(conn) != ""; n++ {
			reply(conn, n)
		}
	}), dials
}

// TestReuseOnSockets: TCP and TLS connections are reused, but not those that the server closed or on which
// it sent unsolicited bytes. Nothing is left open at the end.
func TestReuseOnSockets(t *testing.T) {
	cert := testCert(t, nil, time.Now().Add(time.Hour), "example.org")
	for _, scheme := range []string{"http", "https"} {
		for name, want := range map[string]int64{"stays": 1, "closes": 4, "sends more": 4} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				var cfg *tls.Config
				if scheme == "https" {
					cfg = &tls.Config{Certificates: []tls.Certificate{*cert}}
				}
				done := make(chan struct{}, 8)
				addr, dials := stayTLS(t, cfg, func(conn net.Conn, _ int) {
					io.WriteString(conn, hello)
					switch name {
					case "closes":
						conn.Close()
					case "sends more":
						io.WriteString(conn, forged)
					}
					done <- struct{}{}
				})
				before := runtime.NumGoroutine()
				c, req := loopbackClient(t, addr, Options{})
				req.Scheme, req.KeepAlive = scheme, time.Minute
				for i := range 4 {
					var resp Response
					err := c.Do(t.Context(), req, &resp)
					if err != nil || string(resp.Body) != "hello" || resp.Reused != (i > 0 && want == 1) {
						t.Errorf("%d: got %v, %q, reused %v", i, err, resp.Body, resp.Reused)
					}
					if scheme == "https" && (resp.TLSVerdict != VerdictSelfSigned ||
						resp.TLSVersion != tls.VersionTLS13 || resp.CipherSuite>>8 != 0x13) { // the suites of TLS 1.3
						t.Errorf("%d: %q, version %x, suite %x", i, resp.TLSVerdict, resp.TLSVersion, resp.CipherSuite)
					}
					<-done
				}
				if dials.Load() != want {
					t.Errorf("%d connections, want %d", dials.Load(), want)
				}
				if err := c.Close(); err != nil || c.Idle() != 0 {
					t.Errorf("got %v, %d idle", err, c.Idle())
				}
				for runtime.NumGoroutine() > before+2 { // the listener's and the test's
					runtime.Gosched()
				}
			})
		}
	}
}

// TestManyReuse: hosts requested by several goroutines at once return their own pages, while connections
// expire or are closed by the bound.
func TestManyReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &staying{reply: func(_, _ int, path string) string {
			return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", ok200, len(path), path)
		}}
		c := newTestClient(t, Options{Dial: s.dial, IdleConns: 7})
		var reused atomic.Int64
		var all sync.WaitGroup
		for g := range 20 {
			all.Go(func() {
				var resp Response
				for i := range 50 {
					req := keepRequest()
					req.Host, req.PathQuery = fmt.Sprintf("host%d.example", g/2), fmt.Sprintf("/%d/%d", g, i)
					req.KeepAlive = time.Duration(g%5) * time.Second
					if err := c.Do(t.Context(), req, &resp); err != nil || string(resp.Body) != req.PathQuery {
						t.Errorf("%s: got %v, %q", req.PathQuery, err, resp.Body)
					}
					if resp.Reused {
						reused.Add(1)
					}
					time.Sleep(time.Duration(i%4) * 700 * time.Millisecond)
				}
			})
		}
		all.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		t.Logf("%d dials, %d reused", s.dials.Load(), reused.Load())
		if s.open.Load() != 0 || c.Idle() != 0 || len(c.idle.byHost) != 0 || reused.Load() == 0 ||
			s.dials.Load()+reused.Load() < 1000 {
			t.Errorf("%d open, %d idle, %d dials, %d reused", s.open.Load(), c.Idle(), s.dials.Load(), reused.Load())
		}
	})
}

// TestIdleGiveUpDescriptors: an exchange that finds no descriptor closes the idle connections, once.
func TestIdleGiveUpDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &staying{reply: always(hello)}
		dials := 0
		c := newTestClient(t, Options{Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			dials++
			if synctest.Wait(); s.open.Load() > 2 || dials > 6 {
				return nil, &net.OpError{Op: "dial", Err: syscall.EMFILE}
			}
			return s.dial(ctx, a)
		}})
		for i := range 4 {
			req := keepRequest()
			req.Host = fmt.Sprintf("host%d.example", i)
			if err := c.Do(t.Context(), req, new(Response)); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if dials != 5 || s.open.Load() != 1 || c.Idle() != 1 {
			t.Errorf("%d dials, %d open, %d idle; want 5, 1, 1", dials, s.open.Load(), c.Idle())
		}
		dials = 10
		req := keepRequest()
		req.Host = "last.example"
		var fe *Error
		if err := c.Do(t.Context(), req, new(Response)); !errors.As(err, &fe) || fe.Kind != KindResources ||
			dials != 12 || c.Idle() != 0 {
			t.Errorf("got %v after %d dials, %d idle", err, dials-10, c.Idle())
		}
		if err := c.Do(t.Context(), req, new(Response)); !errors.As(err, &fe) || dials != 13 {
			t.Errorf("got %v after %d dials", err, dials-10)
		}
		c.Close()
	})
}
