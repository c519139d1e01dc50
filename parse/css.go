package parse

import (
	"bytes"
	"unicode/utf8"
)

// cssRaw finds the links of a style sheet in the page's encoding.
func (p *Parser) cssRaw(raw []byte) { p.cssText(p.transcoded(raw)) }

// cssText finds the links of a style sheet or a style attribute: url() and @import, tokenized by CSS Syntax
// Level 3. It ignores strings elsewhere, such as in image-set("a" 1x), and the URL of @namespace.
func (p *Parser) cssText(text []byte) {
	if bytes.IndexByte(text, '(') < 0 && bytes.IndexByte(text, '@') < 0 && bytes.IndexByte(text, '\\') < 0 {
		return
	}
	c := cssScanner{p: p, s: text}
	c.scan()
}

// cssScanner scans a style sheet.
type cssScanner struct {
	p         *Parser
	s         []byte
	i         int
	importing bool // after @import
	namespace bool // in @namespace
}

func (c *cssScanner) scan() {
	for c.i < len(c.s) {
		switch b := c.s[c.i]; {
		case byteClass[b]&isSpace != 0:
			c.i++
		case bytes.HasPrefix(c.s[c.i:], []byte("/*")):
			n := bytes.Index(c.s[c.i+2:], []byte("*/"))
			if n < 0 {
				return
			}
			c.i += n + 4
		case b == '"' || b == '\'':
			if text, ok := c.text(); ok && c.importing {
				c.emit(text)
			}
			c.importing = false
		case b == '@':
			c.i++
			c.importing, c.namespace = false, false
			if c.startsIdent() {
				name := c.ident()
				c.importing, c.namespace = isFold(name, "import"), isFold(name, "namespace")
			}
		case bytes.HasPrefix(c.s[c.i:], []byte("-->")):
			c.i += 3
		case c.startsIdent():
			c.word()
		case b == '#' || byteClass[b]&isDigit != 0:
			c.i++ // a hash or a number with its letters
			c.importing = false
			c.ident()
		default:
			if b == ';' || b == '{' || b == '}' {
				c.namespace = false
			}
			c.importing = false
			c.i++
		}
	}
}

// word reads a name and, for url(), what is in its parentheses.
func (c *cssScanner) word() {
	name := c.ident()
	if c.i >= len(c.s) || c.s[c.i] != '(' || !isFold(name, "url") {
		c.importing = false
		return
	}
	c.i++
	c.space()
	var text []byte
	ok := true
	if c.i < len(c.s) && (c.s[c.i] == '"' || c.s[c.i] == '\'') {
		text, ok = c.text()
	} else {
		text, ok = c.bareURL()
	}
	if ok && !c.namespace {
		c.emit(text)
	}
	c.importing = false
}

func (c *cssScanner) emit(ref []byte) {
	if len(ref) > 0 && c.p.fits(len(ref)) {
		c.p.keepAsset(CSS, ref)
	}
}

func (c *cssScanner) space() {
	for c.i < len(c.s) && byteClass[c.s[c.i]]&isSpace != 0 {
		c.i++
	}
}

// isIdent reports whether b may be in a name.
func isIdent(b byte) bool {
	return byteClass[b]&(isLetter|isDigit) != 0 || b == '_' || b == '-' || b >= utf8.RuneSelf || b == 0
}

// escapes reports whether an escape begins at i.
func (c *cssScanner) escapes(i int) bool {
	return i < len(c.s) && c.s[i] == '\\' && (i+1 >= len(c.s) || !isNewline(c.s[i+1]))
}

func isNewline(b byte) bool { return b == '\n' || b == '\r' || b == '\f' }

// startsIdent reports whether a name begins here.
func (c *cssScanner) startsIdent() bool {
	i := c.i
	if i < len(c.s) && c.s[i] == '-' {
		i++
		if i < len(c.s) && c.s[i] == '-' {
			return true
		}
	}
	return c.escapes(i) || i < len(c.s) && isIdent(c.s[i]) && c.s[i] != '-' && byteClass[c.s[i]]&isDigit == 0
}

// ident reads a name and decodes its escapes. The result is valid until the next call.
func (c *cssScanner) ident() []byte {
	start := c.i
	for c.i < len(c.s) && isIdent(c.s[c.i]) {
		c.i++
	}
	if !c.escapes(c.i) {
		return c.s[start:c.i]
	}
	var space [8]byte
	name := append(space[:0], c.s[start:min(c.i, start+len(space))]...)
	for c.i < len(c.s) {
		switch {
		case c.escapes(c.i):
			char := c.escape()
			if len(name) < len(space) { // longer names are irrelevant
				name = utf8.AppendRune(name, char)
			}
			continue
		case !isIdent(c.s[c.i]):
			return name
		case len(name) < len(space):
			name = append(name, c.s[c.i])
		}
		c.i++
	}
	return name
}

// escape decodes an escape.
func (c *cssScanner) escape() rune {
	c.i++
	if c.i >= len(c.s) {
		return utf8.RuneError
	}
	var char rune
	n := 0
	for ; n < 6 && c.i < len(c.s); n++ {
		digit := hexDigit(c.s[c.i])
		if digit < 0 {
			break
		}
		char = char<<4 + digit
		c.i++
	}
	if n == 0 {
		char, size := utf8.DecodeRune(c.s[c.i:])
		c.i += size
		if char == 0 {
			return utf8.RuneError
		}
		return char
	}
	if bytes.HasPrefix(c.s[c.i:], []byte("\r\n")) {
		c.i++
	}
	if c.i < len(c.s) && byteClass[c.s[c.i]]&isSpace != 0 {
		c.i++
	}
	if char == 0 || !utf8.ValidRune(char) {
		return utf8.RuneError
	}
	return char
}

