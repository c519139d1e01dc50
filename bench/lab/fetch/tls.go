package fetch

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// The schemes that are served: https with keys on P-256, https-rsa with keys of RSA-2048; both have a leaf and an intermediate
// below a root that the client gets.
const (
	schemeHTTP     = "http"
	schemeHTTPS    = "https"
	schemeHTTPSRSA = "https-rsa"
)

// urlScheme is the scheme as a URL has it.
func urlScheme(scheme string) string {
	if scheme == schemeHTTP {
		return schemeHTTP
	}
	return schemeHTTPS
}

// fetchHost is the name of the host at address i; the certificates are for all of them.
func fetchHost(i int) string { return fmt.Sprintf("host-%d.bench.test", i) }

// serverTLS makes a chain for a scheme: the server's configuration, and the root.
func serverTLS(scheme string) (cfg *tls.Config, root []byte, err error) {
	newKey := func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }
	if scheme == schemeHTTPSRSA {
		newKey = func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) }
	}
	var chain [][]byte // the root first
	var parent *x509.Certificate
	var parentKey, key crypto.Signer
	for i, name := range []string{"root", "intermediate", "leaf"} {
		if key, err = newKey(); err != nil {
			return nil, nil, fmt.Errorf("bench: fetch: key of the %s: %w", name, err)
		}
		t := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: "bench " + name}, BasicConstraintsValid: true,
			IsCA: i < 2, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}
		if i == 2 {
			t.DNSNames, t.ExtKeyUsage = []string{"*.bench.test"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}
		if parent == nil {
			parent, parentKey = t, key
		}
		der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), parentKey)
		if err != nil {
			return nil, nil, fmt.Errorf("bench: fetch: certificate of the %s: %w", name, err)
		}
		if parent, err = x509.ParseCertificate(der); err != nil {
			return nil, nil, fmt.Errorf("bench: fetch: certificate of the %s: %w", name, err)
		}
		parentKey = key
		chain = append(chain, der)
	}
	cert := tls.Certificate{Certificate: [][]byte{chain[2], chain[1]}, PrivateKey: key, Leaf: parent}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}, chain[0], nil
}

// rootsOf are what a client of a scheme trusts; nil without TLS.
func (s *fetchServer) rootsOf(scheme string) (*x509.CertPool, error) {
	if scheme == schemeHTTP {
		return nil, nil
	}
	root, err := x509.ParseCertificate(s.Roots[scheme])
	if err != nil {
		return nil, fmt.Errorf("bench: fetch: root of %s: %w", scheme, err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return pool, nil
}

// libraryTLS is the library's configuration as it comes, with our root, and with sessions where the form wants them.
func (b *fetchBase) libraryTLS() *tls.Config {
	cfg := &tls.Config{RootCAs: b.roots, ServerName: fetchHost(0)}
	if b.form.Resume {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return cfg
}

// bareTLS verifies nothing and offers one curve, so that the library does no more than it must.
func (b *fetchBase) bareTLS() *tls.Config {
	cfg := b.libraryTLS()
	cfg.InsecureSkipVerify, cfg.CurvePreferences, cfg.MinVersion = true, []tls.CurveID{tls.X25519}, tls.VersionTLS13
	return cfg
}
