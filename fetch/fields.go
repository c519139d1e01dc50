package fetch

import (
	"bytes"
	"slices"

	"drumbeat/internal/httphead"
)

// Field is a line of a request's head.
type Field struct {
	Name, Value string
	// Secret keeps the value out of Response.RequestHead, which has Redacted in its place.
	Secret bool
	// Trusted leaves the field out of a request over TLS to a server whose certificate or version of TLS is not good.
	// It has no effect on http.
	Trusted bool
}

// Redacted stands for the value of a secret Field in Response.RequestHead.
const Redacted = "[redacted]"

// IsToken reports whether s can be the name of a header (RFC 9110, 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		if !httphead.IsToken(s[i]) {
			return false
		}
	}
	return s != ""
}

// validFields reports whether the fields can be sent unchanged.
func validFields(fields []Field) bool {
	for _, f := range fields {
		if !IsToken(f.Name) || !validValue(f.Value) {
			return false
		}
	}
	return true
}

// appendFields appends the fields to a head that lacks only its empty line, and then the empty line.
func appendFields(head []byte, fields []Field, redact bool) []byte {
	for _, f := range fields {
		value := f.Value
		if f.Secret && redact {
			value = Redacted
		}
		head = append(append(append(append(head, f.Name...), ": "...), value...), "\r\n"...)
	}
	return append(head, "\r\n"...)
}

// compose writes the request with these Fields into the buffer.
func (x *exchange) compose(fields []Field) {
	b := &x.resp.buf
	x.fields = fields
	b.req = x.c.appendRequest(b.req[:0], x.req, fields)
	x.record()
}

// withhold takes the Trusted fields out of the request if the server cannot be trusted with them.
func (x *exchange) withhold() {
	trusted := func(f Field) bool { return f.Trusted }
	if x.req.Scheme == "https" && !x.conn.trusted() && slices.ContainsFunc(x.fields, trusted) {
		x.compose(slices.DeleteFunc(slices.Clone(x.fields), trusted))
	}
}

// record sets Response.RequestHead to the request, without secrets.
func (x *exchange) record() {
	head := x.resp.buf.req
	x.resp.RequestHead = head
	size, secret := len("\r\n"), false
	for _, f := range x.fields {
		size += len(f.Name) + len(": ") + len(f.Value) + len("\r\n")
		secret = secret || f.Secret
	}
	if secret {
		x.resp.RequestHead = appendFields(bytes.Clone(head[:len(head)-size]), x.fields, true)
	}
}
