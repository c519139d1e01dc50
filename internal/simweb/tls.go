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

// authority is a certificate authority of this web and the certificates that it has signed: one per PLD,
// for the PLD and all names one label below.
type authority struct {
	w     *Web
	key   *ecdsa.PrivateKey // of the authority and of all leaves
	root  *x509.Certificate
	der   []byte
	pool  *x509.CertPool
	mu    sync.Mutex // guards certs
	certs map[int32]*tls.Certificate
}

// authority creates the authority on first use.
func (w *Web) authority() *authority {
	w.ca.Do(func() {
		a, err := newAuthority(w)
		if err != nil {
			panic("BUG: simweb: " + err.Error()) // no input of ours can make it fail
		}
		w.certs = a
	})
	return w.certs
}

// CAPool returns a pool with the authority that signs the https hosts' certificates. They are valid from
// 1990 to 2090, to include virtual times.
func (w *Web) CAPool() *x509.CertPool { return w.authority().pool }

func validity() (from, to time.Time) {
	return time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
}

func newAuthority(w *Web) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	from, to := validity()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simweb root"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign root: %w", err)
	}
	a := &authority{w: w, key: key, der: der, pool: x509.NewCertPool(), certs: map[int32]*tls.Certificate{}}
	if a.root, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("parse root: %w", err)
	}
	a.pool.AddCert(a.root)
	return a, nil
}

// config returns the server side's configuration of TLS. The handshake fails for a name that isn't an https
// host.
func (a *authority) config() *tls.Config {
	return &tls.Config{
		MinVersion:       tls.VersionTLS12,
		CurvePreferences: []tls.CurveID{tls.X25519},
		NextProtos:       []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			i, _, ok := a.w.find(strings.ToLower(hello.ServerName))
			if !ok || a.w.hosts[i].scheme != "https" {
				return nil, fmt.Errorf("simweb: shake hands as %q: no https host", hello.ServerName)
			}
			return a.leaf(a.w.hosts[i].pld)
		},
	}
}

// leaf returns the certificate of a PLD; it creates it on first use.
func (a *authority) leaf(p int32) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.certs[p]; c != nil {
		return c, nil
	}
	c, err := a.signPLD(int64(p)+2, a.w.plds[p].name)
	if err != nil {
		return nil, err
	}
	a.certs[p] = c
	return c, nil
}

// signPLD creates the certificate of a PLD and its names one label below.
func (a *authority) signPLD(serial int64, name string) (*tls.Certificate, error) {
	from, to := validity()
	t := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to,
		DNSNames: []string{name, "*." + name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.root, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("simweb: sign certificate of %s: %w", name, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.der}, PrivateKey: a.key}, nil
}
