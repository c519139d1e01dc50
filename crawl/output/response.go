package output

import (
	"bytes"
	"crypto/tls"

	"drumbeat/fetch"
	"drumbeat/internal/mimetype"
)

// IsRedirect reports whether a response names where it redirects to.
func IsRedirect(resp *fetch.Response) bool {
	switch resp.Status {
	case 301, 302, 303, 307, 308:
		return len(resp.Header("Location")) > 0
	}
	return false
}

var (
	httpOnly  = []string{"http/1.1"}
	httpTLS13 = []string{"http/1.1", "tls/1.3"}
	httpTLS12 = []string{"http/1.1", "tls/1.2"}
	// The records of HTTP/2 are heads and bodies of HTTP/1.1, which all readers know (package fetch/h2).
	http2TLS13 = []string{"h2", "tls/1.3"}
	http2TLS12 = []string{"h2", "tls/1.2"}
)

// Protocols returns the values of WARC-Protocol.
func Protocols(resp *fetch.Response) []string {
	if resp.Proto == fetch.ProtoHTTP2 {
		if resp.TLSVersion == tls.VersionTLS12 {
			return http2TLS12
		}
		return http2TLS13
	}
	switch resp.TLSVersion {
	case 0:
		return httpOnly
	case tls.VersionTLS13:
		return httpTLS13
	case tls.VersionTLS12:
		return httpTLS12
	}
	return httpOnly
}

// CipherSuite returns the value of WARC-Cipher-Suite, a name of the IANA registry; "" without TLS.
func CipherSuite(resp *fetch.Response) string {
	if resp.CipherSuite == 0 {
		return ""
	}
	return tls.CipherSuiteName(resp.CipherSuite)
}

// MIMEType returns the essence of the type that the response names; "" if it names none.
func MIMEType(resp *fetch.Response) string {
	value := resp.Header("Content-Type")
	if bytes.IndexByte(value, ',') < 0 { // common types need no allocation
		switch t, _, _ := bytes.Cut(value, []byte{';'}); string(t) {
		case "text/html":
			return "text/html"
		case "text/plain":
			return "text/plain"
		case "application/xhtml+xml":
			return "application/xhtml+xml"
		}
	}
	return mimetype.Extract(string(value)).Essence
}
