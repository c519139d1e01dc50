package parse

import "strings"

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
