package fetch

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// der returns a value of a tag.
func der(tag byte, parts ...string) string {
	body := strings.Join(parts, "")
	n := len(body)
	switch {
	case n < 0x80:
		return string([]byte{tag, byte(n)}) + body
	case n < 0x100:
		return string([]byte{tag, 0x81, byte(n)}) + body
	}
	return string([]byte{tag, 0x82, byte(n >> 8), byte(n)}) + body
}

// oddCert are the parts of a certificate, in DER.
type oddCert struct {
	version, serial, inner, issuer, validity, subject, key, extensions, more, outer, signature, after string
}

const (
	oidECDSA      = "\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"
	oidCommonName = "\x06\x03\x55\x04\x03"
	oidSAN        = "\x06\x03\x55\x1d\x11"
	oidBasic      = "\x06\x03\x55\x1d\x13"
	oidUsage      = "\x06\x03\x55\x1d\x0f"
	oidAuthority  = "\x06\x03\x55\x1d\x23"
)

func commonName(tag byte, text string) string {
	return der(0x30, der(0x31, der(0x30, oidCommonName, der(tag, text))))
}

func validity(begin, end string) string { return der(0x30, begin, end) }

func extensions(list ...string) string { return der(0xa3, der(0x30, list...)) }

func extension(oid, value string) string { return der(0x30, oid, der(0x04, value)) }

// goodCert is one that crypto/x509 parses.
func goodCert(t *testing.T, key crypto.Signer) oddCert {
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	must(t, err)
	name := commonName(0x13, "example.org")
	return oddCert{version: "\xa0\x03\x02\x01\x02", serial: "\x02\x01\x07", inner: der(0x30, oidECDSA), issuer: name,
		validity: validity(der(0x17, "200101000000Z"), der(0x18, "20500101000000Z")), subject: name, key: string(spki),
		extensions: extensions(extension(oidSAN, der(0x30, der(0x82, "example.org")))), outer: der(0x30, oidECDSA),
		signature: der(0x03, "\x00", der(0x30, "\x02\x01\x01\x02\x01\x01"))}
}

func (c oddCert) der() []byte {
	tbs := der(0x30, c.version, c.serial, c.inner, c.issuer, c.validity, c.subject, c.key, c.extensions, c.more)
	return []byte(der(0x30, tbs, c.outer, c.signature) + c.after)
}

// Keys that crypto/x509 parses and crypto/tls refuses.
const (
	unknownKey = "an unknown kind of key"
	tooLong    = "an RSA key of more than 8192 bits"
)

