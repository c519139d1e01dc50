package simweb

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"
)

// Authority signs certificates for hosts, valid from 1990 to 2090, to include virtual times. It is safe for concurrent
// use.
type Authority struct {
	key  *ecdsa.PrivateKey // of the authority and of all leaves
	root *x509.Certificate
	pool *x509.CertPool

	mu    sync.Mutex // guards certs and next
	certs map[string]*tls.Certificate
	next  int64
}

// maxAuthorityCerts bounds the cached certificates, about 2 KB each; beyond it the cache is emptied.
const maxAuthorityCerts = 20_000

func validity() (from, to time.Time) {
	return time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
}

// NewAuthority makes an authority with a new key.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("simweb: make an authority's key: %w", err)
	}
	from, to := validity()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simweb root"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("simweb: sign an authority: %w", err)
	}
	a := &Authority{key: key, pool: x509.NewCertPool(), certs: map[string]*tls.Certificate{}, next: 2}
	if a.root, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("simweb: parse an authority: %w", err)
	}
	a.pool.AddCert(a.root)
	return a, nil
}

// Pool returns a pool with the authority's certificate.
func (a *Authority) Pool() *x509.CertPool { return a.pool }

// Certificate returns the certificate of a host, and of all names one label below.
func (a *Authority) Certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.certs[host]; c != nil {
		return c, nil
	}
	if len(a.certs) >= maxAuthorityCerts {
		clear(a.certs)
	}
	a.next++
	c, err := a.Sign(a.next, host, "*."+host)
	if err == nil {
		a.certs[host] = c
	}
	return c, err
}

// Sign makes a certificate of some names. The authority's own follows it.
func (a *Authority) Sign(serial int64, names ...string) (*tls.Certificate, error) {
	t := a.template(serial, names[0])
	t.DNSNames = names
	der, err := x509.CreateCertificate(rand.Reader, t, a.root, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("simweb: sign certificate of %s: %w", names[0], err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.root.Raw}, PrivateKey: a.key}, nil
}

// template returns a server's certificate without names, unsigned.
func (a *Authority) template(serial int64, name string) *x509.Certificate {
	from, to := validity()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// authority creates the web's authority on first use.
func (w *Web) authority() *Authority {
	w.ca.Do(func() {
		a, err := NewAuthority()
		if err != nil {
			panic("BUG: " + err.Error()) // no input of ours can make it fail
		}
		w.certs = a
	})
	return w.certs
}

// CAPool returns a pool with the authority that signs the https hosts' certificates, one for each PLD.
func (w *Web) CAPool() *x509.CertPool { return w.authority().pool }

// tlsConfig returns the server side's configuration of TLS. The handshake fails for a name that isn't an https
// host.
func (w *Web) tlsConfig() *tls.Config {
	a := w.authority()
	return &tls.Config{
		MinVersion:       tls.VersionTLS12,
		CurvePreferences: []tls.CurveID{tls.X25519},
		NextProtos:       []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			i, _, ok := w.find(strings.ToLower(hello.ServerName))
			if !ok || w.hosts[i].scheme != "https" {
				return nil, fmt.Errorf("simweb: shake hands as %q: no https host", hello.ServerName)
			}
			return a.Certificate(w.plds[w.hosts[i].pld].name)
		},
	}
}
