package warc

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
)

// maxIndexTail exceeds the length of what appendIndexTail appends, without the file name.
const maxIndexTail = 512

// Limits of site-controlled values in an index line, in bytes before escaping. The record has the full
// values.
const (
	maxIndexMIME     = 256
	maxIndexRedirect = 8 << 10
)

// appendIndexHead appends the index line of e's exchange up to its location: SURT key, 14-digit time, and
// the beginning of a JSON object of strings.
func (e *Encoder) appendIndexHead(dst []byte, x *Exchange) []byte {
	e.lower = appendLower(e.lower[:0], e.url)
	dst = appendKey(dst, e.lower, KeyPywb)
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
	dst = append(dst, '"')
	if e.payload[0] != 0 {
		dst = append(dst, `, "digest": "sha1:`...)
		dst = append(dst, e.payload[:]...)
		dst = append(dst, '"')
	}
	if x.Redirect != "" {
		dst = append(dst, `, "redirect": `...)
		e.lower = appendURL(e.lower[:0], x.Redirect[:min(len(x.Redirect), maxIndexRedirect)])
		dst = appendJSON(dst, e.lower)
	}
	if x.Truncated != "" {
		dst = append(dst, `, "truncated": `...)
		dst = appendJSON(dst, x.Truncated)
	}
	if x.Simhash != "" {
		dst = append(dst, `, "simhash": `...)
		dst = appendJSON(dst, x.Simhash)
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

// appendJSON appends s as a JSON string. It reads non-ASCII bytes as Latin-1, so the line is always valid.
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

// KeyForm is a form of the keys of hosts that are addresses. Other keys have one form.
type KeyForm uint8

const (
	// KeyPywb is as the Python library surt, hence pywb, makes keys: it knows no addresses, so the numbers of an IPv4
	// address are in reverse order, as if they were labels, and an IPv6 address has no brackets. Our indexes have it.
	KeyPywb KeyForm = iota
	// KeyBrackets keeps the brackets, as replayweb.page does.
	KeyBrackets
	// keyFormer has addresses as in the URL. Indexes of earlier versions have it; readers look for it, too.
	keyFormer
)

// AppendKey appends the sort key of a canonical http(s) URL as the usual index tools define it: no scheme,
// no "www.", host labels reversed, no default port, lower case, query parameters sorted, no trailing "/".
// Unlike those tools it keeps session ids. A URL of another form is its own key, in lower case.
func AppendKey(dst, url []byte, form KeyForm) []byte {
	return appendKey(dst, appendLower(nil, appendURL(nil, url)), form)
}

// keyPrefixes returns how lines of a URL may begin: its key and a blank, also as earlier versions made it.
func keyPrefixes(url string) []string {
	key := string(append(AppendKey(nil, []byte(url), KeyPywb), ' '))
	if former := string(append(AppendKey(nil, []byte(url), keyFormer), ' ')); former != key {
		return []string{key, former}
	}
	return []string{key}
}

// appendLower appends s with ASCII letters in lower case.
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

// appendKey is AppendKey for a URL that is already escaped and in lower case.
func appendKey(dst, url []byte, form KeyForm) []byte {
	host, port, path, ok := splitURL(url)
	if !ok {
		return append(dst, url...)
	}
	dst = appendReversed(dst, host, form)
	dst = append(dst, port...)
	dst = append(dst, ')')
	return appendPathKey(dst, path)
}

// splitURL returns the parts of a URL that make its key. port begins with a colon; it is empty if it is the default. ok
// is false for a URL of another form.
func splitURL(url []byte) (host, port, path []byte, ok bool) {
	scheme, rest, ok := bytes.Cut(url, []byte("://"))
	if !ok || bytes.HasPrefix(url, renderedPrefix) {
		return nil, nil, nil, false
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, path = rest[:end], rest[end:]
	if at := bytes.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	if colon := bytes.LastIndexByte(host, ':'); colon >= 0 && bytes.IndexByte(host[colon:], ']') < 0 {
		host, port = host[:colon], host[colon:]
	}
	if string(scheme) == "http" && string(port) == ":80" || string(scheme) == "https" && string(port) == ":443" {
		port = nil
	}
	return host, port, path, true
}

// appendReversed appends a host name with its labels reversed and joined by commas, and addresses as form says.
func appendReversed(dst, host []byte, form KeyForm) []byte {
	if bytes.HasPrefix(host, []byte("[")) {
		if form == KeyPywb {
			host = bytes.Trim(host, "[]")
		}
		return append(dst, host...)
	}
	digit := len(host) > 0 && host[len(host)-1]-'0' < 10
	if digit || bytes.IndexByte(host, ':') >= 0 { // otherwise it is not an address
		if addr, err := netip.ParseAddr(string(host)); err == nil && (form == keyFormer || !addr.Is4()) {
			return append(dst, host...)
		} else if err == nil {
			return appendLabels(dst, host)
		}
	}
	return appendLabels(dst, bytes.TrimRight(cutWWW(host), "."))
}

// appendLabels appends labels in reverse order, joined by commas.
func appendLabels(dst, host []byte) []byte {
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

// cutWWW removes a first label of "www" and optional digits.
func cutWWW(host []byte) []byte {
	label, rest, ok := bytes.Cut(host, []byte{'.'})
	if !ok || !bytes.HasPrefix(label, []byte("www")) || len(bytes.Trim(label[3:], "0123456789")) > 0 {
		return host
	}
	return rest
}

// appendPathKey appends path and query, which are in lower case.
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
	var some [16][]byte // nearly always enough, without allocation
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
