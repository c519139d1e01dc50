package scope

import (
	"bytes"

	"drumbeat/weburl"
)

// AppendSURT appends the SURT form of a canonical URL to dst: "http://(org,example,www,)/path?query". The
// path keeps its case. For other input the output is undefined, but AppendSURT does not panic.
func AppendSURT(dst, canonical []byte) []byte {
	p := weburl.Split(canonical)
	dst = append(dst, p.Scheme...)
	dst = append(dst, "://"...)
	dst = appendAuthority(dst, &p, canonical)
	return append(dst, p.Path...)
}

// appendAuthority appends "(org,example,www,:8080)".
func appendAuthority(dst []byte, p *weburl.Parts, canonical []byte) []byte {
	dst = append(dst, '(')
	host := trimDot(p.Host)
	switch {
	case len(host) > 0 && host[0] == '[': // one label, as in Heritrix
		dst = append(append(dst, host...), ',')
	case isAddress(host):
		dst = append(dst, host...)
	default:
		for len(host) > 0 {
			i := bytes.LastIndexByte(host, '.')
			dst = append(append(dst, host[i+1:]...), ',')
			host = host[:max(i, 0)]
		}
	}
	dst = append(dst, portOf(p, canonical)...)
	return append(dst, ')')
}

// portOf returns ":8080", or nothing if the URL has no port.
func portOf(p *weburl.Parts, canonical []byte) []byte {
	if len(p.Scheme) == 0 {
		return nil
	}
	start := len(p.Scheme) + len("://") + len(p.Host)
	return canonical[start : len(canonical)-len(p.Path)]
}

// trimDot removes the trailing dot of a fully qualified name.
func trimDot(host []byte) []byte {
	if n := len(host); n > 1 && host[n-1] == '.' {
		return host[:n-1]
	}
	return host
}

// isAddress reports whether a canonical host is an IP address: in brackets, or with a numeric last label.
func isAddress(host []byte) bool {
	if len(host) == 0 {
		return false
	}
	if host[0] == '[' {
		return true
	}
	label := host[bytes.LastIndexByte(host, '.')+1:]
	for _, c := range label {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(label) > 0
}
