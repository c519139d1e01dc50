package robots

import "bytes"

// These two bytes represent the special characters in a compiled pattern. They cannot occur in a normalized
// path, so literal "*" and "$" remain distinct.
const (
	wildcard = 0x00 // any sequence of octets
	anchor   = 0x01 // end of the path; only as the last byte
)

// How normalization treats a raw octet.
const (
	keep   = iota // unchanged
	escape        // percent-encoded
	percent
)

const (
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	// decoded lists the octets whose escapes are decoded: the unreserved ones of RFC 3986 and the three of
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

// hexTable maps a hexadecimal digit to its value plus one, and other bytes to zero.
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

// isNormal reports whether normalization would leave the path unchanged.
func isNormal(path []byte) bool {
	for _, c := range path {
		if rawClass[c] != keep {
			return false
		}
	}
	return len(path) > 0 && path[0] == '/'
}

// appendNormal appends the normalized form of a piece of a path to dst.
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

// normalBytes is the length up to which a path is normalized without allocation.
const normalBytes = 768

// inQuery lists the delimiters that have no meaning in a query: the general delimiters of RFC 3986 except
// "#". Delimiters of the query itself, such as "&" and "+", differ in meaning from their escapes.
const inQuery = ":/?[]@"

// namesDelimiters reports whether a compiled pattern has a delimiter in its query. Such a rule is compared
// in the folded spelling: RFC 9309, 2.2.2, has these delimiters encoded in a query (second row of its
// table), so a rule may use either spelling.
func namesDelimiters(pat []byte) bool {
	q := bytes.IndexByte(pat, '?')
	return q >= 0 && bytes.ContainsAny(pat[q+1:], inQuery)
}

// normal returns the normalized form of a path, in buf's memory if it has to change and fits.
func normal(buf, pathQuery []byte) []byte {
	if isNormal(pathQuery) {
		return pathQuery
	}
	return appendPath(buf, pathQuery)
}

// foldedForm returns a normalized path with the delimiters of its query decoded. It allocates if the query
// has an escape.
func foldedForm(path []byte) []byte {
	q := bytes.IndexByte(path, '?')
	if q < 0 || bytes.IndexByte(path[q:], '%') < 0 {
		return path
	}
	return appendFolded(make([]byte, 0, len(path)), path)
}

// isDelimiter reports whether b begins with the escape of a delimiter in inQuery.
func isDelimiter(b []byte) bool {
	return len(b) >= 3 && unhex[b[1]] != 0 && unhex[b[2]] != 0 &&
		bytes.IndexByte([]byte(inQuery), (unhex[b[1]]-1)<<4|(unhex[b[2]]-1)) >= 0
}

// appendFolded appends a normalized path or a compiled pattern, with the delimiters after its first "?"
// decoded.
func appendFolded(dst, path []byte) []byte {
	q := bytes.IndexByte(path, '?') + 1
	dst = append(dst, path[:q]...)
	for i := q; i < len(path); i++ {
		if path[i] == '%' && isDelimiter(path[i:]) {
			dst = append(dst, (unhex[path[i+1]]-1)<<4|(unhex[path[i+2]]-1))
			i += 2
		} else {
			dst = append(dst, path[i])
		}
	}
	return dst
}

// appendPath appends the normalized form of a whole path to dst.
func appendPath(dst, pathQuery []byte) []byte {
	if len(pathQuery) == 0 || pathQuery[0] != '/' {
		dst = append(dst, '/')
	}
	return appendNormal(dst, pathQuery)
}

// compile compiles the value of an Allow or Disallow line. ok is false if the value can match nothing: it is
// empty or does not begin with "/" or "*". The pattern may be longer than MaxPattern.
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
	if pat[len(pat)-1] == wildcard { // "/x*" and "/x*$" are equivalent to "/x"
		pat, anchored = pat[:len(pat)-1], false
	}
	if bytes.IndexByte(pat, '?') >= 0 && bytes.IndexByte(pat, '%') >= 0 {
		pat = appendFolded(nil, pat)
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

// matches reports whether a compiled pattern matches the beginning of a normalized path. It searches each
// part between wildcards once, leftmost, without backtracking. The cost is at most len(path) times len(pat),
// and only for parts designed to defeat bytes.Index.
func matches(pat, path []byte, special bool) bool {
	if !special {
		return bytes.HasPrefix(path, pat)
	}
	anchored := pat[len(pat)-1] == anchor
	if anchored {
		pat = pat[:len(pat)-1]
		if len(pat) == 0 || len(path) == 0 || pat[len(pat)-1] != path[len(path)-1] {
			return false // rejects most rules with an end early
		}
	}
	n := bytes.IndexByte(pat, wildcard)
	if n < 0 {
		return bytes.Equal(path, pat) // special without a wildcard means anchored
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

// appendText appends a compiled pattern in the spelling of a rule line.
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
