package fetch

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxTLSCause bounds the text of a failed handshake: some of it may come from the server's certificate.
const maxTLSCause = 160

// TLSClosed is the TLSCause of a connection that ended during the handshake.
const TLSClosed = "connection closed during the handshake"

// unreadableCerts begin the errors of crypto/tls about a certificate that it cannot use, whoever signed it.
var unreadableCerts = [...]string{
	"tls: failed to parse certificate from server: ",
	"tls: server sent certificate containing RSA key larger than ",
	"tls: server's certificate contains an unsupported type of public key: ",
}

// unreadable reports whether a handshake failed because of a certificate that crypto/tls cannot use. e may be nil.
func (e *Error) unreadable() bool {
	return e != nil && e.Kind == KindTLS && e.Err != nil && slices.ContainsFunc(unreadableCerts[:],
		func(prefix string) bool { return strings.HasPrefix(e.Err.Error(), prefix) })
}

// unreadableKey is the key, among the verdicts, of a server with such a certificate.
func unreadableKey(k idleKey) [16]byte {
	var room [128]byte
	b := append(append(room[:0], "unreadable "...), k.host...)
	b = k.addr.AppendTo(append(b, ' '))
	if k.proxy != (Proxy{}) {
		b = fmt.Appendf(b, " %v", k.proxy)
	}
	sum := sha256.Sum256(b)
	return [16]byte(sum[:])
}

// TLSCause says in a few words why a handshake failed; "" if the error is of another kind than KindTLS.
func (e *Error) TLSCause() string {
	if e.Kind != KindTLS {
		return ""
	}
	if e.Err == nil || errors.Is(e.Err, io.EOF) || errors.Is(e.Err, io.ErrUnexpectedEOF) {
		return TLSClosed
	}
	var odd tls.RecordHeaderError
	if errors.As(e.Err, &odd) {
		return "no TLS: " + strings.TrimPrefix(odd.Msg, "tls: ")
	}
	text := e.Err.Error()
	for _, known := range [...]struct{ prefix, means string }{
		{"remote error: tls: ", "alert from the server: "},
		{"tls: failed to parse certificate from server: x509: ", "unreadable certificate: "},
		{"tls: failed to parse certificate from server: ", "unreadable certificate: "},
		{"tls: server sent certificate containing ", "unreadable certificate: "},
		{"tls: server's certificate contains ", "unreadable certificate: "},
		{"tls: ", ""},
	} {
		if rest, ok := strings.CutPrefix(text, known.prefix); ok {
			text = known.means + rest
			break
		}
	}
	if len(text) > maxTLSCause {
		text = strings.ToValidUTF8(text[:maxTLSCause], "")
	}
	return text
}
