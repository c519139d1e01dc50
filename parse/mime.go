package parse

import (
	"bytes"
	"strings"
)

// mimeCharset returns the charset parameter of a MIME type, or "". It follows the MIME Sniffing standard
// (4.4), which is more lenient than package mime: the first of two parameters counts, and a quotation mark
// may be unclosed.
func mimeCharset(s string) string {
	s = strings.Trim(s, httpSpace)
	mime, params, _ := strings.Cut(s, ";")
	kind, subtype, ok := strings.Cut(mime, "/")
	if !ok || !isToken(kind) || !isToken(strings.TrimRight(subtype, httpSpace)) {
		return ""
	}
	for params != "" {
		params = strings.TrimLeft(params, httpSpace)
		end := strings.IndexAny(params, ";=")
		if end < 0 {
			return ""
		}
		name, isValue := params[:end], params[end] == '='
		params = params[end+1:]
		if !isValue {
			continue
		}
		var value string
		if strings.HasPrefix(params, `"`) {
			var rest string
			value, rest = quotedString(params[1:])
			_, params, _ = strings.Cut(rest, ";")
		} else {
			value, params, _ = strings.Cut(params, ";")
			if value = strings.TrimRight(value, httpSpace); value == "" {
				continue
			}
		}
		if strings.EqualFold(name, "charset") && isQuotable(value) {
			return value
		}
	}
	return ""
}

// httpSpace is the white space of HTTP.
const httpSpace = "\t\n\r "

// quotedString reads the text after a quotation mark, up to the next one or the end.
func quotedString(s string) (value, rest string) {
	if end := strings.IndexAny(s, `"\`); end < 0 {
		return s, ""
	} else if s[end] == '"' {
		return s[:end], s[end+1:]
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// isToken reports whether s is an HTTP token (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7F || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// isQuotable reports whether s may be in an HTTP quoted string.
func isQuotable(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

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

// SniffPage reports whether a body with a type other than HTML is that of a page. mime is its type in lower case
// without parameters, "" if it has none; noSniff reports whether the server forbids to guess.
func SniffPage(mime string, body []byte, noSniff func() bool) bool {
	switch mime {
	case "application/xml", "text/xml":
		return SniffXHTML(body)
	case "text/plain", "application/octet-stream":
		return SniffDocument(body) && !noSniff()
	case "", "unknown/unknown", "application/unknown", "*/*":
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

// isXML reports whether the type is XML, where <script/> is an empty element.
func isXML(contentType string) bool {
	mime, _, _ := strings.Cut(contentType, ";")
	mime = strings.TrimSpace(mime)
	return len(mime) > len("xml") && strings.EqualFold(mime[len(mime)-len("xml"):], "xml")
}
