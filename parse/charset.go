package parse

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"

	"drumbeat/internal/mimetype"
)

// charsets determines a page's encoding and caches the last decoder.
type charsets struct {
	header string // the last Content-Type, and the encoding it names or ""
	says   string
	isXML  bool

	lastLabel string // the last label in a meta tag, and the encoding it names
	lastName  string

	name    string // the last encoding other than UTF-8
	enc     encoding.Encoding
	decoder *encoding.Decoder
}

// prescanBytes is how much of a page HTML's prescan examines.
const prescanBytes = 1024

// GuessBytes is how much of a page without a named encoding is examined: at some 5 GB/s, 13 µs a page. Many pages
// have only ASCII in their first KiB of scripts and navigation.
const GuessBytes = 64 << 10

// prepare determines the encoding of body, records it in page and sets up d. It returns the text to scan.
// This is the body, or its UTF-8 form for the few encodings in which the byte '<' is not always the
// character '<'; that form is at most three times as long. If the encoding is not certain, a later meta tag
// may name it.
//
// The order of sources is the standard's: byte order mark, header, UTF-16 without the mark, meta within 1024 bytes,
// XML declaration, UTF-8 if GuessBytes look like it, windows-1252. A page of an XML type has no meta tag to look for,
// and is UTF-8 by default.
func (c *charsets) prepare(body []byte, contentType string, page *Page, d *decoder) (text []byte, certain bool) {
	name, certain := c.find(body, contentType)
	return c.use(name, body, page, d), certain
}

// use is prepare for a known encoding.
func (c *charsets) use(name string, body []byte, page *Page, d *decoder) []byte {
	page.Charset, page.Encoding, d.charset = name, nil, nil
	if name == "utf-8" {
		return body
	}
	if name != c.name {
		enc, err := htmlindex.Get(name)
		if err != nil {
			return body // unreachable: the name comes from htmlindex
		}
		c.name, c.enc, c.decoder = name, enc, enc.NewDecoder()
	}
	page.Encoding, d.charset = c.enc, c.decoder
	switch name {
	case "utf-16le", "utf-16be", "replacement":
		page.Encoding = nil // queries of such pages are sent in UTF-8
	case "iso-2022-jp":
	default:
		return body
	}
	text, _, err := transform.Append(c.decoder, page.text[:0], body)
	if err != nil {
		text = nil // unreachable: decoders replace invalid input
	}
	page.text, d.charset = text, nil
	return text
}

// find returns the name of the encoding from the byte order mark, the header, the XML declaration or the meta tag, or
// else a guess, which is not certain.
func (c *charsets) find(body []byte, contentType string) (name string, certain bool) {
	if contentType != c.header {
		t := mimetype.Extract(contentType)
		c.header, c.says = strings.Clone(contentType), encodingName(t.Charset())
		c.isXML = t.IsXML()
	}
	switch {
	case bytes.HasPrefix(body, []byte("\xEF\xBB\xBF")):
		return "utf-8", true
	case bytes.HasPrefix(body, []byte("\xFE\xFF")):
		return "utf-16be", true
	case bytes.HasPrefix(body, []byte("\xFF\xFE")):
		return "utf-16le", true
	}
	if c.says != "" {
		return c.says, true
	}
	if name := unmarkedUTF16(body); name != "" {
		return name, true
	}
	begin := body[:min(len(body), prescanBytes)]
	if !c.isXML { // XML has no meta tags
		if name := c.prescan(begin); name != "" {
			return name, true
		}
	}
	if name := xmlEncoding(begin); name != "" {
		return name, true
	}
	if c.isXML || looksLikeUTF8(body[:min(len(body), GuessBytes)]) {
		return "utf-8", c.isXML
	}
	return "windows-1252", false
}

// unmarkedUTF16 returns the name of UTF-16 if a body without byte order mark begins with an XML declaration in it,
// which is the first step of the prescan, or with any tag in it; else "". The standard leaves the second to the
// browser. In every other encoding the page would consist of NULs and could have no tag, so nothing is lost.
func unmarkedUTF16(b []byte) string {
	if len(b) < 6 {
		return ""
	}
	second := func(c byte) bool { return c == '?' || c == '!' || byteClass[c]&isLetter != 0 }
	switch {
	case b[0] == '<' && b[1] == 0 && second(b[2]) && b[3] == 0 && b[5] == 0:
		return "utf-16le"
	case b[0] == 0 && b[1] == '<' && b[2] == 0 && second(b[3]) && b[4] == 0:
		return "utf-16be"
	}
	return ""
}

// xmlEncoding returns the encoding that an XML declaration names, or "": "get an XML encoding" of the standard, to
// which the prescan of a page falls back, too.
func xmlEncoding(b []byte) string {
	if !bytes.HasPrefix(b, []byte("<?xml")) {
		return ""
	}
	b, _, ok := bytes.Cut(b, []byte{'>'})
	_, b, found := bytes.Cut(b, []byte("encoding"))
	if b = cutControls(b); !ok || !found || len(b) == 0 || b[0] != '=' {
		return ""
	}
	if b = cutControls(b[1:]); len(b) == 0 || b[0] != '"' && b[0] != '\'' {
		return ""
	}
	label, _, ok := bytes.Cut(b[1:], b[:1])
	if !ok || len(label) > maxLabel || bytes.IndexFunc(label, func(r rune) bool { return r <= ' ' }) >= 0 {
		return ""
	}
	name := encodingName(string(label))
	if strings.HasPrefix(name, "utf-16") {
		return "utf-8" // in UTF-16 the declaration would not have been readable
	}
	return name
}

// cutControls removes white space and controls from the beginning.
func cutControls(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	return b
}

