package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	"drumbeat/internal/simweb"
)

// writeCertificates makes a CA and one certificate for all names: ca.pem, cert.pem and key.pem.
func (w *web) writeCertificates() error {
	ca, err := simweb.NewAuthority()
	if err != nil {
		return err
	}
	var names []string
	for _, h := range w.hosts {
		names = append(names, h.name)
	}
	c, err := ca.Sign(2, names...)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return fmt.Errorf("realweb: encode key: %w", err)
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{"ca.pem", "CERTIFICATE", c.Certificate[1]}, {"cert.pem", "CERTIFICATE", c.Certificate[0]},
		{"key.pem", "PRIVATE KEY", key}} {
		text := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := os.WriteFile(w.path(f.name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
