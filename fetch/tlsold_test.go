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
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// oldCert makes a self-signed certificate for example.org, and changes bytes of its DER.
func oldCert(t *testing.T, key crypto.Signer, change func(c *x509.Certificate), from, to string) tls.Certificate {
	t.Helper()
	now := time.Now()
	c := &x509.Certificate{SerialNumber: new(big.Int).SetBytes([]byte("\x7fabcdefg")), NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(time.Hour), Subject: pkix.Name{CommonName: "example"}, DNSNames: []string{"example.org"}}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(t, err)
	if from != "" && bytes.Count(der, []byte(from)) == 0 {
		t.Fatalf("the certificate has no %q", from)
	}
	return tls.Certificate{Certificate: [][]byte{bytes.ReplaceAll(der, []byte(from), []byte(to))}, PrivateKey: key}
}

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	must(t, err)
	return key
}

// oldServer is a server of the old web, and what the client makes of it.
type oldServer struct {
	name    string
	cfg     *tls.Config
	verdict string // of a request that succeeds
	cause   string // part of TLSCause of one that fails
	legacy  bool   // it succeeds with TLSOptions.Old alone
}

func oldServers(t *testing.T) (list []oldServer) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	rsaCert := oldCert(t, rsaKey(t, 2048), nil, "", "")
	add := func(name, verdict, cause string, legacy bool, cfg *tls.Config) {
		list = append(list, oldServer{name, cfg, verdict, cause, legacy})
	}
	cert := func(name, verdict, cause string, key crypto.Signer, change func(c *x509.Certificate), from, to string) {
		add(name, verdict, cause, false,
			&tls.Config{Certificates: []tls.Certificate{oldCert(t, key, change, from, to)}})
	}
	past := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	twice := func(c *x509.Certificate) {
		x := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: []byte{5, 0}}
		c.ExtraExtensions = []pkix.Extension{x, x}
	}
	cert("self-signed", VerdictSelfSigned, "", ec, nil, "", "")
	cert("expired", VerdictExpired, "", ec, past, "", "")
	cert("another name", VerdictName, "", ec,
		func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} }, "", "")
	cert("an address", VerdictName, "", ec,
		func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{{127, 0, 0, 1}} }, "", "")
	cert("CN alone", VerdictName, "", ec,
		func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, "example.org" }, "", "")
	cert("negative serial", VerdictSelfSigned, "", ec, nil, "\x7fabcdefg", "\xffabcdefg")
	cert("duplicate extensions", VerdictInvalid, "", ec, twice, "", "")
	cert("bad text", VerdictInvalid, "", ec, nil, "example\x30", "ex@mple\x30")
	cert("bad length", VerdictInvalid, "", ec, nil, "\x02\x08\x7fabcdefg", "\x02\x88\x7fabcdefg")
	add("RSA, 512 bits", VerdictInvalid, "", false,
		&tls.Config{Certificates: []tls.Certificate{oldCert(t, rsaKey(t, 512), nil, "", "")},
			MaxVersion: tls.VersionTLS12}) // TLS 1.3 has no signature that fits into 512 bits
	cert("RSA, 1024 bits", VerdictSelfSigned, "", rsaKey(t, 1024), nil, "", "")
	add("TLS 1.0", VerdictSelfSigned, "version", true, &tls.Config{Certificates: []tls.Certificate{rsaCert},
		MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10})
	add("TLS 1.1", VerdictSelfSigned, "version", true, &tls.Config{Certificates: []tls.Certificate{rsaCert},
		MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11})
	for _, suite := range []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA,
		tls.TLS_RSA_WITH_RC4_128_SHA} {
		add(tls.CipherSuiteName(suite), VerdictSelfSigned, "handshake failure", true,
			&tls.Config{Certificates: []tls.Certificate{rsaCert},
				CipherSuites: []uint16{suite}, MaxVersion: tls.VersionTLS12})
	}
	return list
}

