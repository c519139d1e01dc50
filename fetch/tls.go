package fetch

import "crypto/x509"

// TLSOptions are the TLS part of Options.
type TLSOptions struct {
	// Require makes a certificate that isn't good an error of KindCertificate. Otherwise the verdict
	// is recorded in Response.TLSVerdict and the page fetched.
	Require bool
	// Old offers TLS 1.0 and 1.1 as well; otherwise 1.2 is the minimum.
	Old bool
	// Roots are trusted; nil: the system's.
	Roots *x509.CertPool
	// Sessions bounds the session cache in entries (some 3 KiB each with the chain); default 2048,
	// Unlimited isn't allowed, -1 switches resumption off.
	Sessions int
	// Verdicts bounds the cache of chain verdicts in entries (some 100 bytes each); default 65536.
	Verdicts int
}

// Verdicts of a certificate, in Response.TLSVerdict.
const (
	VerdictOK          = "ok"
	VerdictExpired     = "expired"
	VerdictNotYetValid = "not yet valid"
	VerdictName        = "name mismatch"
	VerdictSelfSigned  = "self-signed"
	VerdictUnknown     = "unknown authority"
	VerdictInvalid     = "invalid"
)