func hexDigit(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}

// text reads a string. ok is false if a newline interrupts it.
func (c *cssScanner) text() (text []byte, ok bool) {
	quote := c.s[c.i]
	c.i++
	start := c.i
	for c.i < len(c.s) { // fast path without escapes
		switch b := c.s[c.i]; {
		case b == quote:
			c.i++
			return c.s[start : c.i-1 : c.i-1], true
		case isNewline(b):
			return nil, false
		case b == '\\' || b == 0:
			return c.escapedText(c.s[start:c.i], quote)
		}
		c.i++
	}
	return c.s[start:len(c.s):len(c.s)], true
}

// escapedText continues with a string at its first escape.
func (c *cssScanner) escapedText(begin []byte, quote byte) (text []byte, ok bool) {
	page := c.p.page
	start := len(page.scratch)
	page.scratch = append(page.scratch, begin...)
	for c.i < len(c.s) && len(page.scratch)-start <= c.p.opt.MaxRefBytes {
		switch b := c.s[c.i]; {
		case b == quote:
			c.i++
			return page.scratch[start:len(page.scratch):len(page.scratch)], true
		case isNewline(b):
			return nil, false
		case c.escapes(c.i):
			if c.i+1 < len(c.s) { // at the end of the input an escape yields nothing
				page.scratch = utf8.AppendRune(page.scratch, c.escape())
				continue
			}
		case b == '\\': // an escaped newline: the string continues
			c.i++
			if bytes.HasPrefix(c.s[c.i:], []byte("\r\n")) {
				c.i++
			}
		case b == 0:
			page.scratch = append(page.scratch, "\uFFFD"...)
		default:
			page.scratch = append(page.scratch, b)
		}
		c.i++
	}
	return page.scratch[start:len(page.scratch):len(page.scratch)], true
}

// bareURL reads the unquoted URL of url() and the ')'.
func (c *cssScanner) bareURL() (text []byte, ok bool) {
	page := c.p.page
	start, from, copied := len(page.scratch), c.i, false
	value := func() []byte {
		if copied {
			return page.scratch[start:len(page.scratch):len(page.scratch)]
		}
		return c.s[from:c.i:c.i]
	}
	for c.i < len(c.s) {
		switch b := c.s[c.i]; {
		case b == ')':
			text = value()
			c.i++
			return text, true
		case byteClass[b]&isSpace != 0:
			text = value()
			c.space()
			if c.i >= len(c.s) || c.s[c.i] == ')' {
				c.i = min(c.i+1, len(c.s))
				return text, true
			}
			return c.badURL()
		case b == '"' || b == '\'' || b == '(' || b != 0 && b < ' ' || b == 0x7F || b == '\\' && !c.escapes(c.i):
			return c.badURL()
		case b == '\\' || b == 0:
			if !copied {
				copied = true
				page.scratch = append(page.scratch, c.s[from:c.i]...)
			}
			if b == 0 {
				page.scratch = append(page.scratch, "\uFFFD"...)
				c.i++
			} else {
				page.scratch = utf8.AppendRune(page.scratch, c.escape())
			}
		default:
			if copied {
				page.scratch = append(page.scratch, b)
			}
			c.i++
		}
	}
	return value(), true
}

// badURL skips the rest of an invalid url().
func (c *cssScanner) badURL() ([]byte, bool) {
	for c.i < len(c.s) {
		switch {
		case c.s[c.i] == ')':
			c.i++
			return nil, false
		case c.escapes(c.i):
			c.escape()
		default:
			c.i++
		}
	}
	return nil, false
}

// ParseCSS fills page with the links of a style sheet. Its encoding is named by the byte order mark, the
// header or @charset, and is otherwise UTF-8. Queries are encoded in UTF-8.
func (p *Parser) ParseCSS(body []byte, contentType string, page *Page) {
	page.reset()
	p.page, p.xml = page, false
	name, certain := p.charset.find(body, contentType)
	if !certain || p.charset.says == "" && !hasMark(body) {
		name = cssCharset(body)
	}
	text := p.charset.use(name, body, page, &p.decoder)
	if p.decoder.charset != nil && !isASCII(text) {
		if decoded, err := p.decoder.charset.Bytes(text); err == nil {
			text = decoded
		}
	}
	page.Encoding = nil
	p.cssText(bytes.TrimPrefix(text, []byte("\uFEFF")))
	p.page = nil
}

func hasMark(body []byte) bool {
	return bytes.HasPrefix(body, []byte("\xEF\xBB\xBF")) || bytes.HasPrefix(body, []byte("\xFE\xFF")) ||
		bytes.HasPrefix(body, []byte("\xFF\xFE"))
}

// cssCharset returns the encoding named by @charset, else UTF-8.
func cssCharset(body []byte) string {
	const begin = `@charset "`
	if rest, ok := bytes.CutPrefix(body[:min(len(body), 1024)], []byte(begin)); ok {
		if label, _, ok := bytes.Cut(rest, []byte(`";`)); ok {
			if name := encodingName(string(label)); name != "" {
				return metaEncoding(name)
			}
		}
	}
	return "utf-8"
}
