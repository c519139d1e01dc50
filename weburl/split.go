package weburl

import (
	"bytes"
	"strconv"
)

// Parts are the parts of a canonical URL, as slices of it.
type Parts struct {
	Scheme []byte // "http" or "https"
	Host   []byte // without port; an IPv6 address keeps its brackets
	Port   uint16 // effective port: 80 or 443 if the URL has none
	Path   []byte // path and query, as in a request line; begins with '/', empty for an origin
}

// Split splits a canonical URL or an origin as written by Origin. For other input it returns some parts and
// never panics; Port is 0 if the scheme is neither http nor https or the port is not a number below 65536.
func Split(canonical []byte) Parts {
	var p Parts
	rest := canonical
	switch {
	case bytes.HasPrefix(rest, []byte("http://")):
		p.Scheme, p.Port, rest = rest[:4:4], 80, rest[7:]
	case bytes.HasPrefix(rest, []byte("https://")):
		p.Scheme, p.Port, rest = rest[:5:5], 443, rest[8:]
	default:
		return Parts{Path: canonical}
	}
	authority := rest
	if i := bytes.IndexByte(rest, '/'); i >= 0 {
		authority, p.Path = rest[:i:i], rest[i:]
	}
	p.Host = authority
	if i := bytes.LastIndexByte(authority, ':'); i >= 0 && i > bytes.LastIndexByte(authority, ']') {
		p.Host = authority[:i:i]
		p.Port = parsePort(authority[i+1:])
	}
	return p
}

// parsePort parses a decimal port; 0 if it is invalid.
func parsePort(digits []byte) uint16 {
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0
		}
		if n = 10*n + int(c-'0'); n > 65535 {
			return 0
		}
	}
	return uint16(n)
}

// Origin returns the origin of a canonical URL, always with port: "https://host:443". See AppendOrigin.
func Origin(canonical []byte) []byte { return AppendOrigin(nil, canonical) }

// AppendOrigin appends the origin of a canonical URL, always with port, to dst.
func AppendOrigin(dst, canonical []byte) []byte {
	p := Split(canonical)
	dst = append(dst, p.Scheme...)
	dst = append(dst, "://"...)
	dst = append(dst, p.Host...)
	dst = append(dst, ':')
	return strconv.AppendUint(dst, uint64(p.Port), 10)
}
