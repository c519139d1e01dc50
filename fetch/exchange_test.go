package fetch

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/internal/ports"
)

// listen serves every connection of a loopback listener with handle until the test ends.
func listen(t testing.TB, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// readRequest reads a request up to the empty line.
func readRequest(conn io.Reader) string {
	var b []byte
	p := make([]byte, 4096)
	for !bytes.HasSuffix(b, []byte("\r\n\r\n")) {
		n, err := conn.Read(p)
		b = append(b, p[:n]...)
		if err != nil {
			break
		}
	}
	return string(b)
}

func loopbackClient(t testing.TB, addr netip.AddrPort, opt Options) (*Client, *Request) {
	t.Helper()
	opt.MapPort = func(uint16) uint16 { return addr.Port() }
	req := testRequest()
	req.Addr = netip.AddrPortFrom(addr.Addr(), 0)
	return newTestClient(t, opt), req
}

func TestRequestHead(t *testing.T) {
	var got string
	addr := listen(t, func(conn net.Conn) {
		got = readRequest(conn)
		io.WriteString(conn, "HTTP/1.1 204 No\r\n\r\n")
	})
	c, req := loopbackClient(t, addr, Options{UserAgent: "drumbeat/1", From: "a@example.org", Ports: ports.Of(8080)})
	req.PathQuery, req.Port = "/a//b/../c%7e/%zz?q=ä&#x", 8080
	req.IfNoneMatch = `"tag"`
	var resp Response
	must(t, c.Do(t.Context(), req, &resp))
	want := "GET /a//b/../c%7e/%zz?q=ä&#x HTTP/1.1\r\nUser-Agent: drumbeat/1\r\nHost: example.org:8080\r\n" +
		"From: a@example.org\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\nAccept-Encoding: gzip\r\n" +
		"If-None-Match: \"tag\"\r\nConnection: close\r\n\r\n"
	if got != want || string(resp.RequestHead) != want {
		t.Errorf("got\n%s\nrecorded\n%s\nwant\n%s", got, resp.RequestHead, want)
	}
	if resp.Remote != addr || resp.BytesWritten != int64(len(want)) || resp.Connect <= 0 || resp.Total <= 0 {
		t.Errorf("remote %v, written %d, connect %v, total %v", resp.Remote, resp.BytesWritten, resp.Connect,
			resp.Total)
	}
}

func TestBadRequests(t *testing.T) {
	c := newTestClient(t, Options{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
		t.Error("dialled")
		return nil, errors.ErrUnsupported
	}})
	for name, spoil := range map[string]func(*Request){
		"scheme":      func(r *Request) { r.Scheme = "ftp" },
		"no host":     func(r *Request) { r.Host = "" },
		"host line":   func(r *Request) { r.Host = "a\r\nX: y" },
		"path line":   func(r *Request) { r.PathQuery = "/a\r\nX: y" },
		"path blank":  func(r *Request) { r.PathQuery = "/a b" },
		"path scheme": func(r *Request) { r.PathQuery = "http://x/" },
		"agent":       func(r *Request) { r.UserAgent = "a\nb" },
		"no address":  func(r *Request) { r.Addr = netip.AddrPort{} },
		"ports":       func(r *Request) { r.Port = 443 },
	} {
		req := testRequest()
		spoil(req)
		var fe *Error
		if err := c.Do(t.Context(), req, new(Response)); !errors.As(err, &fe) || fe.Kind != KindBadRequest ||
			fe.Ours() {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestForbiddenAddressIsNotDialled(t *testing.T) {
	c := newTestClient(t,
		Options{AllowNets: []netip.Prefix{}, Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			t.Error("dialled")
			return nil, errors.ErrUnsupported
		}})
	for addr, kind := range map[string]Kind{"127.0.0.1:80": KindForbiddenAddress,
		"[::ffff:10.0.0.1]:80": KindForbiddenAddress, "8.8.8.8:25": KindForbiddenPort} {
		req := testRequest()
		req.Addr = netip.MustParseAddrPort(addr)
		req.Port = req.Addr.Port()
		var fe *Error
		if err := c.Do(t.Context(), req, new(Response)); !errors.As(err, &fe) || fe.Kind != kind ||
			fe.Stage != StagePrepare {
			t.Errorf("%s: got %v, want %v", addr, err, kind)
		}
	}
}

func TestPublicAddr(t *testing.T) {
	no := "0.0.0.0 0.1.2.3 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 " +
		"172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.7 " +
		"203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 168.63.129.16 :: ::1 ::ffff:127.0.0.1 " +
		"::ffff:192.168.0.1 ::127.0.0.1 ::8.8.8.8 64:ff9b::8.8.8.8 64:ff9b::a00:1 64:ff9b:1::1 100::1 " +
		"2001::1 2001:2::1 " +
		"2001:10::1 2001:db8::1 2002:7f00:1:: 2002:808:808:: 3fff::1 fc00::1 fd00:ec2::254 fe80::1 " +
		"fe80::1%eth0 fec0::1 " +
		"ff02::1 5f00::1 4000::1 2600::1%x"
	for s := range strings.FieldsSeq(no) {
		if PublicAddr(netip.MustParseAddr(s)) {
			t.Errorf("%s is public", s)
		}
	}
	for s := range strings.FieldsSeq(
		"1.1.1.1 8.8.8.8 172.15.0.1 172.32.0.1 100.63.0.1 100.128.0.1 198.20.0.1 223.255.255.1 " +
			"::ffff:8.8.8.8 2600::1 2a00:1450::1 2001:4860::1 2003::1") {
		if !PublicAddr(netip.MustParseAddr(s)) {
			t.Errorf("%s isn't public", s)
		}
	}
	if PublicAddr(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}

func TestAllowedNets(t *testing.T) {
	rules := addrRules{allow: prefixes("127.0.0.0/8", "64:ff9b::/96", "2002::/16", "fd00::/8"),
		own: func(netip.Addr) bool { return false }}
	for s, want := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "10.0.0.1": false,
		"fd00::1": true, "64:ff9b::8.8.8.8": true, "64:ff9b::10.0.0.1": false, "64:ff9b::127.0.0.1": true,
		"2002:808:808::": true, "2002:a00:1::": false, "fe80::1": false, "fd00::1%x": false, "8.8.8.8": true} {
		if got := rules.refusal(netip.MustParseAddr(s)).Why == ""; got != want {
			t.Errorf("%s: got %v, want %v", s, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	const head = ok200
	body := strings.Repeat("0123456789", 100)
	chunks := "Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + body + "\r\n0\r\n\r\n"
	for _, tt := range []struct {
		name, reply string
		limit, want int // RawBody in bytes
		payload     int
		trunc       Reason
	}{
		{"length below", head + "Content-Length: 1000\r\n\r\n" + body, 1001, 1000, 1000, NotTruncated},
		{"length equal", head + "Content-Length: 1000\r\n\r\n" + body, 1000, 1000, 1000, NotTruncated},
		{"length above", head + "Content-Length: 1000\r\n\r\n" + body, 999, 999, 999, TruncatedLength},
		{"close below", head + "\r\n" + body, 1001, 1000, 1000, NotTruncated},
		{"close equal", head + "\r\n" + body, 1000, 1000, 1000, NotTruncated},
		{"close above", head + "\r\n" + body, 999, 999, 999, TruncatedLength},
		{"chunks equal", head + chunks, 1012, 1012, 1000, NotTruncated},
		{"chunks above", head + chunks, 1011, 1011, 1000, TruncatedLength},
		{"chunks far above", head + chunks, 505, 505, 500, TruncatedLength},
		{"one byte", head + "\r\n" + body, 1, 1, 1, TruncatedLength},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := odd{reply: tt.reply}
			synctest.Test(t, func(t *testing.T) {
				c := newTestClient(t, Options{Dial: pipeDial(o.serve), Limits: Limits{BodyBytes: tt.limit}})
				var resp Response
				must(t, c.Do(t.Context(), testRequest(), &resp))
				if len(resp.RawBody) != tt.want || len(resp.Body) != tt.payload || resp.Truncated != tt.trunc {
					t.Errorf("got %d bytes raw, %d, %q; want %d, %d, %q", len(resp.RawBody), len(resp.Body),
						resp.Truncated, tt.want, tt.payload, tt.trunc)
				}
			})
		})
	}
}

// TestMinRate: a trickling reply is cut when its mean rate falls below the limit, and kept if it stays
// above, however long it takes.
func TestMinRate(t *testing.T) {
	for _, tt := range []struct {
		every time.Duration
		rate  int64
		trunc Reason
		took  time.Duration
	}{
		{time.Second, 5, NotTruncated, 39 * time.Second},
		{time.Second, 20, TruncatedTime, 10 * time.Second},
		{time.Second, Unlimited, NotTruncated, 39 * time.Second},
		{5 * time.Second, Unlimited, TruncatedTime, 120 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			serve := func(conn net.Conn, _ string) {
				io.WriteString(conn, ok200+"Content-Length: 400\r\n\r\n")
				for i := range 40 {
					if i > 0 {
						time.Sleep(tt.every)
					}
					if _, err := io.WriteString(conn, "0123456789"); err != nil {
						return
					}
				}
			}
			c := newTestClient(t, Options{Dial: pipeDial(serve), Limits: Limits{MinRate: tt.rate}})
			var resp Response
			must(t, c.Do(t.Context(), testRequest(), &resp))
			if resp.Truncated != tt.trunc || resp.Total != tt.took {
				t.Errorf("rate %d: %q after %v with %d bytes, want %q after %v", tt.rate, resp.Truncated, resp.Total,
					len(resp.Body), tt.trunc, tt.took)
			}
			time.Sleep(tt.every) // until the server notices
		})
	}
}

func TestCancel(t *testing.T) {
	for stage, reply := range map[Stage]string{StageFirstByte: "⏹", StageHead: "HTTP/1.1 200 OK\r\n⏹",
		StageBody: ok200 + "\r\nhello⏹"} {
		synctest.Test(t, func(t *testing.T) {
			o := odd{reply: reply}
			c := newTestClient(t, Options{Dial: pipeDial(o.serve)})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			var resp Response
			err := c.Do(ctx, testRequest(), &resp)
			var fe *Error
			if !errors.As(err, &fe) || fe.Kind != KindCanceled || fe.Stage != stage || resp.Total != 3*time.Second {
				t.Errorf("%v: got %v after %v", stage, err, resp.Total)
			}
		})
	}
}

func TestDialFaults(t *testing.T) {
	for err, want := range map[error]struct {
		kind Kind
		ours bool
	}{
		syscall.ECONNREFUSED: {KindRefused, false}, syscall.EHOSTUNREACH: {KindUnreachable, false},
		syscall.ENETUNREACH: {KindNoRoute, true}, syscall.EMFILE: {KindResources, true},
		syscall.EADDRNOTAVAIL: {KindResources, true}, syscall.ETIMEDOUT: {KindTimeout, false},
		syscall.ECONNRESET: {KindReset, false}, context.DeadlineExceeded: {KindTimeout, false},
	} {
		c := newTestClient(t, Options{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: err}
		}})
		var fe *Error
		got := c.Do(t.Context(), testRequest(), new(Response))
		if !errors.As(got, &fe) || fe.Kind != want.kind || fe.Ours() != want.ours || fe.Stage != StageDial {
			t.Errorf("%v: got %v", err, got)
		}
	}
}