// TestOldWeb: bad certificates are fetched and judged; where the handshake fails, the error says why. Servers
// of old versions and suites need TLSOptions.Old. No request that needs a good certificate reaches any of
// them.
func TestOldWeb(t *testing.T) {
	for _, server := range oldServers(t) {
		addr := listenTLS(t, server.cfg)
		for _, old := range []bool{false, true} {
			for _, verified := range []bool{false, true} {
				c, req := loopbackClient(t, addr, Options{TLS: TLSOptions{Old: old}})
				req.Scheme, req.Host, req.Verified = "https", "example.org", verified
				var resp Response
				err := c.Do(t.Context(), req, &resp)
				var fe *Error
				errors.As(err, &fe)
				switch works := server.verdict != "" && (old || !server.legacy); {
				case verified && err == nil:
					t.Errorf("%s: a request that needs a good certificate was sent", server.name)
				case verified:
				case works && (err != nil || resp.TLSVerdict != server.verdict || string(resp.Body) != "hi"):
					t.Errorf("%s, old %v: %v, verdict %q, want %q", server.name, old, err, resp.TLSVerdict,
						server.verdict)
				case !works && (fe == nil || fe.Kind != KindTLS || !strings.Contains(fe.TLSCause(), server.cause)):
					t.Errorf("%s, old %v: %v, want a cause with %q", server.name, old, err, server.cause)
				}
			}
		}
	}
}

// TestNoTLS: a server that speaks no TLS, ends the connection, or sends an alert is named as that.
func TestNoTLS(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "no TLS: ",
		"":                                 "connection closed during the handshake",
		"\x15\x03\x01\x00\x02\x02\x28":     "alert from the server: handshake failure",
		"\x15\x03\x03\x00\x02\x02\x46":     "alert from the server: protocol version not supported",
		// An odd version of the record.
		"\x15\x03\x09\x00\x02\x02\x28":          "alert from the server: handshake failure",
		"\x16\x03\x01\x00\x04\x02\x00\x00\x00":  "",
		"\x16\x09\x09\xff\xff" + "\x00\x00\x00": "no TLS: ",
		"SSH-2.0-OpenSSH_9.6\r\n":               "no TLS: ",
	} {
		addr := listen(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
			conn.Close()
		})
		c, req := loopbackClient(t, addr, Options{})
		req.Scheme = "https"
		err := c.Do(t.Context(), req, new(Response))
		var fe *Error
		if !errors.As(err, &fe) || fe.Kind != KindTLS || !strings.HasPrefix(fe.TLSCause(), want) ||
			fe.TLSCause() == "" {
			t.Errorf("%q: %v, want a cause %q", answer, err, want)
		}
	}
}

// TestOffer: what a client offers in a handshake, number by number. If it fails with another version of Go,
// decide what the crawl shall offer, and state it here and in tlslists.go.
func TestOffer(t *testing.T) {
	tls13 := []uint16{0x1301, 0x1302, 0x1303}
	modern := []uint16{0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc009, 0xc013, 0xc00a, 0xc014}
	old := append(slices.Clone(modern), 0xc023, 0xc027, 0x9c, 0x9d, 0x3c, 0x2f, 0x35, 0xc012, 0x0a,
		0xc007, 0xc011, 0x05)
	for _, test := range []struct {
		old              bool
		suites, versions []uint16
	}{{false, modern, []uint16{0x304, 0x303}}, {true, old, []uint16{0x304, 0x303, 0x302, 0x301}}} {
		var hello tls.ClientHelloInfo
		cert := testCert(t, nil, time.Now().Add(time.Hour), "example.org")
		addr := listenTLS(t, &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			hello = *h
			return cert, nil
		}})
		c, req := loopbackClient(t, addr, Options{TLS: TLSOptions{Old: test.old}})
		req.Scheme = "https"
		must(t, c.Do(t.Context(), req, new(Response)))
		// Hardware decides about the order.
		sorted := func(a []uint16) []uint16 { a = slices.Clone(a); slices.Sort(a); return a }
		if got, want := sorted(hello.CipherSuites),
			sorted(append(slices.Clone(test.suites), tls13...)); !slices.Equal(got, want) {
			t.Errorf("suites %#x, want %#x", got, want)
		}
		if !slices.Equal(hello.SupportedVersions, test.versions) {
			t.Errorf("versions %#x, want %#x", hello.SupportedVersions, test.versions)
		}
		if want := []tls.CurveID{29, 23, 24, 25}; !slices.Equal(hello.SupportedCurves, want) {
			t.Errorf("curves %v, want %v", hello.SupportedCurves, want)
		}
		schemes := []tls.SignatureScheme{0x804, 0x403, 0x807, 0x805, 0x806, 0x401, 0x501, 0x601, 0x503, 0x603}
		if !slices.Equal(hello.SignatureSchemes, schemes) {
			t.Errorf("signature schemes %#v, want %#v", hello.SignatureSchemes, schemes)
		}
	}
}
