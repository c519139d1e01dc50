package fetch

import (
	"bytes"
	"strconv"

	"drumbeat/internal/httphead"
)

// The head of a reply is normalized while it is read. Servers break nearly every rule, and browsers accept
// bare LF, folded lines, lines without a colon, control bytes, repeated Content-Length and odd versions. One
// pass over the lines writes the normalized copy and extracts the framing. No library does both. fasthttp's
// codec took 1.4 µs to parse the normalized copy and gave the same result (FuzzHead compares the two).

// framing is what the head says about the length and coding of the body and about the connection.
type framing struct {
	status  int
	length  int64 // Content-Length; -1: none or unusable
	chunked bool
	none    bool   // the status allows no body
	codings []byte // content and transfer codings in the order of application: "gzip,br"
	// Of the connection.
	lengths       int  // number of Content-Length values
	odd           bool // any transfer coding except a single chunked
	closes, keeps bool // Connection: close, Connection: keep-alive
	idle          int  // timeout of Keep-Alive in seconds; -1: none
}

// blankPrefix returns the number of blank bytes before the status line, which some servers send.
func blankPrefix(b []byte) int {
	n := 0
	for n < len(b) && (b[n] == '\r' || b[n] == '\n' || b[n] == ' ' || b[n] == '\t') {
		n++
	}
	return n
}

// httpPrefix begins every status line.
const httpPrefix = "HTTP/"

// isHTTPPrefix reports whether b can be the beginning of a status line.
func isHTTPPrefix(b []byte) bool {
	n := min(len(b), len(httpPrefix))
	return bytes.EqualFold(b[:n], []byte(httpPrefix[:n]))
}

// parseStatusLine parses a line such as "HTTP/1.1 200 OK". It accepts any version and requires a code of
// three digits.
func parseStatusLine(line []byte) (proto string, status int, ok bool) {
	line = bytes.TrimRight(line, "\r\n \t")
	if len(line) < 5 || !isHTTPPrefix(line) {
		return "", 0, false
	}
	sp := bytes.IndexAny(line, " \t")
	if sp < 0 {
		return "", 0, false
	}
	rest := bytes.TrimLeft(line[sp:], " \t")
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		status = status*10 + int(rest[digits]-'0')
		if digits++; digits > 3 {
			return "", 0, false
		}
	}
	if digits != 3 || status < 100 {
		return "", 0, false
	}
	if digits < len(rest) && httphead.IsToken(rest[digits]) {
		return "", 0, false // "20OK" and "200x"
	}
	return protoName(line[:sp]), status, true
}

func protoName(b []byte) string {
	switch string(b) {
	case "HTTP/1.1":
		return "HTTP/1.1"
	case "HTTP/1.0":
		return "HTTP/1.0"
	}
	return string(bytes.ToUpper(b[:min(len(b), 8)]))
}

// header holds the normalized lines of a head.
type header struct {
	text   []byte // names and values without separators
	fields []field
}

// field locates a line in header.text: the name is [key, value), the value is [value, end).
type field struct{ key, value, end uint32 }

// readHead normalizes head into resp and sets f. It returns errHead if there is no valid status line, and
// errHeadLines if there are too many fields: a field that was left out might be one that frames the message, so
// the message is refused as a whole. The head may be cut off before its empty line.
func readHead(head []byte, resp *Response, f *framing) error {
	*f = framing{length: -1, idle: -1}
	lineEnd := bytes.IndexByte(head, '\n') + 1
	if lineEnd == 0 {
		lineEnd = len(head)
	}
	proto, status, ok := parseStatusLine(head[:lineEnd])
	if !ok {
		return errHead
	}
	f.status = status
	f.none = status == 204 || status == 304 || status < 200
	h := &resp.buf.head
	if h.text, h.fields = h.text[:0], h.fields[:0]; cap(h.text) < len(head) {
		h.text = make([]byte, 0, len(head)+64)
	}
	if lineEnd < 2 || head[lineEnd-2] != '\r' {
		resp.Flaws |= FlawBareLF
	}
	m := headNormalizer{resp: resp, f: f, out: h}
	if !m.lines(head[lineEnd:]) {
		return errHeadLines
	}
	m.finish()
	resp.Status, resp.Proto = status, proto
	return nil
}

// headNormalizer writes the normalized lines of one head.
type headNormalizer struct {
	resp    *Response
	f       *framing
	out     *header
	lengths int // number of Content-Length values
	length  int64
	types   []byte // the values of Content-Type, combined
	content []byte // content codings in order
	trans   []byte // transfer codings except chunked
}

// lines processes all header lines up to the empty line. It returns false if there are too many.
func (m *headNormalizer) lines(b []byte) bool {
	l := httphead.Lines{Rest: b}
	for count := 0; l.Next(); count++ {
		if count == maxHeaderLines {
			return false
		}
		m.field(l.Key, l.Value)
	}
	if l.BareLF {
		m.resp.Flaws |= FlawBareLF
	}
	if l.Repaired {
		m.resp.Flaws |= FlawRepaired
	}
	return true
}

// field writes a line, or adds it to the framing.
func (m *headNormalizer) field(key, value []byte) {
	switch key[0] | 0x20 { // skip the comparisons for most names
	case 'c', 't', 'k':
	default:
		m.write(key, value)
		return
	}
	switch {
	case httphead.Is(key, "content-length"):
		m.contentLength(value)
		return
	case httphead.Is(key, "transfer-encoding"):
		m.transfer(value)
		return
	case httphead.Is(key, "connection"):
		m.connection(value)
	case httphead.Is(key, "keep-alive"):
		m.keepAlive(value)
	case httphead.Is(key, "trailer"):
		return // not needed
	case httphead.Is(key, "content-encoding"):
		m.content = appendList(m.content, value)
		return
	case httphead.Is(key, "content-type"):
		m.types = appendValue(m.types, value)
		return
	}
	m.write(key, value)
}

