package fetch

import "crypto/tls"

// What a client offers in a TLS handshake is listed here and not left to the library, so that another version
// of it changes nothing silently; TestOffer compares. The suites of TLS 1.3 and the signature schemes cannot
// be chosen; the test has them all the same.

// curves prefers X25519 and omits the hybrid with ML-KEM, which nearly doubles the cost of a handshake and
// adds 2.3 KB; a crawler has no long-term secrets. P-256 takes about 10 % less time than X25519's 100 µs (1
// to 2 % of a fetch), but a server that prefers X25519 would need an extra round trip.
func curves() []tls.CurveID {
	return []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
}

// Versions of TLS. Without TLSOptions.Old the least is 1.2.
const (
	minVersion = tls.VersionTLS12
	oldVersion = tls.VersionTLS10
	maxVersion = tls.VersionTLS13
)

// suites are the cipher suites of TLS 1.2: those with forward secrecy that the library holds to be safe.
func suites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
	}
}

// oldSuites are the further suites of TLSOptions.Old: the exchange of keys by RSA, CBC with SHA-256, 3DES,
// and RC4 last.
func oldSuites() []uint16 {
	return append(suites(), tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,
		tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_RSA_WITH_AES_128_CBC_SHA256, tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA,
		tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA, tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA,
		tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA, tls.TLS_ECDHE_RSA_WITH_RC4_128_SHA, tls.TLS_RSA_WITH_RC4_128_SHA)
}
