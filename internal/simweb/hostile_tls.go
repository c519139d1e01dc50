package simweb

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// overTLS returns a host of https whose connections serve has from their first byte.
func overTLS(name string, serve func(c net.Conn)) hostileHost {
	return hostileHost{name: name, seeds: []string{"https://" + name + "/"},
		accept: func(c net.Conn, port uint16) bool {
			if port == 443 {
				serve(c)
			}
			return true
		}}
}

// drain reads until the client closes.
func drain(c net.Conn) { io.Copy(io.Discard, c) }

// drip writes a byte a second.
func drip(c net.Conn, p []byte) {
	for _, b := range p {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
	drain(c)
}

// tlsStalls: https hosts that stop, babble or trickle at each stage of a handshake and after it.
func tlsStalls(w *Web, add func(hostileHost)) {
	hello := func(c net.Conn) { c.Read(make([]byte, 4096)) }
	stages := []func(c net.Conn){
		0: func(c net.Conn) { hello(c); drain(c) },                            // no answer
		1: func(c net.Conn) { hello(c); c.Write([]byte{22, 3, 3}); drain(c) }, // half of a record header
		2: func(c net.Conn) { hello(c); drip(c, append([]byte{22, 3, 3, 0x40, 0}, make([]byte, 300)...)) },
		3: func(c net.Conn) { hello(c); c.Write([]byte{21, 3, 3, 0, 2, 2, 40}) },                // a fatal alert
		4: func(c net.Conn) { hello(c) },                                                        // end of connection
		5: func(c net.Conn) { hello(c); io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, // not TLS at all
		6: func(c net.Conn) { // warnings without end
			hello(c)
			for {
				if _, err := c.Write([]byte{21, 3, 3, 0, 2, 1, 90}); err != nil {
					return
				}
			}
		},
		7: func(c net.Conn) { // empty records without end
			hello(c)
			for {
				if _, err := c.Write([]byte{22, 3, 3, 0, 0}); err != nil {
					return
				}
			}
		},
		// 16 MiB ServerHello.
		8: func(c net.Conn) { hello(c); c.Write([]byte{22, 3, 3, 0, 4, 2, 0xff, 0xff, 0xff}); drain(c) },
	}
	n := 0
	host := func(f func(c net.Conn)) {
		name := w.hostileName("tls-stalls", n)
		n++
		add(overTLS(name, f))
	}
	for _, f := range stages {
		host(f)
	}
	leaf := sync.OnceValue(func() *tls.Certificate { return w.authority().issue(nil) })
	secure := func(f func(c *tls.Conn)) { // f runs after the handshake
		host(func(c net.Conn) {
			t := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*leaf()}})
			if t.Handshake() == nil {
				f(t)
			}
		})
	}
	secure(func(c *tls.Conn) { drain(c) })
	secure(func(c *tls.Conn) {
		c.Read(make([]byte, 4096))
		drip(c, []byte("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 300)))
	})
	secure(func(c *tls.Conn) {
		c.Read(make([]byte, 4096))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		c.NetConn().Close() // without a close alert
	})
}

// tlsChains: https hosts with bad certificates: expired, not yet valid, for another host, self-signed, from
// an unknown authority, with a hundred thousand names, with hundreds of certificates that may all have
// signed each other, and larger than any client accepts.
func tlsChains(w *Web, add func(hostileHost)) {
	for i, f := range [...]func(a *Authority, name string) *tls.Certificate{
		func(a *Authority, name string) *tls.Certificate {
			return a.issue(func(t *x509.Certificate) {
				t.DNSNames, t.NotAfter = []string{name}, t.NotBefore.AddDate(0, 0, 1)
			})
		},
		func(a *Authority, name string) *tls.Certificate {
			return a.issue(func(t *x509.Certificate) {
				t.DNSNames, t.NotBefore = []string{name}, t.NotAfter.AddDate(0, 0, -1)
			})
		},
		func(a *Authority, _ string) *tls.Certificate {
			return a.issue(func(t *x509.Certificate) { t.DNSNames = []string{"other.test"} })
		},
		func(a *Authority, name string) *tls.Certificate { return a.selfSigned(name) },
		func(a *Authority, name string) *tls.Certificate {
			c := a.issue(func(t *x509.Certificate) { t.DNSNames, t.AuthorityKeyId = []string{name}, []byte("x") })
			c.Certificate[0][len(c.Certificate[0])-1] ^= 1 // corrupts the signature
			return c
		},
		func(a *Authority, name string) *tls.Certificate {
			return a.issue(func(t *x509.Certificate) {
				for k := range 5000 {
					t.DNSNames = append(t.DNSNames, fmt.Sprintf("h%d.%s", k, name))
				}
			})
		},
		func(a *Authority, name string) *tls.Certificate { return a.maze(name, 150) },
		func(a *Authority, name string) *tls.Certificate { return a.maze(name, 600) },
		func(a *Authority, name string) *tls.Certificate {
			return a.issue(func(t *x509.Certificate) {
				t.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: make([]byte, 1<<20)}}
			})
		},
	} {
		name := w.hostileName("tls-chains", i)
		cert := sync.OnceValue(func() *tls.Certificate { return f(w.authority(), name) })
		add(overTLS(name, func(c net.Conn) {
			answerOnce(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*cert()}}))
		}))
	}
}

// answerOnce answers one request: a page, or 404 for robots rules.
func answerOnce(c net.Conn) {
	q, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	if isRobotsPath([]byte(q.RequestURI)) {
		io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	io.WriteString(c,
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\nConnection: close\r\n\r\n<html>tls")
}

// issue signs a certificate after change has modified it; nil means no change.
func (a *Authority) issue(change func(t *x509.Certificate)) *tls.Certificate {
	t := a.template(7, "hostile")
	if change != nil {
		change(t)
	}
	return &tls.Certificate{Certificate: [][]byte{a.sign(t, a.root), a.root.Raw}, PrivateKey: a.key}
}

func (a *Authority) sign(t, parent *x509.Certificate) []byte {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &a.key.PublicKey, a.key)
	if err != nil {
		panic("BUG: simweb: " + err.Error()) // no input of ours can make it fail
	}
	return der
}

func (a *Authority) selfSigned(name string) *tls.Certificate {
	from, to := validity()
	t := &x509.Certificate{SerialNumber: big.NewInt(8), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: from, NotAfter: to}
	return &tls.Certificate{Certificate: [][]byte{a.sign(t, t)}, PrivateKey: a.key}
}

// maze returns a leaf with n further certificates that have the same name and key: each may have signed
// each other, and none of them is trusted.
func (a *Authority) maze(name string, n int) *tls.Certificate {
	from, to := validity()
	ca := func(serial int) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(int64(serial)), Subject: pkix.Name{CommonName: "maze"},
			NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	}
	first := ca(1)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(9), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, NotBefore: from, NotAfter: to}
	c := &tls.Certificate{Certificate: [][]byte{a.sign(leaf, first)}, PrivateKey: a.key}
	for i := range n {
		c.Certificate = append(c.Certificate, a.sign(ca(i+2), first))
	}
	return c
}
