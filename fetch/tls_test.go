package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listenTLS serves "hi" over TLS and closes properly.
func listenTLS(t *testing.T, cfg *tls.Config) netip.AddrPort {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		s := tls.Server(conn, cfg)
		readRequest(s)
		io.WriteString(s, ok200+"Content-Length: 2\r\n\r\nhi")
		s.Close()
	})
}

// TestVerdictIsRemembered: in both modes a chain is verified once for each name, good or not, and each later
// handshake, full or resumed, has the same verdict.
func TestVerdictIsRemembered(t *testing.T) {
	soon := time.Now().Add(24 * time.Hour)
	ca := testCert(t, nil, soon)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	cert := testCert(t, ca, soon, "example.org", "www.example.org")
	cert.Certificate = append(cert.Certificate, ca.Certificate[0])
	addr := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{*cert}})
	for _, require := range []bool{false, true} {
		for _, sessions := range []int{-1, 10} {
			c, req := loopbackClient(t, addr,
				Options{TLS: TLSOptions{Roots: roots, Require: require, Sessions: sessions}})
			req.Scheme = "https"
			for i, step := range []struct {
				host, verdict string
				judged        int64
				resumed       bool
			}{
				{"example.org", VerdictOK, 1, false}, {"example.org", VerdictOK, 1, true}, {"www.example.org",
					VerdictOK, 2, false},
				{"other.test", VerdictName, 3, false}, {"other.test", VerdictName, 3, !require}, {"example.org",
					VerdictOK, 3, true},
			} {
				req.Host = step.host
				var resp Response
				err := c.Do(t.Context(), req, &resp)
				var fe *Error
				refused := errors.As(err, &fe) && fe.Kind == KindCertificate
				if refused != (require && step.verdict != VerdictOK) || err != nil && !refused {
					t.Errorf("require %v, sessions %d, step %d: got %v", require, sessions, i, err)
				}
				resumed := step.resumed && sessions > 0
				if got := c.tls.judged.Load(); resp.TLSVerdict != step.verdict || got != step.judged ||
					resp.Resumed != resumed {
					t.Errorf("require %v, sessions %d, step %d: got %q, %d verified, resumed %v; want %q, %d, %v",
						require, sessions, i, resp.TLSVerdict, got, resp.Resumed, step.verdict, step.judged, resumed)
				}
			}
		}
	}
}

// TestHeavySessions: sessions with long chains or tickets are not cached, so a farm of sites cannot fill the
// memory.
func TestHeavySessions(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	many := []string{"example.org"}
	for i := range 500 {
		many = append(many, fmt.Sprintf("h%d.example.org", i))
	}
	light, heavy := testCert(t, nil, soon, "example.org"), testCert(t, nil, soon, many...)
	if n := len(heavy.Certificate[0]); n <= sessionChainBytes {
		t.Fatalf("a certificate of %d bytes is no long one", n)
	}
	ticket := func(n int) func(tls.ConnectionState, *tls.SessionState) ([]byte, error) {
		return func(_ tls.ConnectionState, s *tls.SessionState) ([]byte, error) {
			b, err := s.Bytes()
			return append(make([]byte, n), b...), err
		}
	}
	open := func(n int) func([]byte, tls.ConnectionState) (*tls.SessionState, error) {
		return func(b []byte, _ tls.ConnectionState) (*tls.SessionState, error) {
			if len(b) < n {
				return nil, nil // offer none
			}
			return tls.ParseSessionState(b[n:])
		}
	}
	for name, tt := range map[string]struct {
		cert    *tls.Certificate
		ticket  int
		version uint16
		resumed bool
	}{
		"usual": {light, 100, tls.VersionTLS13, true}, "usual, 1.2": {light, 100, tls.VersionTLS12, true},
		"long ticket":      {light, sessionTicketBytes, tls.VersionTLS13, false},
		"long ticket, 1.2": {light, sessionTicketBytes, tls.VersionTLS12, false},
		"long chain":       {heavy, 100, tls.VersionTLS13, false},
		"long chain, 1.2":  {heavy, 100, tls.VersionTLS12, false},
	} {
		addr := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{*tt.cert}, MaxVersion: tt.version,
			WrapSession: ticket(tt.ticket), UnwrapSession: open(tt.ticket)})
		c, req := loopbackClient(t, addr, Options{})
		req.Scheme = "https"
		for i := range 2 {
			var resp Response
			if err := c.Do(t.Context(), req, &resp); err != nil || resp.Resumed != (tt.resumed && i > 0) ||
				string(resp.Body) != "hi" {
				t.Errorf("%s: got %v, resumed %v, %q", name, err, resp.Resumed, resp.Body)
			}
		}
	}
}

// countedConn counts writes.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestLastFlight: the last message of a handshake goes out with the request. An alert that ends a handshake
// is also sent.
func TestLastFlight(t *testing.T) {
	cert := testCert(t, nil, time.Now().Add(time.Hour), "example.org")
	for _, tt := range []struct {
		version       uint16
		full, resumed int64 // number of writes
	}{{tls.VersionTLS13, 2, 2}, {tls.VersionTLS12, 3, 2}} {
		cfg := &tls.Config{Certificates: []tls.Certificate{*cert}, MaxVersion: tt.version}
		addr := listen(t, func(conn net.Conn) {
			s := tls.Server(conn, cfg)
			readRequest(s)
			io.WriteString(s, ok200+"Content-Length: 2\r\n\r\nhi")
			s.Close()
		})
		var writes atomic.Int64
		c, req := loopbackClient(t, addr,
			Options{Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
				var d net.Dialer
				conn, err := d.DialContext(ctx, "tcp", addr.String())
				return countedConn{conn, &writes}, err
			}})
		req.Scheme = "https"
		for i, want := range []int64{tt.full, tt.resumed} {
			var resp Response
			writes.Store(0)
			if err := c.Do(t.Context(), req, &resp); err != nil || string(resp.Body) != "hi" ||
				resp.Resumed != (i > 0) || writes.Load() != want {
				t.Errorf("%x, %d: got %v, %q, resumed %v, %d writes, want %d", tt.version, i, err, resp.Body,
					resp.Resumed, writes.Load(), want)
			}
		}
	}
	said := make(chan error, 1)
	addr := listen(t, func(conn net.Conn) {
		said <- tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*cert}}).Handshake()
	})
	c, req := loopbackClient(t, addr, Options{TLS: TLSOptions{Require: true}})
	req.Scheme = "https"
	if err := c.Do(t.Context(), req, new(Response)); err == nil {
		t.Error("a self-signed certificate was taken")
	}
	if err := <-said; err == nil || !strings.Contains(err.Error(), "bad certificate") {
		t.Errorf("the server got %v, want an alert", err)
	}
}