// FindEncoding returns the name of the encoding of a page with the combined values of Content-Type, from the first
// GuessBytes of the page or more: as Parse finds it, except for what only a later meta tag says. named says that
// the page or its header names the encoding; otherwise it is a guess or the default, windows-1252.
func FindEncoding(begin []byte, contentType string) (name string, named bool) {
	var c charsets
	if name, named = c.find(begin, contentType); named {
		return name, true
	}
	p, page := NewParser(Options{}), new(Page)
	p.Parse(begin, contentType, page)
	return page.Charset, p.named != ""
}

// encodingName returns the name of the encoding with the given label, or "".
func encodingName(label string) string {
	label = strings.Trim(label, "\t\n\f\r ")
	if label != strings.TrimSpace(label) {
		return "" // the library trims more kinds of space than the standard
	}
	enc, err := htmlindex.Get(label)
	if err != nil {
		return ""
	}
	name, err := htmlindex.Name(enc)
	if err != nil {
		return ""
	}
	return name
}

// prescan implements HTML's algorithm of that name, which looks for a meta tag with an encoding. It knows
// comments and tags but not elements, so it also finds a meta tag inside a script.
func (c *charsets) prescan(b []byte) string {
	for i := 0; i >= 0; {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 || i+n+2 >= len(b) {
			return ""
		}
		i += n + 1
		switch first := b[i]; {
		case byteClass[first]&isLetter != 0, first == '/' && byteClass[b[i+1]]&isLetter != 0:
			end := nameEnd(b, i+1, endsBare)
			if end-i >= 4 && isFold(b[i:i+4], "meta") && i+4 < len(b) &&
				(b[i+4] == '/' || byteClass[b[i+4]]&isSpace != 0) {
				var found string
				if found, i = c.prescanMeta(b, i+4); found != "" {
					return found
				}
				continue
			}
			a := attributeAt(b, end)
			for a.ok {
				a = attributeAt(b, a.next)
			}
			i = a.next
		case bytes.HasPrefix(b[i:], []byte("!--")):
			n := bytes.Index(b[i+1:], []byte("-->")) // the dashes may be those of "<!--"
			if n < 0 {
				return ""
			}
			i += 1 + n + 3
		case first == '/' || first == '!' || first == '?':
			i = closeAngle(b, i+1)
		}
	}
	return ""
}

// prescanMeta returns the encoding named by the meta tag whose name ends at i, or "", and where to continue.
func (c *charsets) prescanMeta(b []byte, i int) (name string, next int) {
	var hasEquiv, hasContent, hasCharset, pragma, needPragma, known bool
	a := attributeAt(b, i)
	for ; a.ok; a = attributeAt(b, a.next) {
		switch {
		case isFold(a.name, "http-equiv") && !hasEquiv:
			hasEquiv, pragma = true, isFold(a.value, "content-type")
		case isFold(a.name, "content") && !hasContent:
			hasContent = true
			if found := c.label(contentCharset(a.value)); found != "" && !known {
				name, known, needPragma = found, true, true
			}
		case isFold(a.name, "charset") && !hasCharset:
			hasCharset, known, needPragma = true, true, false
			name = c.label(a.value)
		}
	}
	if a.next < 0 || needPragma && !pragma {
		return "", a.next
	}
	return metaEncoding(name), a.next
}

// metaEncoding returns the encoding that applies when a meta tag names the given one.
func metaEncoding(name string) string {
	switch name {
	case "utf-16le", "utf-16be":
		return "utf-8" // in UTF-16 the tag would not have been readable
	case "x-user-defined":
		return "windows-1252"
	}
	return name
}

// metaCharset returns the encoding named by a meta tag after the prescan's bytes, or "".
func (c *charsets) metaCharset(charset, equiv, content []byte) string {
	if charset != nil {
		if name := c.label(charset); name != "" {
			return metaEncoding(name)
		}
	}
	if content != nil && isFold(equiv, "content-type") {
		return metaEncoding(c.label(contentCharset(content)))
	}
	return ""
}

// label returns the encoding with the given label, or "". It caches the last one.
func (c *charsets) label(label []byte) string {
	if len(label) > maxLabel {
		return ""
	}
	if string(label) != c.lastLabel {
		c.lastLabel = string(label)
		c.lastName = encodingName(c.lastLabel)
	}
	return c.lastName
}

// maxLabel exceeds any label with a reasonable amount of white space around it.
const maxLabel = 256

// contentCharset finds "charset=label" in the content of a meta tag.
func contentCharset(s []byte) []byte {
	for {
		i := 0
		for i+7 <= len(s) && !isFold(s[i:i+7], "charset") {
			i++
		}
		if i+7 > len(s) {
			return nil
		}
		s = cutSpace(s[i+7:])
		if len(s) == 0 || s[0] != '=' {
			continue
		}
		s = cutSpace(s[1:])
		if len(s) > 0 && (s[0] == '"' || s[0] == '\'') {
			end := bytes.IndexByte(s[1:], s[0])
			if end < 0 {
				return nil
			}
			return s[1 : 1+end]
		}
		end := 0
		for end < len(s) && s[end] != ';' && byteClass[s[end]]&isSpace == 0 {
			end++
		}
		return s[:end]
	}
}

// looksLikeUTF8 reports whether b, which may end within a character, is UTF-8 and not plain ASCII.
func looksLikeUTF8(b []byte) bool {
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax && b[i] >= utf8.RuneSelf; i-- {
		if utf8.RuneStart(b[i]) {
			b = b[:i]
			break
		}
	}
	return utf8.Valid(b) && !isASCII(b)
}
