package h2

import (
	"bytes"
	"net/http"
	"strconv"

	"golang.org/x/net/http2/hpack"
)

// headReader collects header blocks and converts them to HTTP/1.1 heads.
type headReader struct {
	most  int    // bytes of a block, and of a head
	block []byte // as received
	text  []byte // the HTTP/1.1 head; empty for trailers
	// Of the block being decoded.
	trailers bool
	status   int // 0: not seen yet
	size     int // of the names and values
	fault    *Error
	dropped  bool // of the whole reply
}

// begin prepares for a new reply.
func (r *headReader) begin() {
	r.release()
	if r.text, r.dropped = r.text[:0], false; cap(r.text) > keptBytes {
		r.text = nil
	}
}

// release frees a large block.
func (r *headReader) release() {
	if cap(r.block) > keptBytes {
		r.block = nil
	}
}

func tooLarge() *Error { return &Error{Kind: HeadTooLarge, Text: "the head exceeds its limit"} }

// read decodes the block.
func (r *headReader) read(d *hpack.Decoder, trailers bool) error {
	r.trailers, r.status, r.size, r.fault = trailers, 0, 0, nil
	_, err := d.Write(r.block)
	switch cerr := d.Close(); {
	case r.fault != nil:
		return r.fault
	case err == hpack.ErrStringLength:
		return tooLarge()
	case err != nil || cerr != nil:
		return malformed("a header block that cannot be decoded")
	case trailers:
		return nil
	case r.status == 0:
		return malformed("a head without :status")
	}
	r.text = append(r.text, "\r\n"...)
	if len(r.text) > r.most {
		return tooLarge()
	}
	return nil
}

// field receives each field of a block.
func (r *headReader) field(f hpack.HeaderField) {
	if r.fault != nil {
		return
	}
	if r.size += len(f.Name) + len(f.Value) + 4; r.size > r.most {
		r.fault = tooLarge()
		return
	}
	switch {
	case len(f.Name) > 0 && f.Name[0] == ':':
		r.pseudo(f)
	case !validName(f.Name) || !validValue(f.Value):
		r.fault = malformed("an invalid field")
	case r.trailers:
	case r.status == 0:
		r.fault = malformed("a field before :status")
	case ofConnection(f.Name):
		r.dropped = true
	default:
		r.text = append(append(r.text, f.Name...), ": "...)
		r.text = append(append(r.text, f.Value...), "\r\n"...)
	}
}

// pseudo handles the only pseudo-header of a reply, :status.
func (r *headReader) pseudo(f hpack.HeaderField) {
	code, err := strconv.ParseUint(f.Value, 10, 16)
	if r.trailers || r.status != 0 || f.Name != ":status" || err != nil || len(f.Value) != 3 || code < 100 {
		r.fault = malformed("a bad pseudo-header")
		return
	}
	r.status = int(code)
	r.text = append(append(r.text, "HTTP/1.1 "...), f.Value...)
	r.text = append(append(append(r.text, ' '), http.StatusText(r.status)...), "\r\n"...)
}

// validName reports whether a name is a token in lower case.
func validName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_':
		case c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z':
			return false
		case bytes.IndexByte([]byte(`"(),/:;<=>?@[\]{}`), c) >= 0:
			return false
		}
	}
	return s != ""
}

// validValue reports whether a value has no line end and no NUL. Fetch repairs other controls.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c == '\r' || c == '\n' || c == 0 {
			return false
		}
	}
	return true
}

// ofConnection reports whether a field is connection-specific (RFC 9113, 8.2.2). Transfer-Encoding would
// change the meaning of the body.
func ofConnection(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// appendRequest appends the frames of a request.
func appendRequest(dst, head []byte, stream uint32) []byte {
	begin := len(dst)
	dst = appendFrame(dst, 0, 0, 0, 0) // set below
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	_, path, _ := bytes.Cut(line, []byte(" "))
	if i := bytes.LastIndexByte(path, ' '); i >= 0 {
		path = path[:i]
	}
	dst = append(dst, 0x80|2, 0x80|7) // :method GET, :scheme https, of the static table
	dst = appendField(dst, 4, "", path)
	dst = appendField(dst, 1, "", hostOf(rest))
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || isName(name, "host") || isName(name, "connection") {
			continue
		}
		dst = appendNamed(dst, name, bytes.TrimLeft(value, " "))
	}
	return split(dst, begin, stream)
}

// hostOf returns the value of the Host line.
func hostOf(lines []byte) []byte {
	for len(lines) > 0 {
		var line []byte
		line, lines, _ = bytes.Cut(lines, []byte("\r\n"))
		if name, value, _ := bytes.Cut(line, []byte(":")); isName(name, "host") {
			return bytes.TrimLeft(value, " ")
		}
	}
	return nil
}

func isName(b []byte, name string) bool {
	return len(b) == len(name) && bytes.EqualFold(b, []byte(name))
}

// staticNames are the indices in the static table (RFC 7541, appendix A) of the names that requests have.
var staticNames = [...]struct {
	name  string
	index int
}{
	{"accept-encoding", 16}, {"accept-language", 17}, {"accept", 19}, {"from", 37},
	{"if-modified-since", 40}, {"if-none-match", 41}, {"user-agent", 58},
}

// neverIndexed marks a literal field that no proxy may put into a table either (RFC 7541, 6.2.3 and 7.1.3).
// All fields have it but those that every request of a crawler has: the others may be secret.
const neverIndexed = 0x10

func appendNamed(dst, name, value []byte) []byte {
	for _, s := range &staticNames {
		if isName(name, s.name) {
			return appendField(dst, s.index, "", value)
		}
	}
	from := len(dst)
	dst = appendField(dst, 0, string(bytes.ToLower(name)), value)
	dst[from] |= neverIndexed
	return dst
}

// appendField appends a literal field without indexing (RFC 7541, 6.2.2): the name is an index, or 0 and
// text.
func appendField(dst []byte, index int, name string, value []byte) []byte {
	dst = appendInt(dst, 4, index)
	if index == 0 {
		dst = append(appendInt(dst, 7, len(name)), name...)
	}
	return append(appendInt(dst, 7, len(value)), value...)
}

// appendInt appends an integer with a prefix of so many bits (RFC 7541, 5.1).
func appendInt(dst []byte, bits uint, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(dst, byte(n))
	}
	dst = append(dst, byte(most))
	for n -= most; n >= 128; n >>= 7 {
		dst = append(dst, byte(n)|128)
	}
	return append(dst, byte(n))
}

// split writes the frame header before the block at dst[begin+frameHeaderBytes:], and divides a block longer
// than a frame.
func split(dst []byte, begin int, stream uint32) []byte {
	block := len(dst) - begin - frameHeaderBytes
	kind, flags := byte(frameHeaders), byte(flagEndStream)
	if block <= maxFrame {
		appendFrame(dst[:begin], block, kind, flags|flagEndHeaders, stream)
		return dst
	}
	rest := bytes.Clone(dst[begin+frameHeaderBytes:])
	for dst = dst[:begin]; len(rest) > 0; kind, flags = frameContinuation, 0 {
		n := min(len(rest), maxFrame)
		if n == len(rest) {
			flags |= flagEndHeaders
		}
		dst = append(appendFrame(dst, n, kind, flags, stream), rest[:n]...)
		rest = rest[n:]
	}
	return dst
}
