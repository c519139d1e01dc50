package fetch

import (
	"crypto/tls"
	"errors"
	"io"
	"strings"
)

// maxTLSCause bounds the text of a failed handshake: some of it may come from the server's certificate.
const maxTLSCause = 160

// TLSClosed is the TLSCause of a connection that ended during the handshake.
const TLSClosed = "connection closed during the handshake"

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
		{"remote error: tls: ", "alert of the server: "},
		{"tls: failed to parse certificate from server: x509: ", "unreadable certificate: "},
		{"tls: failed to parse certificate from server: ", "unreadable certificate: "},
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
