package pagetext

import "bytes"

// isSpace reports whether HTML takes a byte as white space.
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// Attr returns the next attribute of a start tag; ok is false after the last one. Names are in lower case, values
// have their entities replaced. A name may come again; in HTML the first one counts.
//
// The attributes are read from the bytes of the tag. The tokenizer has found them already, but it copies each name and
// value twice. It is asked only for values that differ from their bytes.
func (t *Token) Attr() (name, value []byte, ok bool) {
	if t.next == len(t.read) {
		if name, value, ok = t.readAttr(); !ok {
			return nil, nil, false
		}
		t.read = append(t.read, attribute{name, value})
	}
	a := &t.read[t.next]
	t.next++
	return a.name, a.value, true
}

// Rewind makes Attr begin with the first attribute again.
func (t *Token) Rewind() { t.next = 0 }

// readAttr reads the next attribute of the tag.
func (t *Token) readAttr() (name, value []byte, ok bool) {
	if !t.more {
		return nil, nil, false
	}
	b := t.attrs
	i := 0
	for i < len(b) && (isSpace(b[i]) || b[i] == '/') {
		i++
	}
	if i == len(b) || b[i] == '>' {
		t.more = false
		return nil, nil, false
	}
	from, plain := i, true
	for ; i < len(b) && !isSpace(b[i]) && b[i] != '/' && b[i] != '>' && (b[i] != '=' || i == from); i++ {
		if c := b[i]; c >= 'A' && c <= 'Z' {
			b[i] = c | 0x20
		} else if c == 0 {
			plain = false
		}
	}
	name = b[from:i]
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	if i < len(b) && b[i] == '=' {
		i++
		for i < len(b) && isSpace(b[i]) {
			i++
		}
		value, i = attrValue(b, i)
	}
	t.attrs = b[i:]
	if plain && !bytes.ContainsAny(value, "&\r\x00") {
		return name, value, true
	}
	name = bytes.ReplaceAll(name, []byte{0}, []byte("\uFFFD"))
	for more := true; more; {
		var n, v []byte
		if n, v, more = t.z.TagAttr(); bytes.Equal(n, name) {
			return name, v, true
		}
	}
	return name, value, true // a repeated name, which the tokenizer leaves out
}

// attrValue returns the value that begins at i, behind "=", and where it ends.
func attrValue(b []byte, i int) (value []byte, end int) {
	from := i
	if i < len(b) && (b[i] == '"' || b[i] == '\'') {
		n := bytes.IndexByte(b[i+1:], b[i])
		if n < 0 {
			return b[i+1:], len(b)
		}
		return b[i+1 : i+1+n], i + n + 2
	}
	for i < len(b) && !isSpace(b[i]) && b[i] != '>' {
		i++
	}
	return b[from:i], i
}