// oddCerts change a certificate so that crypto/tls cannot use it.
func oddCerts() map[string]func(c *oddCert) {
	name := func(tag byte, text string) func(c *oddCert) {
		return func(c *oddCert) { c.subject = commonName(tag, text) }
	}
	when := func(begin string) func(c *oddCert) {
		return func(c *oddCert) { c.validity = validity(begin, der(0x18, "20500101000000Z")) }
	}
	ext := func(list ...string) func(c *oddCert) { return func(c *oddCert) { c.extensions = extensions(list...) } }
	san := func(name string) func(c *oddCert) { return ext(extension(oidSAN, der(0x30, name))) }
	key := func(algorithm ...string) func(c *oddCert) {
		return func(c *oddCert) {
			c.key = der(0x30, der(0x30, algorithm...), der(0x03, "\x00\x04", strings.Repeat("x", 64)))
		}
	}
	const oidEC, oidRSA = "\x06\x07\x2a\x86\x48\xce\x3d\x02\x01", "\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"
	return map[string]func(c *oddCert){
		"an empty serial number": func(c *oddCert) { c.serial = "\x02\x00" },
		"a padded serial number": func(c *oddCert) { c.serial = "\x02\x02\x00\x07" },
		"no serial number":       func(c *oddCert) { c.serial = "" },
		"version 9":              func(c *oddCert) { c.version = "\xa0\x03\x02\x01\x08" },
		"a negative version":     func(c *oddCert) { c.version = "\xa0\x03\x02\x01\xff" },
		"two signature algorithms": func(c *oddCert) {
			c.outer = der(0x30, "\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x03")
		},
		"data after the certificate": func(c *oddCert) { c.after = "\x00\x00" },
		"a BER length":               func(c *oddCert) { c.issuer = "\x30\x81" + c.issuer[1:] },
		"an indefinite length":       func(c *oddCert) { c.issuer = "\x30\x80" + c.issuer[2:] + "\x00\x00" },
		"no signature":               func(c *oddCert) { c.signature = "" },
		"a signature of bits":        func(c *oddCert) { c.signature = der(0x03, "\x09", "x") },
		"an @ in a PrintableString":  name(0x13, "ex@mple"),
		"an _ in a PrintableString":  name(0x13, "ex_mple"),
		"bad UTF-8":                  name(0x0c, "ex\xffmple"),
		"latin1 in an IA5String":     name(0x16, "ex\xe4mple"),
		"half a BMPString":           name(0x1e, "abc"),
		"a UniversalString":          name(0x1c, "\x00\x00\x00a"),
		"a VideotexString":           name(0x15, "a"),
		"letters in a NumericString": name(0x12, "a"),
		"a name without attributes": func(c *oddCert) {
			c.subject = der(0x30, der(0x31, der(0x30, oidCommonName)))
		},
		"a time without zone":   when(der(0x17, "2001010000")),
		"a time with fractions": when(der(0x18, "20200101000000.5Z")),
		"a month 13":            when(der(0x17, "201301000000Z")),
		"a time as text":        when(der(0x0c, "200101000000Z")),
		"a latin1 DNS name":     san(der(0x82, "ex\xe4mple.org")),
		"an address of 5 bytes": san(der(0x87, "12345")),
		"a bad URI":             san(der(0x86, "http://[")),
		"a SAN that is text":    ext(extension(oidSAN, der(0x0c, "example.org"))),
		"duplicate extensions": ext(extension(oidUsage, "\x03\x02\x05\xa0"),
			extension(oidUsage, "\x03\x02\x05\xa0")),
		"a BOOLEAN of 1":                 ext(extension(oidBasic, der(0x30, "\x01\x01\x01"))),
		"bad basic constraints":          ext(extension(oidBasic, "x")),
		"a bad key usage":                ext(extension(oidUsage, "x")),
		"a critical authority key":       ext(der(0x30, oidAuthority, "\x01\x01\xff", der(0x04, der(0x30)))),
		"extensions without a list":      func(c *oddCert) { c.extensions = der(0xa3, "x") },
		"an unknown curve":               key(oidEC, "\x06\x05\x2b\x81\x04\x00\x0a"),
		"explicit parameters of a curve": key(oidEC, der(0x30, "\x02\x01\x01")),
		"a point that is on no curve":    key(oidEC, "\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"),
		unknownKey:                       key("\x06\x03\x2a\x03\x04"),
		"an RSA key without parameters":  key(oidRSA),
		"an RSA key that is none":        key(oidRSA, "\x05\x00"),
		tooLong: func(c *oddCert) {
			rsa := der(0x30, der(0x02, "\x7f"+strings.Repeat("\xff", 1200)), "\x02\x03\x01\x00\x01")
			c.key = der(0x30, der(0x30, oidRSA, "\x05\x00"), der(0x03, "\x00", rsa))
		},
		"a certificate that is only text": func(c *oddCert) { *c = oddCert{after: "hello"} },
		"a large extension":               ext(extension(oidBasic, strings.Repeat("x", 40_000))),
	}
}

