package warc

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
)

// maxIndexTail is more than the bytes that appendIndexTail adds, besides the file name.
const maxIndexTail = 512

// What a site may put into an index line, in bytes before escapes: more is cut. The record has all.
const (
	maxIndexMIME     = 256
	maxIndexRedirect = 8 << 10
)

// appendIndexHead appends the index line of the exchange that e is set to, up to where its location follows: SURT key,
// 14-digit time, and a JSON object of strings.
func (e *Encoder) appendIndexHead(dst []byte, x *Exchange) []byte {
	e.lower = appendLower(e.lower[:0], e.url)
	dst = appendKey(dst, e.lower)
	dst = append(dst, ' ')
	dst = append(dst, e.stamp...)
	dst = append(dst, ` {"url": `...)
	dst = appendJSON(dst, e.url)
	dst = append(dst, `, "mime": `...)
	if x.MIME == "" {
		dst = append(dst, `"unk"`...)
	} else {
		dst = appendJSON(dst, x.MIME[:min(len(x.MIME), maxIndexMIME)])
	}
	dst = append(dst, `, "status": "`...)
	dst = strconv.AppendInt(dst, int64(x.Status), 10)
	dst = append(dst, `", "digest": "sha1:`...)
	dst = append(dst, e.payload[:]...)
	dst = append(dst, '"')
	if x.Redirect != "" {
		dst = append(dst, `, "redirect": `...)
		e.lower = appendURL(e.lower[:0], x.Redirect[:min(len(x.Redirect), maxIndexRedirect)])
		dst = appendJSON(dst, e.lower)
	}
	if x.Truncated != "" {
		dst = append(dst, `, "truncated": `...)
		dst = appendJSON(dst, x.Truncated)
	}
	if x.Kind != KindPage {
		dst = append(dst, `, "type": `...)
		dst = appendJSON(dst, x.Kind)
	}
	return dst
}

func appendIndexTail(dst []byte, loc Location) []byte {
	dst = append(dst, `, "length": "`...)
	dst = strconv.AppendInt(dst, loc.Length, 10)
	dst = append(dst, `", "offset": "`...)
	dst = strconv.AppendInt(dst, loc.Offset, 10)
	dst = append(dst, `", "filename": "`...)
	dst = append(dst, loc.File...)
	return append(dst, "\"}\n"...)
}

// appendJSON appends s as a JSON string. Bytes outside ASCII are taken as Latin-1, so that the line is
// always valid.
func appendJSON[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := len(dst)
	dst = append(dst, s...)
	for i, c := range dst[from:] {
		if c == '"' || c == '\\' || c < ' ' || c >= 0x7f {
			dst = dst[:from+i]
			for ; i < len(s); i++ {
				switch c := s[i]; {
				case c == '"' || c == '\\':
					dst = append(dst, '\\', c)
				case c < ' ' || c >= 0x7f:
					dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
				default:
					dst = append(dst, c)
				}
			}
			break
		}
	}
	return append(dst, '"')
}

// appendSURT appends the sort key of a canonical http(s) URL as the usual index tools make it: no scheme,
// no "www.", host labels reversed, default port dropped, lower case, parameters of the query sorted, no "/"
// at the end. (They also drop session ids; we don't.) A URL of another form is its own key, in lower case.
func appendSURT(dst, url []byte) []byte {
	return appendKey(dst, appendLower(nil, appendURL(nil, url)))
}

// appendLower appends ASCII text in lower case.
func appendLower(dst, s []byte) []byte {
	from := len(dst)
	dst = append(dst, s...)
	for i, c := range dst[from:] {
		if c-'A' < 26 {
			dst[from+i] = c + ('a' - 'A')
		}
	}
	return dst
}

// appendKey is appendSURT of a URL in lower case, without what appendURL escapes.
func appendKey(dst, url []byte) []byte {
	scheme, rest, ok := bytes.Cut(url, []byte("://"))
	if !ok {
		return append(dst, url...)
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[:end], rest[end:]
	if at := bytes.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	port := []byte(nil)
	if colon := bytes.LastIndexByte(host, ':'); colon >= 0 && bytes.IndexByte(host[colon:], ']') < 0 {
		host, port = host[:colon], host[colon:]
	}
	if string(scheme) == "http" && string(port) == ":80" || string(scheme) == "https" && string(port) == ":443" {
		port = nil
	}
	dst = appendReversed(dst, host)
	dst = append(dst, port...)
	dst = append(dst, ')')
	return appendPathKey(dst, path)
}

// appendReversed appends a host name with its labels reversed and joined by commas; an address as it is.
func appendReversed(dst, host []byte) []byte {
	if bytes.HasPrefix(host, []byte("[")) {
		return append(dst, host...)
	}
	digit := len(host) > 0 && host[len(host)-1]-'0' < 10
	if digit || bytes.IndexByte(host, ':') >= 0 { // else it's no address
		if _, err := netip.ParseAddr(string(host)); err == nil {
			return append(dst, host...)
		}
	}
	host = bytes.TrimRight(cutWWW(host), ".")
	for {
		dot := bytes.LastIndexByte(host, '.')
		dst = append(dst, host[dot+1:]...)
		if dot < 0 {
			return dst
		}
		dst = append(dst, ',')
		host = host[:dot]
	}
}

// cutWWW removes a first label of "www" and digits.
func cutWWW(host []byte) []byte {
	label, rest, ok := bytes.Cut(host, []byte{'.'})
	if !ok || !bytes.HasPrefix(label, []byte("www")) || len(bytes.Trim(label[3:], "0123456789")) > 0 {
		return host
	}
	return rest
}

// appendPathKey appends path and query, in lower case already.
func appendPathKey(dst, pathQuery []byte) []byte {
	path, query, hasQuery := bytes.Cut(pathQuery, []byte{'?'})
	if path = bytes.TrimRight(path, "/"); len(path) == 0 {
		path = []byte{'/'}
	}
	dst = append(dst, path...)
	if !hasQuery || len(query) == 0 {
		return dst
	}
	dst = append(dst, '?')
	if bytes.IndexByte(query, '&') < 0 {
		return append(dst, query...)
	}
	var some [16][]byte // enough for nearly all, without an allocation
	params := some[:0]
	for more := true; more; {
		var param []byte
		param, query, more = bytes.Cut(query, []byte{'&'})
		params = append(params, param)
	}
	slices.SortStableFunc(params, func(a, b []byte) int {
		ka, _, _ := bytes.Cut(a, []byte{'='})
		kb, _, _ := bytes.Cut(b, []byte{'='})
		if c := bytes.Compare(ka, kb); c != 0 {
			return c
		}
		return bytes.Compare(a, b)
	})
	for i, param := range params {
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = append(dst, param...)
	}
	return dst
}

func sortBytes(lines [][]byte) { slices.SortFunc(lines, bytes.Compare) }
