// Package httphead says where the head of an HTTP/1 response ends, which fields it has, and whether its body is
// chunked.
//
// Servers break nearly every rule of RFC 9112, and readers that repair the pieces differently disagree on where a
// body begins and how long it is. So everything in this module that reads a response reads its head here: package
// fetch from the network, package warc when it verifies the payload digest of a record, and package response when
// it takes a record apart. What one of them accepts, the others accept in the same way.
//
// The rules are those that the documentation of package fetch lists under "Ambiguous framing": a line ends with
// LF, after up to MaxCRs CRs; a line that begins with a blank continues the one before (RFC 9112, 5.2); blanks
// before the colon do not count; a line without a colon, or whose name is no token, is no field. A last line
// without its line end is no field either: the connection broke within it, so its value is half a value.
//
// Callers bound the size of a head. A field takes at least 3 bytes of it.
//
// The paper does not describe its HTTP reader. All functions are safe for concurrent use; a Lines belongs to one
// goroutine. Nothing allocates, except for a field on several lines. The package keeps no files.
package httphead

import "bytes"

// MaxBytes bounds the head of a response in a record; package fetch accepts less.
const MaxBytes = 1 << 20

// MaxCRs bounds the CRs that may precede an LF in one line end. Each read of a connection examines them again.
const MaxCRs = 3

// End returns the length of the head at the start of b, including its empty line, or 0 if the head is not yet
// complete. The search starts at from; next is where to continue when more bytes have arrived.
func End(b []byte, from int) (end, next int) {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return 0, len(b)
		}
		i += from
		j := i + 1
		for j < len(b) && b[j] == '\r' && j <= i+MaxCRs {
			j++
		}
		if j == len(b) {
			return 0, i // the deciding byte has not arrived yet
		}
		if b[j] == '\n' {
			return j + 1, j + 1
		}
		from = j
	}
}

// Lines reads the fields of a head, one after the other. Rest is the head, with or without its status line; a head
// may be cut off anywhere.
type Lines struct {
	Rest []byte
	// Key and Value are those of the current field, valid until the next call of Next. Value has no blanks around
	// it, but may have control bytes.
	Key, Value []byte
	// BareLF says that a line ended in LF alone. Repaired says that a line was left out, joined or trimmed.
	BareLF, Repaired bool
}

// Next reads the next field. It returns false at the end of the head.
func (l *Lines) Next() bool {
	for {
		line, ok := l.line()
		if !ok {
			return false
		}
		if isBlank(line[0]) || !l.start(line) {
			l.Repaired = true // for a continuation: of a line that was left out
			continue
		}
		l.join()
		l.Value = Trim(l.Value)
		return true
	}
}

// line returns the next line without its end; ok is false at the end of the head.
func (l *Lines) line() (line []byte, ok bool) {
	i := bytes.IndexByte(l.Rest, '\n')
	if i < 0 {
		l.Repaired = l.Repaired || len(l.Rest) > 0
		l.Rest = nil
		return nil, false
	}
	line, l.Rest = l.Rest[:i], l.Rest[i+1:]
	if len(line) == 0 || line[len(line)-1] != '\r' {
		l.BareLF = true
	}
	for len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	return line, len(line) > 0
}

// start takes the first line of a field apart. It returns false if the line is no field.
func (l *Lines) start(line []byte) bool {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return false
	}
	key := line[:colon]
	for len(key) > 0 && isBlank(key[len(key)-1]) {
		key = key[:len(key)-1]
	}
	l.Repaired = l.Repaired || len(key) != colon
	for _, c := range key {
		if !IsToken(c) {
			return false
		}
	}
	l.Key, l.Value = key, line[colon+1:]
	return len(key) > 0
}

// join appends the continuation lines of a field to its value.
func (l *Lines) join() {
	if len(l.Rest) == 0 || !isBlank(l.Rest[0]) {
		return
	}
	l.Repaired = true
	value := append([]byte(nil), l.Value...)
	for len(l.Rest) > 0 && isBlank(l.Rest[0]) {
		line, ok := l.line()
		if !ok {
			break
		}
		value = append(append(value, ' '), bytes.TrimSpace(line)...)
	}
	l.Value = value
}

// Chunked reports whether the head names the transfer coding chunked, alone or among others.
func Chunked(head []byte) bool {
	for l := (Lines{Rest: head}); l.Next(); {
		if !Is(l.Key, "transfer-encoding") {
			continue
		}
		for part := range bytes.SplitSeq(l.Value, []byte{','}) {
			if Is(Trim(part), "chunked") {
				return true
			}
		}
	}
	return false
}

// Is compares b with key, which is in lower case, ignoring case.
func Is(b []byte, key string) bool {
	if len(b) != len(key) {
		return false
	}
	for i := range len(b) {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != key[i] {
			return false
		}
	}
	return true
}

// IsToken reports whether c may occur in the name of a field (RFC 9110, 5.6.2).
func IsToken(c byte) bool { return tokens[c] }

var tokens = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		t[c] = true
	}
	return t
}()

// Trim removes blanks from both ends.
func Trim(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
