//go:build !whatwg

package main

import (
	"fmt"
	"strings"

	"drumbeat/weburl"
)

// standardHref is the href that the URL standard gives for http and https, with fragment, without user: the crawler's
// own resolver and the standard's fragment percent-encode set. The build with tag whatwg asks a whole parser instead.
func standardHref(r *weburl.Resolver, base, ref string) (string, error) {
	var b *weburl.Base
	if base != "" {
		canonical, err := r.AppendResolve(nil, nil, []byte(base))
		if err != nil {
			return "", fmt.Errorf("base %.200q: %w", base, err)
		}
		if b, err = weburl.NewBase(canonical); err != nil {
			return "", fmt.Errorf("base %.200q: %w", base, err)
		}
	}
	url, err := r.AppendResolve(nil, b, []byte(ref))
	if err != nil {
		return "", fmt.Errorf("%.200q: %w", ref, err)
	}
	_, fragment, ok := strings.Cut(strings.TrimFunc(ref, func(c rune) bool { return c <= ' ' }), "#")
	if ok {
		url = appendFragment(append(url, '#'), fragment)
	}
	return string(url), nil
}

// appendFragment encodes by the fragment percent-encode set: C0 controls, what is not ASCII, space " < > `. Tabs and
// newlines are dropped from every URL.
func appendFragment(dst []byte, fragment string) []byte {
	const hex = "0123456789ABCDEF"
	for _, c := range []byte(strings.ToValidUTF8(fragment, "\ufffd")) {
		switch {
		case c == '\t' || c == '\n' || c == '\r':
		case c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' || c == '`':
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
