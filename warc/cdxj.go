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

// appendIndexHead appends the index line of a capture up to where its location follows: SURT key, 14-digit
// time, and a JSON object of strings.
func appendIndexHead(dst []byte, x *Exchange, payload string) []byte {
	dst = appendSURT(dst, x.URL)
	dst = append(dst, ' ')
	dst = x.Date.UTC().AppendFormat(dst, stamp14)
	dst = append(dst, ` {"url": `...)
	dst = appendJSON(dst, appendURL(nil, x.URL))
	mime := x.MIME[:min(len(x.MIME), maxIndexMIME)]
	if mime == "" {
		mime = "unk"
	}
	dst = append(dst, `, "mime": `...)
	dst = appendJSON(dst, []byte(mime))
	dst = append(dst, `, "status": "`...)
	dst = strconv.AppendInt(dst, int64(x.Status), 10)
	dst = append(dst, `", "digest": "`...)
	dst = append(dst, payload...)
	dst = append(dst, '"')
	if x.Redirect != "" {
		dst = append(dst, `, "redirect": `...)
		dst = appendJSON(dst, appendURL(nil, []byte(x.Redirect[:min(len(x.Redirect), maxIndexRedirect)])))
	}
	if x.Truncated != "" {
		dst = append(dst, `, "truncated": `...)
		dst = appendJSON(dst, []byte(x.Truncated))
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
func appendJSON(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c >= 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// appendSURT appends the sort key of a canonical http(s) URL as the usual index tools make it: no scheme,
// no "www.", host labels reversed, default port dropped, lower case, parameters of the query sorted, no "/"
// at the end. (They also drop session ids; we don't.) A URL of another form is its own key, in lower case.
func appendSURT(dst, url []byte) []byte {
	scheme, rest, ok := bytes.Cut(url, []byte("://"))
	if !ok {
		return append(dst, bytes.ToLower(appendURL(nil, url))...)
	}
	rest = bytes.ToLower(appendURL(nil, rest))
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
	if _, err := netip.ParseAddr(string(host)); err == nil || bytes.HasPrefix(host, []byte("[")) {
		return append(dst, host...)
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
	params := bytes.Split(query, []byte{'&'})
	slices.SortStableFunc(params, func(a, b []byte) int {
		ka, _, _ := bytes.Cut(a, []byte{'='})
		kb, _, _ := bytes.Cut(b, []byte{'='})
		if c := bytes.Compare(ka, kb); c != 0 {
			return c
		}
		return bytes.Compare(a, b)
	})
	dst = append(dst, '?')
	return append(dst, bytes.Join(params, []byte{'&'})...)
}

func sortBytes(lines [][]byte) { slices.SortFunc(lines, bytes.Compare) }