// TestUnreadableCertificates: pages of servers whose certificate crypto/x509 cannot parse are fetched, with the verdict
// "invalid", whatever kind of key signs. A request that needs a good certificate is not sent, and a
// server that speaks only TLS 1.3 is not reached; the error says what is wrong with the certificate.
func TestUnreadableCertificates(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	keys := []crypto.Signer{ec}
	if !testing.Short() {
		keys = append(keys, rsaKey(t, 2048))
	}
	for _, key := range keys {
		good := goodCert(t, key)
		if _, err := x509.ParseCertificate(good.der()); err != nil {
			t.Fatalf("the certificate to change: %v", err)
		}
		for name, change := range oddCerts() {
			odd := good
			change(&odd)
			if _, err := x509.ParseCertificate(odd.der()); err == nil && name != unknownKey && name != tooLong {
				t.Errorf("%s: is parsed", name)
			}
			cfg := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{odd.der()}, PrivateKey: key}}}
			checkUnreadable(t, name, cfg)
			if name == "duplicate extensions" { // the other cipher and hash
				cfg.CipherSuites = gcmSuites[1].ids[:]
				checkUnreadable(t, name+", AES-256", cfg)
			}
		}
	}
}

func checkUnreadable(t *testing.T, name string, cfg *tls.Config) {
	t.Helper()
	addr := listenTLS(t, cfg)
	suites := "TLS_ECDHE_ECDSA_" // that of the server, not that of the stand-in
	if _, ok := cfg.Certificates[0].PrivateKey.(*rsa.PrivateKey); ok {
		suites = "TLS_ECDHE_RSA_"
	}
	for _, opt := range []TLSOptions{{}, {Old: true}} {
		c, req := loopbackClient(t, addr, Options{TLS: opt})
		req.Scheme, req.Host = "https", "example.org"
		for range 2 { // the second request knows the server
			var resp Response
			err := c.Do(t.Context(), req, &resp)
			if err != nil || string(resp.Body) != "hi" || resp.TLSVerdict != VerdictInvalid ||
				resp.TLSVersion != tls.VersionTLS12 ||
				!strings.HasPrefix(tls.CipherSuiteName(resp.CipherSuite), suites) {
				t.Errorf("%s: %v, verdict %q, suite %x, body %q", name, err, resp.TLSVerdict, resp.CipherSuite,
					resp.Body)
			}
		}
		req.Verified = true
		checkCause(t, name, c, req)
	}
	c, req := loopbackClient(t, addr, Options{TLS: TLSOptions{Require: true}})
	req.Scheme, req.Host = "https", "example.org"
	checkCause(t, name, c, req)
	cfg = cfg.Clone()
	cfg.MinVersion = tls.VersionTLS13
	c, req = loopbackClient(t, listenTLS(t, cfg), Options{})
	req.Scheme, req.Host = "https", "example.org"
	checkCause(t, name, c, req)
}

// checkCause expects that a request fails, and a cause that names the certificate and what is wrong with it.
func checkCause(t *testing.T, name string, c *Client, req *Request) {
	t.Helper()
	var fe *Error
	err := c.Do(t.Context(), req, new(Response))
	if !errors.As(err, &fe) || fe.Kind != KindTLS {
		t.Errorf("%s: %v, want a failed handshake", name, err)
		return
	}
	what, ok := strings.CutPrefix(fe.TLSCause(), "unreadable certificate: ")
	if !ok || len(what) < 10 || len(fe.TLSCause()) > maxTLSCause {
		t.Errorf("%s: the cause is %q", name, fe.TLSCause())
	}
}

// TestUnreadableHTTP2: the same over HTTP/2, on a kept connection, with a server that asks for a client's
// certificate, and with a chain in which only the second certificate cannot be parsed.
func TestUnreadableHTTP2(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	good, odd := goodCert(t, key), goodCert(t, key)
	odd.serial = "\x02\x00"
	chain := tls.Certificate{Certificate: [][]byte{good.der(), odd.der()}, PrivateKey: key}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto+r.URL.Path)
		}),
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{chain}},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go server.ServeTLS(l, "", "")
	defer server.Close()
	c, req := loopbackClient(t, l.Addr().(*net.TCPAddr).AddrPort(), Options{HTTP2: true})
	req.Scheme, req.Host, req.KeepAlive = "https", "example.org", time.Minute
	for i := range 3 {
		var resp Response
		req.PathQuery = fmt.Sprintf("/%d", i)
		err := c.Do(t.Context(), req, &resp)
		if want := "HTTP/2.0" + req.PathQuery; err != nil || string(resp.Body) != want || resp.Reused != (i > 0) ||
			resp.TLSVerdict != VerdictInvalid {
			t.Errorf("%v, %q, reused %v, verdict %q", err, resp.Body, resp.Reused, resp.TLSVerdict)
		}
	}
	req.Verified = true
	checkCause(t, "HTTP/2", c, req)
}