func (m *headNormalizer) write(key, value []byte) {
	h := m.out
	f := field{key: uint32(len(h.text))}
	h.text = append(h.text, key...)
	f.value = uint32(len(h.text))
	h.text = append(h.text, value...)
	text := h.text[f.value:]
	for i, c := range text {
		if c < ' ' && c != '\t' || c == 0x7f {
			text[i] = ' '
			m.resp.Flaws |= FlawRepaired
		}
	}
	text = httphead.Trim(text)
	f.end = f.value + uint32(copy(h.text[f.value:], text))
	h.text = h.text[:f.end]
	h.fields = append(h.fields, f)
}

// contentLength processes one Content-Length, which may be a list. Equal values merge. If values differ, the
// largest counts, because a shorter one could cut off part of a whole page.
func (m *headNormalizer) contentLength(value []byte) {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		part = httphead.Trim(part)
		n, ok := parseLength(part)
		switch {
		case !ok:
			m.resp.Flaws |= FlawLengths
			continue
		case m.lengths > 0 && n != m.length:
			m.resp.Flaws |= FlawLengths
		case m.lengths > 0:
			m.resp.Flaws |= FlawRepaired
		}
		m.lengths++
		m.length = max(m.length, n)
	}
}

func parseLength(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n < 1<<50 { // saturates far above every limit
			n = n*10 + int64(c-'0')
		}
	}
	return n, true
}

func (m *headNormalizer) transfer(value []byte) {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		part = httphead.Trim(part)
		switch {
		case httphead.Is(part, "chunked"):
			m.f.odd = m.f.odd || m.f.chunked
			m.f.chunked = true
		case httphead.Is(part, "identity"):
			m.f.odd = true
		case len(part) > 0:
			m.f.odd = true
			m.trans = appendList(m.trans, part)
		}
	}
}

// connection processes a Connection line.
func (m *headNormalizer) connection(value []byte) {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		part = httphead.Trim(part)
		m.f.closes = m.f.closes || httphead.Is(part, "close")
		m.f.keeps = m.f.keeps || httphead.Is(part, "keep-alive")
	}
}

// keepAlive processes a Keep-Alive line: "timeout=5, max=100".
func (m *headNormalizer) keepAlive(value []byte) {
	for part := range bytes.SplitSeq(value, []byte{','}) {
		name, number, _ := bytes.Cut(httphead.Trim(part), []byte{'='})
		n, ok := parseLength(bytes.Trim(number, " \t\""))
		switch {
		case !ok:
		case httphead.Is(name, "timeout"):
			m.f.idle = int(min(n, 1<<20)) // 12 days
		case httphead.Is(name, "max") && n == 0:
			m.f.closes = true
		}
	}
}

// finish completes the framing and writes the merged lines.
func (m *headNormalizer) finish() {
	m.f.lengths = m.lengths
	if m.lengths > 0 && !m.f.chunked {
		m.f.length = m.length
		var digits [20]byte
		m.write([]byte("Content-Length"), strconv.AppendInt(digits[:0], min(m.length, 1<<50), 10))
	}
	if len(m.types) > 0 {
		m.write([]byte("Content-Type"), m.types)
	}
	if len(m.content) > 0 {
		m.write([]byte("Content-Encoding"), m.content)
	}
	m.f.codings = m.content
	if len(m.trans) > 0 {
		m.f.codings = appendList(m.content, m.trans)
	}
}

// appendValue combines the value of another line with those before it, as the Fetch standard does ("get", in 2.2.2):
// an empty value counts, too.
func appendValue(dst, value []byte) []byte {
	if dst == nil {
		return value[:len(value):len(value)] // do not append to the head
	}
	return append(append(dst, ", "...), value...)
}

// appendList appends part to a comma-separated list. dst must not alias the head.
func appendList(dst, part []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, part...)
}

// Header returns the first value of a header, or nil. It ignores the case of the name. Repeated
// Content-Length, Content-Type and Content-Encoding lines are merged. Transfer-Encoding and Trailer are only in
// RawHead.
func (r *Response) Header(name string) []byte {
	if r.Status == 0 {
		return nil
	}
	for _, f := range r.buf.head.fields {
		if r.buf.head.is(f, name) {
			if f.end == f.value {
				return nil
			}
			return r.buf.head.text[f.value:f.end:f.end]
		}
	}
	return nil
}

// EachHeader calls fn with each value of a header, in order, until fn returns false.
func (r *Response) EachHeader(name string, fn func(value []byte) bool) {
	if r.Status == 0 {
		return
	}
	for _, f := range r.buf.head.fields {
		if f.end > f.value && r.buf.head.is(f, name) && !fn(r.buf.head.text[f.value:f.end:f.end]) {
			return
		}
	}
}

// EachField calls fn with the name and the value of each header that Header knows, in order. Both are part of the
// response's memory.
func (r *Response) EachField(fn func(name, value []byte)) {
	if r.Status == 0 {
		return
	}
	h := &r.buf.head
	for _, f := range h.fields {
		fn(h.text[f.key:f.value:f.value], h.text[f.value:f.end:f.end])
	}
}

// is reports whether f has the given name, ignoring case.
func (h *header) is(f field, name string) bool {
	return int(f.value-f.key) == len(name) && bytes.EqualFold(h.text[f.key:f.value], []byte(name))
}
