package parse

import (
	"bytes"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"
)

// charsets finds a page's encoding and keeps the decoder of the last one.
type charsets struct {
	header  string // the last Content-Type that decided alone, and what it said
	says    string
	name    string
	enc     encoding.Encoding // of name; nil for UTF-8
	decoder *encoding.Decoder
}

// prepare finds the encoding of body, notes it in page and sets up d. It returns the text to scan: the body,
// or for the few encodings in which '<' is not always the byte '<' the body in UTF-8, which is at most three
// times as long.
//
// The order is that of the standard: byte order mark, header, meta within 1024 bytes, UTF-8 if these have it,
// windows-1252.
func (c *charsets) prepare(body []byte, contentType string, page *Page, d *decoder) []byte {
	name := c.find(body, contentType)
	if name != c.name {
		c.name, c.enc, c.decoder = name, nil, nil
		if enc, err := htmlindex.Get(name); name != "utf-8" && err == nil {
			c.enc, c.decoder = enc, enc.NewDecoder()
		}
	}
	page.Charset, page.Encoding, d.charset = c.name, c.enc, c.decoder
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

// find returns the name of the encoding. It allocates unless header or byte order mark decide and the header
// is the last one again, as it is within a site.
func (c *charsets) find(body []byte, contentType string) string {
	if bytes.HasPrefix(body, []byte("\xEF\xBB\xBF")) {
		return "utf-8"
	}
	mark := bytes.HasPrefix(body, []byte("\xFE\xFF")) || bytes.HasPrefix(body, []byte("\xFF\xFE"))
	if !mark && contentType != "" && contentType == c.header {
		return c.says
	}
	_, name, certain := charset.DetermineEncoding(body, contentType)
	if certain && !mark {
		c.header, c.says = strings.Clone(contentType), name
	}
	return name
}
