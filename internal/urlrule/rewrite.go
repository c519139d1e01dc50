package urlrule

import (
	"bytes"
	"slices"

	"drumbeat/weburl"
)

// Rewrites reports whether any rule rewrites.
func (r *Rules) Rewrites() bool { return len(r.params) > 0 || r.sort || r.collapse }

// AppendRewritten appends the rewritten form of a canonical URL to dst, and reports whether it differs from
// url.
func (r *Rules) AppendRewritten(dst, url []byte) (out []byte, changed bool) {
	if !r.Rewrites() {
		return append(dst, url...), false
	}
	path := weburl.Split(url).Path
	start := len(dst)
	dst = append(dst, url[:len(url)-len(path)]...)
	query := []byte(nil)
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path, query = path[:i], path[i:]
	}
	dst = r.appendPath(dst, path)
	dst = r.appendQuery(dst, query)
	return dst, !bytes.Equal(dst[start:], url)
}

// appendPath appends a path without stripped parameters and with collapsed slashes.
func (r *Rules) appendPath(dst, path []byte) []byte {
	if !r.collapse && (len(r.params) == 0 || bytes.IndexByte(path, ';') < 0) {
		return append(dst, path...)
	}
	for len(path) > 0 { // a slash and the segment after it
		end := bytes.IndexByte(path[1:], '/') + 1
		if end == 0 {
			end = len(path)
		}
		if !r.collapse || len(dst) == 0 || dst[len(dst)-1] != '/' {
			dst = append(dst, '/')
		}
		dst = r.appendSegment(dst, path[1:end])
		path = path[end:]
	}
	return dst
}

// appendSegment appends a segment without stripped parameters.
func (r *Rules) appendSegment(dst, segment []byte) []byte {
	start := len(dst)
	rest := segment
	for first := true; ; first = false {
		end := bytes.IndexByte(rest, ';')
		part := rest
		if end >= 0 {
			part = rest[:end]
		}
		if first {
			dst = append(dst, part...)
		} else if !r.strips(part) {
			dst = append(append(dst, ';'), part...)
		}
		if end < 0 {
			break
		}
		rest = rest[end+1:]
	}
	if weburl.IsDotSegment(dst[start:]) {
		dst = append(dst[:start], segment...)
	}
	return dst
}

// appendQuery appends a query, which starts with '?' or is empty.
func (r *Rules) appendQuery(dst, query []byte) []byte {
	if len(query) == 0 {
		return dst
	}
	if len(r.params) == 0 && !r.sort {
		return append(dst, query...)
	}
	start := len(dst)
	for rest := query[1:]; ; {
		end := bytes.IndexByte(rest, '&')
		part := rest
		if end >= 0 {
			part = rest[:end]
		}
		if !r.strips(part) {
			dst = append(append(dst, '&'), part...)
		}
		if end < 0 {
			break
		}
		rest = rest[end+1:]
	}
	if len(dst) > start {
		dst[start] = '?'
	}
	if r.sort && len(dst) > start {
		sortParams(dst[start+1:])
	}
	if len(r.params) > 0 && len(dst) == start+1 { // a single empty parameter, possibly from the input
		dst = dst[:start]
	}
	return dst
}

// strips reports whether a parameter, "name" or "name=value", is to be removed.
func (r *Rules) strips(part []byte) bool {
	name, value, _ := bytes.Cut(part, equals)
	for i := range r.params {
		p := &r.params[i]
		if len(name) < len(p.name) || len(name) > len(p.name) && !p.prefix || !foldPrefix(name, p.name) {
			continue
		}
		if !p.token || isToken(value) {
			return true
		}
	}
	return false
}

var equals = []byte("=") // read-only

// foldPrefix reports whether name starts with prefix, ignoring case. prefix is in lower case and not longer.
func foldPrefix(name []byte, prefix string) bool {
	for i := range len(prefix) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}

// minToken is the least length of a session token: PHP used at least 22 characters, .NET 24, Java 32.
const minToken = 16

// isToken reports whether a value looks like a session token: long, of letters and digits, with at least
// one digit.
func isToken(value []byte) bool {
	digit := false
	for _, c := range value {
		if letterOrDigit[c] == 0 && c != '-' && c != ',' && c != '_' {
			return false
		}
		digit = digit || c >= '0' && c <= '9'
	}
	return digit && len(value) >= minToken
}

// Bounds of a query to sort; larger queries stay as they are.
const (
	maxSorted      = 128 // number of parameters
	maxSortedBytes = 4 << 10
)

// sortParams sorts the parameters of a query by name, in place.
func sortParams(query []byte) {
	var parts [maxSorted][2]uint16 // start and end of each
	n, start, sorted := 0, 0, true
	if len(query) > maxSortedBytes {
		return
	}
	for i := 0; i <= len(query); i++ {
		if i < len(query) && query[i] != '&' {
			continue
		}
		if n == maxSorted {
			return
		}
		parts[n] = [2]uint16{uint16(start), uint16(i)}
		sorted = sorted && (n == 0 || compareNames(query, parts[n-1], parts[n]) <= 0)
		n++
		start = i + 1
	}
	if sorted {
		return
	}
	slices.SortStableFunc(parts[:n], func(a, b [2]uint16) int { return compareNames(query, a, b) })
	var space [maxSortedBytes]byte
	out := space[:0]
	for i, p := range parts[:n] {
		if i > 0 {
			out = append(out, '&')
		}
		out = append(out, query[p[0]:p[1]]...)
	}
	copy(query, out)
}

func compareNames(query []byte, a, b [2]uint16) int {
	first, _, _ := bytes.Cut(query[a[0]:a[1]], equals)
	second, _, _ := bytes.Cut(query[b[0]:b[1]], equals)
	return bytes.Compare(first, second)
}
