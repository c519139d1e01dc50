package parse

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"
)

// charsets finds a page's encoding and keeps the decoder of the last one.
type charsets struct {
	header string // the last Content-Type and the encoding it names, or ""
	says   string

	attrs     attributes
	text      decoder
	lastLabel string // the last label in a meta tag and what it means
	lastName  string

	name    string // the last encoding but UTF-8
	enc     encoding.Encoding
	decoder *encoding.Decoder
}

// prescanBytes is how much of a page HTML looks at for its encoding.
const prescanBytes = 1024

// prepare finds the encoding of body, notes it in page and sets up d. It returns the text to scan: the body,
// or for the few encodings in which '<' is not always the byte '<' the body in UTF-8, which is at most three
// times as long.
//
// The order is that of the standard: byte order mark, header, meta within 1024 bytes, UTF-8 if these have it,
// windows-1252.
func (c *charsets) prepare(body []byte, contentType string, page *Page, d *decoder) []byte {
	name := c.find(body, contentType)
	page.Charset, page.Encoding, d.charset = name, nil, nil
	if name == "utf-8" {
		return body
	}
	if name != c.name {
		enc, err := htmlindex.Get(name)
		if err != nil {
			return body // a name of htmlindex's own, so this is none
		}
		c.name, c.enc, c.decoder = name, enc, enc.NewDecoder()
	}
	page.Encoding, d.charset = c.enc, c.decoder
	switch name {
	case "utf-16le", "utf-16be", "replacement":
		page.Encoding = nil // queries of such pages travel in UTF-8
	case "iso-2022-jp":
	default:
		return body
	}
	text, _, err := transform.Append(c.decoder, page.text[:0], body)
	if err != nil {
		text = nil // decoders replace what they can't decode, so this is none
	}
	page.text, d.charset = text, nil
	return text
}

// find returns the name of the encoding: that of the byte order mark, the header, the meta tag, or what it looks like.
func (c *charsets) find(body []byte, contentType string) string {
	switch {
	case bytes.HasPrefix(body, []byte("\xEF\xBB\xBF")):
		return "utf-8"
	case bytes.HasPrefix(body, []byte("\xFE\xFF")):
		return "utf-16be"
	case bytes.HasPrefix(body, []byte("\xFF\xFE")):
		return "utf-16le"
	}
	if contentType != c.header {
		c.header, c.says = strings.Clone(contentType), headerCharset(contentType)
	}
	if c.says != "" {
		return c.says
	}
	body = body[:min(len(body), prescanBytes)]
	if name := c.prescan(body); name != "" {
		return name
	}
	if looksLikeUTF8(body) {
		return "utf-8"
	}
	return "windows-1252"
}

// headerCharset returns the name of the encoding that a Content-Type names, or "".
func headerCharset(contentType string) string {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return encodingName(params["charset"])
}

// encodingName returns the name of the encoding with that label, or "".
func encodingName(label string) string {
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

// prescan looks for a meta tag that names the encoding, as HTML's prescan does.
func (c *charsets) prescan(b []byte) string {
	for i := 0; i >= 0 && i < len(b); {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 || i+n+1 >= len(b) {
			return ""
		}
		i += n + 1
		switch first := b[i]; {
		case byteClass[first]&isLetter != 0:
			end := nameEnd(b, i+1, endsName)
			if name := b[i:end]; isFold(name, "meta") {
				if i = c.attrs.read(b, end); i >= 0 {
					if found := c.metaCharset(); found != "" {
						return found
					}
				}
			} else {
				i = skipElement(b, name, end)
			}
		case first == '/' && i+1 < len(b) && byteClass[b[i+1]]&isLetter != 0:
			i = skipTag(b, nameEnd(b, i+2, endsName))
		case first == '!' && bytes.HasPrefix(b[i+1:], []byte("--")):
			i = commentEnd(b, i+3)
		case first == '/' || first == '!' || first == '?':
			i = closeAngle(b, i+1)
		}
	}
	return ""
}

// skipElement skips a tag and, where its content is no markup, that too.
func skipElement(b, name []byte, i int) int {
	for _, raw := range [...]string{"title", "style", "noscript", "textarea", "iframe", "xmp", "noembed", "noframes"} {
		if isFold(name, raw) {
			return rawText(b, i, raw)
		}
	}
	i = skipTag(b, i)
	switch {
	case i >= 0 && isFold(name, "script"):
		return scriptEnd(b, i)
	case isFold(name, "plaintext"):
		return -1
	}
	return i
}

// metaCharset returns the name of the encoding that the meta tag just read names, or "".
func (c *charsets) metaCharset() string {
	a := &c.attrs
	name := ""
	if a.have(attrCharset) {
		name = c.label(c.plain(a.value(attrCharset)))
	}
	// A charset attribute counts before content, but a useless one doesn't if content stands behind it.
	if a.have(attrContent) && (!a.have(attrCharset) || name == "" && a.after(attrContent, attrCharset)) {
		if a.have(attrHTTPEquiv) && isFold(c.plain(a.value(attrHTTPEquiv)), "content-type") {
			name = c.label(contentCharset(c.plain(a.value(attrContent))))
		}
	}
	if strings.HasPrefix(name, "utf-16") {
		return "utf-8" // or the tag could not have been read
	}
	return name
}

// label returns the name of the encoding with that label, of which it keeps the last.
func (c *charsets) label(label []byte) string {
	if string(label) != c.lastLabel {
		c.lastLabel = string(label)
		c.lastName = encodingName(c.lastLabel)
	}
	return c.lastName
}

// plain returns an attribute value with its references decoded.
func (c *charsets) plain(value []byte) []byte {
	if c.text.isPlain(value) {
		return value
	}
	return c.text.append(nil, value)
}

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
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return utf8.Valid(b)
		}
	}
	return false
}
