package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

// Validity of certificates. A cluster's CA signs for nobody else, and its clocks may differ a little.
const (
	validYears = 10
	clockSlack = time.Hour
)

// signer is a certificate with its key.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newSigner makes a CA.
func newSigner(common string) (*signer, error) {
	return issue(&x509.Certificate{Subject: pkix.Name{CommonName: common}, IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}, nil)
}

// sign makes a certificate: of servers with these host names and addresses, or without any of a client.
func (s *signer) sign(common string, hosts []string) (*signer, error) {
	t := &x509.Certificate{Subject: pkix.Name{CommonName: common}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if len(hosts) > 0 {
		// A server is a client of the others, too.
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		for _, host := range withLoopback(hosts) {
			if ip := net.ParseIP(host); ip != nil {
				t.IPAddresses = append(t.IPAddresses, ip)
			} else {
				t.DNSNames = append(t.DNSNames, host)
			}
		}
	}
	return issue(t, s)
}

// withLoopback adds the names by which a server's own machine reaches it.
func withLoopback(hosts []string) []string {
	return append([]string{"localhost", "127.0.0.1", "::1"}, hosts...)
}

// issue makes a key, and a certificate that by signs; nil: that signs itself.
func issue(t *x509.Certificate, by *signer) (*signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	t.NotBefore, t.NotAfter = now.Add(-clockSlack), now.AddDate(validYears, 0, 0)
	parent := &signer{cert: t, key: key}
	if by != nil {
		parent = by
		if t.NotAfter.After(by.cert.NotAfter) {
			t.NotAfter = by.cert.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent.cert, &key.PublicKey, parent.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &signer{cert: cert, key: key}, err
}

// fits reports why the certificate cannot be used with this CA: for servers with these names, or for a client.
func (s *signer) fits(ca *signer, hosts []string) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	usage := x509.ExtKeyUsageClientAuth
	if len(hosts) > 0 {
		usage = x509.ExtKeyUsageServerAuth
	}
	if _, err := s.cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		return err
	}
	for _, host := range hosts {
		if err := s.cert.VerifyHostname(host); err != nil {
			return err
		}
	}
	return nil
}

// encode returns certificate and key as PEM.
func (s *signer) encode() (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		return nil, nil, err
	}
	defer clear(der)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// parseSigner reads what encode returned.
func parseSigner(cert, key []byte) (*signer, error) {
	p, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	k, ok := p.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not one of an elliptic curve")
	}
	return &signer{cert: p.Leaf, key: k}, nil
}
