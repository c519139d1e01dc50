package weburl

import "bytes"

// FoldEscapes normalizes the percent-escapes in path and query of a canonical URL in place (RFC 3986, 6.2.2.1
// and 6.2.2.2). It converts hex digits to upper case and decodes escapes of unreserved characters (letters,
// digits, - . _ ~). Other escapes stay, since %2F differs from /, and so does a % that begins no escape.
//
// An escape stays where decoding it would complete such a %: %%341 stays, because it does not mean %41. So
// FoldEscapes is idempotent, and no segment becomes "." or "..": a canonical URL has none in any spelling
// (dots).
func FoldEscapes(url []byte) []byte {
	at := bytes.IndexByte(url, '%')
	if at < 0 {
		return url
	}
	out := url[:at]
	stray := 0 // bytes at the end of out that may begin an escape: a stray %, or one and a digit
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