// TestUnreadableChanges: a server that was remembered and then has a good certificate, but no TLS 1.2, fails once.
func TestUnreadableChanges(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	good, odd := goodCert(t, key), goodCert(t, key)
	odd.serial = "\x02\x00"
	cfg := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{odd.der()}, PrivateKey: key}}}
	now := cfg.Clone()
	choose := func(*tls.ClientHelloInfo) (*tls.Config, error) { return now, nil }
	addr := listenTLS(t, &tls.Config{GetConfigForClient: choose})
	c, req := loopbackClient(t, addr, Options{})
	req.Scheme, req.Host = "https", "example.org"
	for i, want := range []string{VerdictInvalid, VerdictInvalid, "fails", VerdictSelfSigned} {
		if i == 2 {
			now = &tls.Config{MinVersion: tls.VersionTLS13,
				Certificates: []tls.Certificate{{Certificate: [][]byte{good.der()}, PrivateKey: key}}}
		}
		var resp Response
		if err := c.Do(t.Context(), req, &resp); (err != nil) != (want == "fails") ||
			err == nil && resp.TLSVerdict != want {
			t.Errorf("request %d: %v, verdict %q, want %q", i, err, resp.TLSVerdict, want)
		}
	}
}

// tapConn records what is read from a connection.
type tapConn struct {
	net.Conn
	read bytes.Buffer
}

func (c *tapConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Write(p[:n])
	return n, err
}

// playedConn replays what a server sent, and takes whatever is written.
type playedConn struct {
	net.Conn
	in *bytes.Reader
}

func (c playedConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c playedConn) Write(p []byte) (int, error) { return len(p), nil }
func (c playedConn) Close() error                { return nil }

// FuzzStandIn: whatever a server sends, the handshake ends, with an error. The seeds reach the server's Finished.
func FuzzStandIn(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	config := func() *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.CurveP256}}
	}
	for _, suite := range gcmSuites {
		ours, theirs := net.Pipe()
		go tls.Server(theirs, &tls.Config{CipherSuites: suite.ids[:], Certificates: []tls.Certificate{
			{Certificate: [][]byte{[]byte("no certificate")}, PrivateKey: key}}}).Handshake()
		tap, cfg := &tapConn{Conn: ours}, config()
		if err := tls.Client(newStandIn(tap, cfg), cfg).Handshake(); err != nil {
			f.Fatal(err)
		}
		f.Add(tap.read.Bytes())
		ours.Close()
	}
	f.Add([]byte("\x16\x03\x03\x00\x04\x02\x00\x00\x00"))
	f.Add([]byte("\x14\x03\x03\x00\x01\x01\x16\x03\x03\x00\x01x"))
	f.Add(bytes.Repeat([]byte("\x16\x03\x03\x00\x00"), maxRecords+1))
	f.Fuzz(func(t *testing.T, sent []byte) {
		cfg := config()
		s := newStandIn(playedConn{in: bytes.NewReader(sent)}, cfg)
		if err := tls.Client(s, cfg).Handshake(); err == nil {
			t.Error("a handshake without a server succeeds")
		}
		if n := len(s.ours) + len(s.theirs) + len(s.part); n > 2*maxShake+maxRecord {
			t.Errorf("%d bytes are kept", n)
		}
	})
}
