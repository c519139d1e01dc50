package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestVerified: a request that needs a good certificate is not sent to a server with a bad one, neither on a
// new connection nor on one that a request without that need has opened, by HTTP/1.1 and HTTP/2, with and
// without a resumed session.
func TestVerified(t *testing.T) {
	soon := time.Now().Add(24 * time.Hour)
	ca := testCert(t, nil, soon)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	for name, good := range map[string]bool{"example.org": true, "evil.example": false} {
		requests := make(chan string, 10)
		addr := headServer(t, testCert(t, ca, soon, name), requests)
		c, req := loopbackClient(t, addr, Options{TLS: TLSOptions{Roots: roots}})
		req.Scheme, req.KeepAlive = "https", time.Minute
		for i, verified := range []bool{false, false, true, true} {
			req.Verified = verified
			var resp Response
			err := c.Do(t.Context(), req, &resp)
			var fe *Error
			refused := errors.As(err, &fe) && fe.Kind == KindCertificate
			if refused != (verified && !good) || err != nil && !refused {
				t.Errorf("%s, request %d: %v", name, i, err)
			}
			if reused := i > 0 && (good || !verified); resp.Reused != reused {
				t.Errorf("%s, request %d: reused %v, want %v", name, i, resp.Reused, reused)
			}
		}
		want := 4
		if !good {
			want = 2
		}
		if n := len(requests); n != want {
			t.Errorf("%s: the server saw %d requests, want %d", name, n, want)
		}
	}
}

// headServer answers requests over TLS, and passes their heads on.
func headServer(t *testing.T, cert *tls.Certificate, heads chan<- string) netip.AddrPort {
	return listen(t, func(conn net.Conn) {
		s := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*cert}})
		defer s.Close()
		for {
			head := readRequest(s)
			if head == "" {
				return
			}
			heads <- head
			if _, err := io.WriteString(s, ok200+"Content-Length: 2\r\n\r\nhi"); err != nil {
				return
			}
		}
	})
}

// TestTrustedFields: a field for trusted servers alone reaches no server whose certificate is bad, on a new connection
// or a kept one, and is not recorded as sent; the rest of the request arrives.
func TestTrustedFields(t *testing.T) {
	soon := time.Now().Add(24 * time.Hour)
	ca := testCert(t, nil, soon)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	for name, good := range map[string]bool{"example.org": true, "evil.example": false} {
		requests := make(chan string, 10)
		addr := headServer(t, testCert(t, ca, soon, name), requests)
		c, req := loopbackClient(t, addr, Options{TLS: TLSOptions{Roots: roots}})
		req.Scheme, req.KeepAlive = "https", time.Minute
		req.Fields = []Field{{Name: "X-Key", Value: "k", Secret: true}, {Name: "Signature", Value: "s", Trusted: true},
			{Name: "X-Open", Value: "o"}}
		for i := range 3 {
			var resp Response
			if err := c.Do(t.Context(), req, &resp); err != nil || resp.Reused != (i > 0) {
				t.Fatalf("%s, request %d: %v, reused %v", name, i, err, resp.Reused)
			}
			head := <-requests
			for _, at := range []string{head, string(resp.RequestHead)} {
				if strings.Contains(at, "\r\nSignature: s\r\n") != good ||
					!strings.HasSuffix(at, "\r\nX-Open: o\r\n\r\n") {
					t.Errorf("%s, request %d: %q", name, i, at)
				}
			}
			if !strings.Contains(head, "\r\nX-Key: k\r\n") ||
				!strings.Contains(string(resp.RequestHead), "\r\nX-Key: "+Redacted+"\r\n") {
				t.Errorf("%s, request %d: %q, recorded %q", name, i, head, resp.RequestHead)
			}
		}
		if len(req.Fields) != 3 {
			t.Errorf("%s: the caller's request has %d fields", name, len(req.Fields))
		}
	}
}