// TestRouteFaults: the routing table distinguishes our missing route from a router's and from a lack of
// ports.
func TestRouteFaults(t *testing.T) {
	for _, c := range []struct {
		err    syscall.Errno
		routed bool
		want   Kind
	}{
		{syscall.ENETUNREACH, false, KindNoRoute}, {syscall.ENETUNREACH, true, KindUnreachable},
		{syscall.EADDRNOTAVAIL, false, KindNoRoute}, {syscall.EADDRNOTAVAIL, true, KindResources},
		{syscall.ECONNREFUSED, false, KindRefused}, {syscall.EMFILE, false, KindResources},
	} {
		err := routeFault(os.NewSyscallError("connect", c.err), func() bool { return c.routed })
		var fe *Error
		kind := kindOf(err)
		if errors.As(err, &fe) {
			kind = fe.Kind
		}
		if kind != c.want {
			t.Errorf("%v with a route %v: got %v, want %v", c.err, c.routed, kind, c.want)
		}
	}
}

func TestRefusedAndReset(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	c, req := loopbackClient(t, addr, Options{})
	var fe *Error
	if err := c.Do(t.Context(), req, new(Response)); !errors.As(err, &fe) || fe.Kind != KindRefused {
		t.Errorf("closed port: got %v", err)
	}
	addr = listen(t, func(conn net.Conn) {
		readRequest(conn)
		conn.(*net.TCPConn).SetLinger(0)
	})
	c, req = loopbackClient(t, addr, Options{})
	if err := c.Do(t.Context(), req, new(Response)); !errors.As(err, &fe) || fe.Kind != KindReset {
		t.Errorf("reset: got %v", err)
	}
	// A reply before the request, and a connection reset after it.
	addr = listen(t, func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno") })
	c, req = loopbackClient(t, addr, Options{})
	var resp Response
	if err := c.Do(t.Context(), req, &resp); err != nil || resp.Status != 503 || string(resp.Body) != "no" {
		t.Errorf("early reply: got %v, %d %q", err, resp.Status, resp.Body)
	}
}

// testCert makes a certificate for names, signed by parent or by itself.
func testCert(t testing.TB, parent *tls.Certificate, notAfter time.Time, names ...string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: names, NotAfter: notAfter,
		Subject: pkix.Name{CommonName: "test " + strings.Join(names, " ")}, NotBefore: notAfter.Add(-48 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true,
		IsCA: parent == nil}
	sign, signer := tmpl, any(key)
	if parent != nil {
		sign, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, sign, &key.PublicKey, signer)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestTLSVerdicts(t *testing.T) {
	soon, past := time.Now().Add(24*time.Hour), time.Now().Add(-time.Hour)
	ca, other := testCert(t, nil, soon), testCert(t, nil, soon)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	for want, cert := range map[string]*tls.Certificate{
		VerdictOK:          testCert(t, ca, soon, "example.org"),
		VerdictName:        testCert(t, ca, soon, "example.com"),
		VerdictExpired:     testCert(t, ca, past, "example.org"),
		VerdictNotYetValid: testCert(t, ca, soon.Add(240*time.Hour), "example.org"),
		VerdictUnknown:     testCert(t, other, soon, "example.org"),
		VerdictSelfSigned:  testCert(t, nil, soon, "example.org"),
	} {
		addr := listen(t, func(conn net.Conn) {
			s := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*cert}})
			readRequest(s)
			io.WriteString(s, ok200+"Content-Length: 2\r\n\r\nhi")
		})
		c, req := loopbackClient(t, addr, Options{TLS: TLSOptions{Roots: roots}})
		req.Scheme = "https"
		for range 2 {
			var resp Response
			if err := c.Do(t.Context(), req, &resp); err != nil || resp.TLSVerdict != want ||
				string(resp.Body) != "hi" ||
				resp.TLSVersion != tls.VersionTLS13 {
				t.Errorf("%s: got %v, %q, %q", want, err, resp.TLSVerdict, resp.Body)
			}
		}
		c, _ = loopbackClient(t, addr, Options{TLS: TLSOptions{Roots: roots, Require: true}})
		var fe *Error
		err := c.Do(t.Context(), req, new(Response))
		if want != VerdictOK && (!errors.As(err, &fe) || fe.Kind != KindCertificate ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%s required: got %v", want, err)
		}
		if want == VerdictOK && err != nil {
			t.Errorf("required: got %v", err)
		}
	}
}

func TestTLSFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		handle func(net.Conn)
		kind   Kind
	}{
		"not tls": {func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }, KindTLS},
		"closed":  {func(conn net.Conn) { conn.Read(make([]byte, 4096)) }, KindTLS},
		"silent":  {func(conn net.Conn) { io.Copy(io.Discard, conn) }, KindTimeout},
		"old only": {func(conn net.Conn) {
			tls.Server(conn, &tls.Config{MaxVersion: tls.VersionTLS11}).Handshake()
		}, KindTLS},
	} {
		c, req := loopbackClient(t, listen(t, tt.handle), Options{Limits: Limits{TLS: 50 * time.Millisecond}})
		req.Scheme = "https"
		var fe *Error
		if err := c.Do(t.Context(), req, new(Response)); !errors.As(err, &fe) || fe.Kind != tt.kind ||
			fe.Stage != StageTLS {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestOldTLS: TLS 1.1 is used on request.
func TestOldTLS(t *testing.T) {
	cert := testCert(t, nil, time.Now().Add(time.Hour), "example.org")
	addr := listen(t, func(conn net.Conn) {
		s := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS10,
			MaxVersion: tls.VersionTLS11})
		readRequest(s)
		io.WriteString(s, ok200+"Content-Length: 2\r\n\r\nhi")
	})
	c, req := loopbackClient(t, addr, Options{TLS: TLSOptions{Old: true}})
	req.Scheme = "https"
	var resp Response
	if err := c.Do(t.Context(), req, &resp); err != nil || resp.TLSVersion != tls.VersionTLS11 ||
		string(resp.Body) != "hi" {
		t.Errorf("got %v, version %x", err, resp.TLSVersion)
	}
}

