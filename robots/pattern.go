package robots

import "bytes"

// In a compiled pattern these two bytes, which cannot occur in a normalised path, stand for the special
// characters, so that a literal "*" or "$" can be told from them.
const (
	wildcard = 0x00 // any run of octets
	anchor   = 0x01 // end of the path; only as last byte
)

// rawClass says for each octet what normalisation does with it when it stands raw.
const (
	keep   = iota // part of a URL as it is
	escape        // may not stand raw: percent-encoded
	percent
)

const (
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	// decoded are the octets whose escapes are decoded: the unreserved ones of RFC 3986 and the three of
	// doc.go.
	decoded  = unreserved + "*$'"
	mustCode = "\"<>\\^`{|} \x7f"
	hexUpper = "0123456789ABCDEF"
)

var (
	rawClass = classTable()
	isPlain  = plainTable()
	unhex    = hexTable()
)

func classTable() (t [256]uint8) {
	for i := range t {
		if i < 0x20 || i >= 0x7f {
			t[i] = escape
		}
	}
	for i := range len(mustCode) {
		t[mustCode[i]] = escape
	}
	t['%'] = percent
	return t
}

func plainTable() (t [256]bool) {
	for i := range len(decoded) {
		t[decoded[i]] = true
	}
	return t
}

// hexTable maps a hexadecimal digit to its value plus one, all else to zero.
func hexTable() (t [256]uint8) {
	for i := range 16 {
		c := hexUpper[i]
		t[c] = uint8(i + 1)
		if c >= 'A' {
			t[c+'a'-'A'] = uint8(i + 1)
		}
	}
	return t
}

// isNormal reports whether normalisation would leave the path as it is.
func isNormal(path []byte) bool {
	for _, c := range path {
		if rawClass[c] != keep {
			return false
		}
	}
	return len(path) > 0 && path[0] == '/'
}

// appendNormal appends the one spelling of a piece of a path to dst.
func appendNormal(dst, piece []byte) []byte {
	for i := 0; i < len(piece); i++ {
		c := piece[i]
		switch rawClass[c] {
		case keep:
			dst = append(dst, c)
		case escape:
			dst = append(dst, '%', hexUpper[c>>4], hexUpper[c&15])
		case percent:
			if i+2 >= len(piece) || unhex[piece[i+1]] == 0 || unhex[piece[i+2]] == 0 {
				dst = append(dst, '%')
				continue
			}
			o := (unhex[piece[i+1]]-1)<<4 | (unhex[piece[i+2]] - 1)
			if isPlain[o] {
				dst = append(dst, o)
			} else {
				dst = append(dst, '%', hexUpper[o>>4], hexUpper[o&15])
			}
			i += 2
		}
	}
	return dst
}

// compile turns the value of an Allow or Disallow line into a Rule. ok is false for a value that can match
// nothing (empty, or not beginning with "/" or "*"). A pattern may still be longer than MaxPattern.
func compile(value []byte, allow bool) (r Rule, ok bool) {
	anchored := len(value) > 0 && value[len(value)-1] == '$'
	if anchored {
		value = value[:len(value)-1]
	}
	pat := make([]byte, 0, len(value)+1)
	weight := 0
	for len(value) > 0 {
		if value[0] == '*' {
			value = value[1:]
			weight++
			if len(pat) == 0 || pat[len(pat)-1] != wildcard {
				pat = append(pat, wildcard)
			}
			continue
		}
		n := bytes.IndexByte(value, '*')
		if n < 0 {
			n = len(value)
		}
		before := len(pat)
		pat = appendNormal(pat, value[:n])
		weight += len(pat) - before
		value = value[n:]
	}
	if anchored {
		weight++
	}
	if len(pat) == 0 || pat[0] != '/' && pat[0] != wildcard {
		return Rule{}, false
	}
	if pat[len(pat)-1] == wildcard { // "/x*" and "/x*$" match what "/x" matches
		pat, anchored = pat[:len(pat)-1], false
	}
	if anchored {
		pat = append(pat, anchor)
	}
	return Rule{Allow: allow, Weight: weight, pattern: pat}, true
}

// isSpecial reports whether a compiled pattern has a wildcard or an anchor.
func isSpecial(pat []byte) bool {
	return bytes.IndexByte(pat, wildcard) >= 0 || len(pat) > 0 && pat[len(pat)-1] == anchor
}

// matches reports whether a compiled pattern matches the beginning of a normalised path. Each part between
// wildcards is looked for once, leftmost: no backtracking. The cost is at most len(path) times len(pat),
// and that only for parts made to defeat bytes.Index.
func matches(pat, path []byte, special bool) bool {
	if !special {
		return bytes.HasPrefix(path, pat)
	}
	anchored := pat[len(pat)-1] == anchor
	if anchored {
		pat = pat[:len(pat)-1]
	}
	n := bytes.IndexByte(pat, wildcard)
	if n < 0 {
		return bytes.Equal(path, pat) // special without wildcard is anchored
	}
	if !bytes.HasPrefix(path, pat[:n]) {
		return false
	}
	path, pat = path[n:], pat[n+1:]
	for {
		if n = bytes.IndexByte(pat, wildcard); n < 0 {
			break
		}
		at := bytes.Index(path, pat[:n])
		if at < 0 {
			return false
		}
		path, pat = path[at+n:], pat[n+1:]
	}
	if anchored {
		return bytes.HasSuffix(path, pat)
	}
	return bytes.Contains(path, pat)
}

// appendText appends a compiled pattern as a rule line would spell it.
func appendText(dst, pat []byte) []byte {
	for i, c := range pat {
		switch {
		case c == wildcard:
			dst = append(dst, '*')
		case c == anchor && i == len(pat)-1:
			dst = append(dst, '$')
		case c == '*':
			dst = append(dst, "%2A"...)
		case c == '$' && i == len(pat)-1:
			dst = append(dst, "%24"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
