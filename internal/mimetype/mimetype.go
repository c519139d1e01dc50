// Package mimetype says which type the Content-Type of a response names.
//
// Extract is "extract a MIME type" of the Fetch standard (2.2.2, header lists), and Parse is "parse a MIME type" of
// the MIME Sniffing standard (4.4). Browsers use them, and servers are tested with browsers. They differ from package
// mime, which refuses what browsers read: a parameter twice, a parameter without a value, text after a quoted value.
//
// A response may have several Content-Type fields, and a field several values with commas. The last value that is a
// type counts, "*/*" never does. A value without a charset inherits that of a value before it with the same type.
// So "text/html, text/html; charset=utf-8" and "text/html; charset=utf-8, text/html" both are HTML in UTF-8.
//
// Callers give the values of all fields, joined with ", " in their order, as bytes that the server sent. All of the
// crawl, its readers and exports decide by this package which content is a page, a style sheet, a feed or text, and
// which encoding its Content-Type names.
//
// The paper, from 2007, tells types by the extension and the header and does not say how it reads the header.
// Functions are safe for concurrent use. They take time and memory in proportion to the value, whose size the head's
// limit bounds. The package keeps no files.
package mimetype

import "strings"

// Type is a MIME type. The zero value is no type.
type Type struct {
	// Essence is type and subtype in lower case, such as "text/html"; "" for no type.
	Essence string
	// Params are the parameters in order, each name once.
	Params []Param
}

// Param is a parameter: the name in lower case, the value without quotation marks and escapes.
type Param struct{ Name, Value string }

// space is the white space of HTTP.
const space = "\t\n\r "

// wildcard is an essence that names no type.
const wildcard = "*/*"

// Extract returns the type that the combined values of Content-Type name; the zero Type if they name none.
func Extract(values string) (t Type) {
	charset, has := "", false
	for values != "" {
		var value string
		value, values = cut(values)
		next := Parse(value)
		if next.Essence == "" || next.Essence == wildcard {
			continue
		}
		if own, ok := next.param("charset"); next.Essence != t.Essence {
			charset, has = own, ok
		} else if !ok && has {
			next.Params = append(next.Params, Param{"charset", charset})
		}
		t = next
	}
	return t
}

// cut returns the text up to the first comma outside quotation marks, and what follows it.
func cut(s string) (value, rest string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ',':
			return s[:i], s[i+1:]
		case '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		}
	}
	return s, ""
}

// Parse parses one value; the zero Type if it is none.
func Parse(s string) Type {
	s = strings.Trim(s, space)
	kind, rest, ok := strings.Cut(s, "/")
	subtype, rest, _ := strings.Cut(rest, ";")
	subtype = strings.TrimRight(subtype, space)
	if !ok || !isToken(kind) || !isToken(subtype) {
		return Type{}
	}
	t := Type{Essence: lower(kind + "/" + subtype)}
	for rest != "" {
		rest = strings.TrimLeft(rest, space)
		end := strings.IndexAny(rest, ";=")
		if end < 0 {
			break
		}
		name, isValue := lower(rest[:end]), rest[end] == '='
		if rest = rest[end+1:]; !isValue || rest == "" {
			continue
		}
		var value string
		if rest[0] == '"' {
			value, rest = quoted(rest[1:])
			_, rest, _ = strings.Cut(rest, ";")
		} else {
			value, rest, _ = strings.Cut(rest, ";")
			if value = strings.TrimRight(value, space); value == "" {
				continue
			}
		}
		if _, has := t.param(name); !has && isToken(name) && isQuotable(value) {
			t.Params = append(t.Params, Param{name, value})
		}
	}
	return t
}

// quoted reads the text after a quotation mark, up to the next one or the end.
func quoted(s string) (value, rest string) {
	end := strings.IndexAny(s, `"\`)
	if end < 0 {
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

// Charset returns the parameter of that name, the label of an encoding; "" if there is none.
func (t Type) Charset() string {
	value, _ := t.param("charset")
	return value
}

// param returns the value of a parameter.
func (t Type) param(name string) (value string, ok bool) {
	for _, p := range t.Params {
		if p.Name == name {
			return p.Value, true
		}
	}
	return "", false
}

// IsHTML reports whether the type is that of pages, text/html or application/xhtml+xml.
func (t Type) IsHTML() bool { return t.Essence == "text/html" || t.Essence == "application/xhtml+xml" }

// IsXML reports whether the type is an XML MIME type (MIME Sniffing, 4.6).
func (t Type) IsXML() bool {
	return strings.HasSuffix(t.Essence, "+xml") || t.Essence == "text/xml" || t.Essence == "application/xml"
}

// String returns the type as the standard serializes it (4.5); "" for no type.
func (t Type) String() string {
	if t.Essence == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(t.Essence)
	for _, p := range t.Params {
		b.WriteString(";" + p.Name + "=")
		if isToken(p.Value) {
			b.WriteString(p.Value)
			continue
		}
		b.WriteString(`"` + escapes.Replace(p.Value) + `"`)
	}
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// lower returns s with A to Z in lower case. Other bytes stay, whatever their encoding is.
func lower(s string) string {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			b := []byte(s)
			for i, c := range b {
				if c >= 'A' && c <= 'Z' {
					b[i] = c | 0x20
				}
			}
			return string(b)
		}
	}
	return s
}

// isToken reports whether s is a token of HTTP (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7F || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// isQuotable reports whether s may be in a quoted string of HTTP.
func isQuotable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}