// TestResumption: the second handshake with a site is resumed, and its chain is verified nevertheless.
func TestResumption(t *testing.T) {
	cert := testCert(t, nil, time.Now().Add(time.Hour), "example.org")
	cfg := &tls.Config{Certificates: []tls.Certificate{*cert}}
	addr := listen(t, func(conn net.Conn) {
		s := tls.Server(conn, cfg)
		readRequest(s)
		io.WriteString(s, ok200+"\r\nhi")
		s.Close()
	})
	c, req := loopbackClient(t, addr, Options{})
	req.Scheme = "https"
	for i := range 3 {
		var resp Response
		err := c.Do(t.Context(), req, &resp)
		if err != nil || resp.Resumed != (i > 0) || resp.TLSVerdict != VerdictSelfSigned ||
			resp.Truncated != NotTruncated {
			t.Errorf("%d: got %v, resumed %v, %q, %q", i, err, resp.Resumed, resp.TLSVerdict, resp.Truncated)
		}
	}
}

func TestVerdictCacheIsBounded(t *testing.T) {
	c := verdictCache{half: 10}
	now := time.Now()
	for i := range 1000 {
		c.put([16]byte{byte(i), byte(i >> 8)}, VerdictOK, now.Add(time.Hour))
		if len(c.young)+len(c.old) > 20 {
			t.Fatalf("%d entries", len(c.young)+len(c.old))
		}
		if _, ok := c.get([16]byte{0, 0}, now); !ok {
			t.Fatalf("an entry in use was forgotten after %d", i)
		}
	}
	if _, ok := c.get([16]byte{0, 0}, now.Add(time.Hour)); ok {
		t.Error("an expired verdict was recalled")
	}
}
