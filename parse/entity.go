package parse

import (
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/transform"
)

// decoder turns raw attribute values into text.
type decoder struct {
	charset *encoding.Decoder // nil: the body is UTF-8
	raw     []byte            // a value in UTF-8 before its references are decoded
	names   map[string]string // named references met so far, without '&'; "" for what is none
}

const (
	maxEntityName = 32   // bytes of the longest name in HTML's table, and its semicolon
	maxNames      = 1024 // bound of decoder.names
)

// isPlain reports whether a value stands for itself.
func (d *decoder) isPlain(value []byte) bool {
	mask := uint8(0)
	high := byte(0)
	for _, c := range value {
		mask |= byteClass[c]
		high |= c
	}
	return mask&isSpecial == 0 && (high < utf8.RuneSelf || d.charset == nil)
}

// append appends the text of a raw attribute value to dst: charset, NUL, newlines and character references
// decoded, in the order in which HTML has it.
func (d *decoder) append(dst, value []byte) []byte {
	if d.charset != nil {
		raw, _, err := transform.Append(d.charset, d.raw[:0], value)
		d.raw = raw[:0]
		if err != nil {
			return dst // decoders replace what they can't decode, so this is none
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

// appendReference appends what the '&' at the start of s stands for and returns how much of s that took.
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
		return append(dst, '&'), 1 // "?a=1&copy=2" is meant as it stands
	}
	text := d.named(s[1:end])
	if text == "" {
		return append(dst, '&'), 1
	}
	return append(dst, text...), end
}

// named looks a whole name up, with its semicolon if it has one.
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
	// The table of names is inside package html (Go's own lacks two names), whose rules are those of text: it may have taken a part of
	// the name only. The table's values have at most two characters with a semicolon and one without, and
	// what is left of a name makes it more.
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

// numericReference decodes "&#65;", "&#x41" and the like; n is 0 if s isn't one.
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
		// Old pages meant Windows-1252. HTML's table is that encoding's.
		if meant := charmap.Windows1252.DecodeByte(byte(char)); meant != utf8.RuneError {
			return meant, i
		}
		return char, i
	case char == 0, char >= 0xD800 && char <= 0xDFFF, char > utf8.MaxRune:
		return utf8.RuneError, i
	}
	return char, i
}
