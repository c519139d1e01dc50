package weburl

import "bytes"

// FoldEscapes gives the percent-escapes in path and query of a canonical URL their one spelling (RFC 3986, 6.2.2.1 and 6.2.2.2), in
// place: hex digits in upper case, and those of unreserved characters (letters, digits, - . _ ~) decoded. All others stay escapes,
// since %2F isn't the same as /, and a % that begins no escape stays as it is.
//
// An escape isn't decoded where the digit would make one of such a %: %%341 stays, since what it means isn't %41. So nothing changes
// when it is done again, and no segment becomes "." or "..": a canonical URL has none in any spelling (dots).
func FoldEscapes(url []byte) []byte {
	at := bytes.IndexByte(url, '%')
	if at < 0 {
		return url
	}
	out := url[:at]
	stray := 0 // bytes at the end of out that could begin an escape: a stray %, or one and a digit
	for i := at; i < len(url); i++ {
		c := url[i]
		switch {
		case c != '%':
			if stray == 1 && isHexDigit(c) {
				stray = 2
			} else {
				stray = 0
			}
			out = append(out, c)
		case i+2 >= len(url) || !isHexDigit(url[i+1]) || !isHexDigit(url[i+2]):
			stray = 1
			out = append(out, c)
		default:
			v := unhex(url[i+1])<<4 | unhex(url[i+2])
			if isUnreserved(v) && !(stray > 0 && isHexDigit(v)) {
				out = append(out, v)
			} else {
				out = appendPercent(out, v)
			}
			stray = 0
			i += 2
		}
	}
	return out
}

func isUnreserved(c byte) bool {
	return byteClass[c]&isAlpha != 0 || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
