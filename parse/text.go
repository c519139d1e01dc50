package parse

import "bytes"

// Bits of byteClass.
const (
	isSpace   = 1 << iota // tab, newline, form feed, carriage return, space
	isLetter              // A-Z a-z
	isDigit               // 0-9
	endsName              // ends a tag name: space / >
	endsKey               // ends an attribute name: space / > =
	endsBare              // ends an unquoted value: space >
	isSpecial             // needs decoding in a value: & NUL CR
)

// byteClass classifies bytes for the scanner. It is read-only.
var byteClass = classify()

func classify() (class [256]uint8) {
	for _, c := range []byte("\t\n\f\r ") {
		class[c] = isSpace | endsName | endsKey | endsBare
	}
	for c := 'a'; c <= 'z'; c++ {
		class[c], class[c-0x20] = isLetter, isLetter
	}
	for c := '0'; c <= '9'; c++ {
		class[c] = isDigit
	}
	class['/'] |= endsName | endsKey
	class['>'] |= endsName | endsKey | endsBare
	class['='] |= endsKey
	class['&'] |= isSpecial
	class['\x00'] |= isSpecial
	class['\r'] |= isSpecial
	return class
}

// isFold reports whether s equals word, which is in lower case, ignoring case.
func isFold(s []byte, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i := 0; i < len(word); i++ {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// cutSpace removes leading white space.
func cutSpace(s []byte) []byte {
	for len(s) > 0 && byteClass[s[0]]&isSpace != 0 {
		s = s[1:]
	}
	return s
}

// nextWord splits off the first word of a list separated by white space. The word is empty at the end of the
// list.
func nextWord(s []byte) (word, rest []byte) {
	s = cutSpace(s)
	i := 0
	for i < len(s) && byteClass[s[i]]&isSpace == 0 {
		i++
	}
	return s[:i], s[i:]
}

// parseRel parses a rel attribute.
func parseRel(value []byte) (rel Rel, nofollow bool) {
	for {
		word, rest := nextWord(value)
		if len(word) == 0 {
			return rel, nofollow
		}
		switch {
		case isFold(word, "next"):
			rel |= RelNext
		case isFold(word, "prev"), isFold(word, "previous"):
			rel |= RelPrev
		case isFold(word, "canonical"):
			rel |= RelCanonical
		case isFold(word, "alternate"):
			rel |= RelAlternate
		case isFold(word, "nofollow"):
			nofollow = true
		default:
			rel |= RelOther
		}
		value = rest
	}
}

// parseRefresh follows HTML's shared declarative refresh steps. It returns nil if the page only reloads
// itself or the content is invalid.
func parseRefresh(content []byte) (url []byte) {
	s := cutSpace(content)
	digits := 0
	for digits < len(s) && byteClass[s[digits]]&isDigit != 0 {
		digits++
	}
	if digits == 0 && (len(s) == 0 || s[0] != '.') {
		return nil
	}
	s = s[digits:]
	for len(s) > 0 && (byteClass[s[0]]&isDigit != 0 || s[0] == '.') {
		s = s[1:]
	}
	if len(s) == 0 || s[0] != ';' && s[0] != ',' && byteClass[s[0]]&isSpace == 0 {
		return nil
	}
	s = cutSpace(s)
	if len(s) > 0 && (s[0] == ';' || s[0] == ',') {
		s = cutSpace(s[1:])
	}
	if len(s) == 0 {
		return nil
	}
	if s[0]|0x20 == 'u' {
		rest, ok := cutURLEquals(s)
		if !ok {
			return s
		}
		s = rest
	}
	if len(s) > 0 && (s[0] == '"' || s[0] == '\'') {
		quote := s[0]
		s = s[1:]
		if i := bytes.IndexByte(s, quote); i >= 0 {
			s = s[:i]
		}
	}
	return s
}

// cutURLEquals removes "url =" and the white space after it.
func cutURLEquals(s []byte) (rest []byte, ok bool) {
	if len(s) < 3 || s[1]|0x20 != 'r' || s[2]|0x20 != 'l' {
		return s, false
	}
	s = cutSpace(s[3:])
	if len(s) == 0 || s[0] != '=' {
		return s, false
	}
	return cutSpace(s[1:]), true
}
