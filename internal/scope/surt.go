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
	host := weburl.TrimDot(p.Host)
	switch {
	case len(host) > 0 && host[0] == '[': // one label, as in Heritrix
		dst = append(append(dst, host...), ',')
	case weburl.IsAddress(host):
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
