package parse

import (
	"bytes"
	"strings"
)

// mimeCharset returns the charset parameter of a MIME type as the MIME Sniffing standard parses one (4.4), or "". That is more
// lenient than package mime: the first of two parameters counts, a quotation mark needn't be closed.
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

// httpSpace are the bytes that HTTP takes for white space.
const httpSpace = "\t\n\r "

// quotedString reads what stands behind a quotation mark, up to the next or the end.
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

// isToken reports whether s is a token of HTTP (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7F || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// isQuotable reports whether s may stand in a quoted string of HTTP.
func isQuotable(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

// maxSniff bounds what is looked at of a body, as the MIME Sniffing standard has it.
const maxSniff = 1445

// SniffHTML reports whether a body without a type begins as HTML does, by the MIME Sniffing standard (7.1). A byte order mark may
// precede.
func SniffHTML(body []byte) bool {
	return SniffDocument(body) || beginsWith(body, "!--", "script", "iframe", "h1", "div", "font", "table", "a", "style", "b", "br", "p")
}

// SniffDocument reports whether a body that has another type begins as a whole HTML document does, with one of the standard's signatures
// that begin such. A text that begins with <p> or <a> may well be meant as text, and the standard has browsers show it so.
func SniffDocument(body []byte) bool {
	return beginsWith(body, "!doctype html", "html", "head", "title", "body")
}

// beginsWith reports whether body begins with the tag of one of these names, or with a comment, "!--".
func beginsWith(body []byte, names ...string) bool {
	body = cutSpace(bytes.TrimPrefix(body[:min(len(body), maxSniff)], []byte("\xEF\xBB\xBF")))
	if len(body) == 0 || body[0] != '<' {
		return false
	}
	for _, s := range names {
		end := 1 + len(s)
		if end <= len(body) && isFold(body[1:end], s) && (s == "!--" || end < len(body) && (body[end] == ' ' || body[end] == '>')) {
			return true
		}
	}
	return false
}

// SniffXHTML reports whether a body that is served as XML is a page: its first element is <html> in the namespace of XHTML.
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
			if open := bytes.IndexByte(body[:next], '['); open >= 0 && body[1] == '!' { // a subset inside of it has angles of its own
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

// isXML reports whether a page of that type is XML, where <script/> is an element without content.
func isXML(contentType string) bool {
	mime, _, _ := strings.Cut(contentType, ";")
	mime = strings.TrimSpace(mime)
	return len(mime) > len("xml") && strings.EqualFold(mime[len(mime)-len("xml"):], "xml")
}
