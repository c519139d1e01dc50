package parse

import (
	"bytes"

	"drumbeat/internal/mimetype"
)

// maxSniff is how many bytes of a body are sniffed, as in the MIME Sniffing standard.
const maxSniff = 1445

// SniffHTML reports whether a body without a type begins like HTML, by the MIME Sniffing standard (7.1). It
// skips a byte order mark.
func SniffHTML(body []byte) bool {
	return SniffDocument(body) || beginsWith(body, "!--", "script", "iframe", "h1", "div", "font", "table", "a",
		"style", "b", "br", "p")
}

// SniffDocument reports whether a body of another declared type begins like a complete HTML document, by a
// subset of the standard's signatures. A text that begins with <p> or <a> may be meant as text, and browsers
// show it as such.
func SniffDocument(body []byte) bool {
	return beginsWith(body, "!doctype html", "html", "head", "title", "body")
}

// beginsWith reports whether body begins with a tag of one of the names, or with a comment, "!--".
func beginsWith(body []byte, names ...string) bool {
	body = cutSpace(bytes.TrimPrefix(body[:min(len(body), maxSniff)], []byte("\xEF\xBB\xBF")))
	if len(body) == 0 || body[0] != '<' {
		return false
	}
	for _, s := range names {
		end := 1 + len(s)
		if end <= len(body) && isFold(body[1:end], s) &&
			(s == "!--" || end < len(body) && (body[end] == ' ' || body[end] == '>')) {
			return true
		}
	}
	return false
}

// IsPage reports whether a body with the combined values of Content-Type is that of a page: by its type, or else by
// its beginning, as SniffPage does.
func IsPage(contentType string, body []byte, noSniff func() bool) bool {
	t := mimetype.Extract(contentType)
	return t.IsHTML() || SniffPage(t.Essence, body, noSniff)
}

// SniffPage reports whether a body with a type other than HTML is that of a page. mime is the essence of its type,
// "" if it has none; noSniff reports whether the server forbids to guess.
func SniffPage(mime string, body []byte, noSniff func() bool) bool {
	switch mime {
	case "application/xml", "text/xml":
		return SniffXHTML(body)
	case "text/plain", "application/octet-stream":
		return SniffDocument(body) && !noSniff()
	case "", "unknown/unknown", "application/unknown":
		return (SniffHTML(body) || hasHTML(body)) && !noSniff()
	}
	return false
}

// hasHTML reports whether an <html> tag is near the start of a body. It is for bodies without a type, which
// may begin with warnings of the server.
func hasHTML(body []byte) bool {
	return bytes.Contains(bytes.ToLower(body[:min(len(body), 1024)]), []byte("<html"))
}

// SniffXHTML reports whether a body served as XML is a page: its first element is <html> in the XHTML
// namespace.
func SniffXHTML(body []byte) bool {
	body = body[:min(len(body), maxSniff)]
	for {
		n := bytes.IndexByte(body, '<')
		if n < 0 || n+1 >= len(body) {
			return false
		}
		body = body[n:]
		var next int
		switch {
		case bytes.HasPrefix(body, []byte("<!--")):
			next = commentEnd(body, 4)
		case body[1] == '?', body[1] == '!':
			next = closeAngle(body, 2)
			// An internal subset contains angle brackets of its own.
			if open := bytes.IndexByte(body[:next], '['); open >= 0 && body[1] == '!' {
				end := bytes.IndexByte(body[open:], ']')
				if end < 0 {
					return false
				}
				next = closeAngle(body, open+end)
			}
		default:
			end := nameEnd(body, 1, endsName)
			if string(body[1:end]) != "html" {
				return false
			}
			a := attributeAt(body, end)
			for ; a.ok; a = attributeAt(body, a.next) {
				if string(a.name) == "xmlns" {
					return string(a.value) == "http://www.w3.org/1999/xhtml"
				}
			}
			return false
		}
		body = body[next:]
	}
}
