package parse

import (
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/transform"
)

// decoder decodes raw attribute values.
type decoder struct {
	charset *encoding.Decoder // nil: the body is UTF-8
	raw     []byte            // the value in UTF-8 before references are decoded
	names   map[string]string // cache of named references, without '&'; "" for unknown names
}

const (
	maxEntityName = 32   // length in bytes of the longest name in HTML's table, including the semicolon
	maxNames      = 1024 // bound on the size of decoder.names
)

// isPlain reports whether a raw value equals its decoded form.
func (d *decoder) isPlain(value []byte) bool {
	mask := uint8(0)
	high := byte(0)
	for _, c := range value {
		mask |= byteClass[c]
		high |= c
	}
	return mask&isSpecial == 0 && (high < utf8.RuneSelf || d.charset == nil)
}

// append appends the decoded form of a raw attribute value to dst. It decodes charset, NUL, newlines and
// character references in HTML's order.
func (d *decoder) append(dst, value []byte) []byte {
	if d.charset != nil {
		raw, _, err := transform.Append(d.charset, d.raw[:0], value)
		d.raw = raw[:0]
		if err != nil {
			return dst // unreachable: decoders replace invalid input
		}
		value = raw
	}
	for i := 0; i < len(value); {
		run := i
		for i < len(value) && byteClass[value[i]]&isSpecial == 0 {
			i++
		}
		dst = append(dst, value[run:i]...)
		if i == len(value) {
			break
		}
		switch value[i] {
		case 0:
			dst = append(dst, "\uFFFD"...)
			i++
		case '\r':
			dst = append(dst, '\n')
			if i++; i < len(value) && value[i] == '\n' {
				i++
			}
		default:
			var n int
			dst, n = d.appendReference(dst, value[i:])
			i += n
		}
	}
	return dst
}

// appendReference appends the text of the reference at the start of s, which is '&', and returns its length
// in s.
func (d *decoder) appendReference(dst, s []byte) ([]byte, int) {
	if len(s) > 1 && s[1] == '#' {
		if char, n := numericReference(s); n > 0 {
			return utf8.AppendRune(dst, char), n
		}
		return append(dst, '&'), 1
	}
	end := 1
	for end < len(s) && end <= maxEntityName && byteClass[s[end]]&(isLetter|isDigit) != 0 {
		end++
	}
	if end == 1 || end > maxEntityName {
		return append(dst, '&'), 1
	}
	if end < len(s) && s[end] == ';' {
		end++
	} else if end < len(s) && s[end] == '=' {
		return append(dst, '&'), 1 // "?a=1&copy=2" is literal
	}
	text := d.named(s[1:end])
	if text == "" {
		return append(dst, '&'), 1
	}
	return append(dst, text...), end
}

// named looks up a whole name, including its semicolon if it has one.
func (d *decoder) named(name []byte) string {
	switch string(name) {
	case "amp;", "amp":
		return "&"
	case "quot;", "quot":
		return `"`
	}
	text, ok := d.names[string(name)]
	if ok {
		return text
	}
	// Package html has the table of names (Go's own lacks two), but applies the rules for text and may match
	// only a part of the name. The table's values have at most two characters for a name with a semicolon,
	// else one. The rest of a partly matched name exceeds that.
	text = html.UnescapeString("&" + string(name))
	limit := 1
	if name[len(name)-1] == ';' {
		limit = 2
	}
	if utf8.RuneCountInString(text) > limit {
		text = ""
	}
	if d.names == nil || len(d.names) >= maxNames {
		d.names = make(map[string]string)
	}
	d.names[string(name)] = text
	return text
}

// numericReference decodes "&#65;", "&#x41" and the like; n is 0 if s does not begin with one.
func numericReference(s []byte) (char rune, n int) {
	i, base := 2, rune(10)
	if i < len(s) && s[i]|0x20 == 'x' {
		i, base = 3, 16
	}
	start := i
	for ; i < len(s); i++ {
		var digit rune
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digit = rune(c - '0')
		case base == 16 && c|0x20 >= 'a' && c|0x20 <= 'f':
			digit = rune(c|0x20-'a') + 10
		default:
			digit = -1
		}
		if digit < 0 {
			break
		}
		if char <= utf8.MaxRune {
			char = char*base + digit
		}
	}
	if i == start {
		return 0, 0
	}
	if i < len(s) && s[i] == ';' {
		i++
	}
	switch {
	case char >= 0x80 && char <= 0x9F:
		// Old pages mean windows-1252, and HTML's table matches it.
		if meant := charmap.Windows1252.DecodeByte(byte(char)); meant != utf8.RuneError {
			return meant, i
		}
		return char, i
	case char == 0, char >= 0xD800 && char <= 0xDFFF, char > utf8.MaxRune:
		return utf8.RuneError, i
	}
	return char, i
}
