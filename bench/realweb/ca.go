package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"time"
)

// writeCertificates makes a CA and one certificate for all names: ca.pem, cert.pem and key.pem. The CA's key
// is not kept.
func (w *web) writeCertificates() error {
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("realweb: make keys: %w", err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()),
		Subject: pkix.Name{CommonName: "drumbeat realweb CA"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.AddDate(0, 1, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("realweb: make CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("realweb: make keys: %w", err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: hubName},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, h := range w.hosts {
		leaf.DNSNames = append(leaf.DNSNames, h.name)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("realweb: make certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("realweb: code key: %w", err)
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{"ca.pem", "CERTIFICATE", caDER}, {"cert.pem", "CERTIFICATE", leafDER}, {"key.pem", "EC PRIVATE KEY", keyDER}} {
		text := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := os.WriteFile(w.path(f.name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
