package scope

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"drumbeat/weburl"
)

// prefix compiles a URL prefix. It is stored as a SURT, so that prefixes and SURTs share one kind of table.
func (p *parser) prefix(pattern string, include bool) error {
	bad := func(why string) error { return fmt.Errorf("prefix %.100q: %s", pattern, why) }
	lower := strings.ToLower(pattern)
	if !strings.HasPrefix(lower, "http://") && !strings.HasPrefix(lower, "https://") {
		return bad("want the beginning of a URL: at least http:// or https:// and a host")
	}
	if strings.Contains(pattern, "#") {
		return bad("want no #: URLs are crawled without fragments")
	}
	url, err := p.resolver.AppendResolve(nil, nil, []byte(pattern))
	if err != nil {
		return bad("not a URL: " + err.Error())
	}
	if endsInDots(lower) {
		return bad("the path ends in . or .., which resolves to another path; write that path, or a regex")
	}
	parts := weburl.Split(url)
	in := schemes(1 << httpScheme)
	if len(parts.Scheme) == len("https") {
		in = 1 << httpsScheme
	}
	key := append(appendAuthority(nil, &parts, url), parts.Path...)
	p.set.urls.add(key, in, p.rule(prefixKind, include, url))
	return nil
}

// endsInDots reports whether the last segment of a path is . or .., which resolving removes.
func endsInDots(url string) bool {
	path, _, _ := strings.Cut(url, "?")
	path = strings.ReplaceAll(path, "%2e", ".")
	last := path[strings.LastIndexAny(path, "/\\")+1:]
	return last == "." || last == ".."
}

// surt compiles a SURT prefix.
func (p *parser) surt(pattern string, include bool) error {
	text := pattern
	if p.fold {
		text = string(weburl.FoldEscapes([]byte(pattern)))
	}
	in, key, err := surtKey(text)
	if err != nil {
		return fmt.Errorf("surt %.100q: %w", pattern, err)
	}
	p.set.surts.add(key, in, p.rule(surtKind, include, []byte(pattern)))
	return nil
}

// surtKey returns the key of a SURT prefix (lower case, without scheme), and the schemes that it covers.
func surtKey(pattern string) (schemes, []byte, error) {
	in, rest := bothSchemes, strings.ToLower(pattern)
	if scheme, tail, ok := strings.Cut(rest, "://"); ok {
		switch scheme {
		case "http":
		case "https":
			in = 1 << httpsScheme
		default:
			return 0, nil, fmt.Errorf("want http://(, https://( or ( at the start; other schemes aren't crawled")
		}
		rest = tail
	} else if !strings.HasPrefix(rest, "(") {
		rest = "(" + rest
	}
	if strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return 0, nil, fmt.Errorf("want names in punycode and paths in percent-encoding, as in canonical URLs")
	}
	if rest == "" || rest[0] != '(' {
		return 0, nil, fmt.Errorf("want ( after the scheme, such as http://(org,example,")
	}
	authority, path, closed := strings.Cut(rest[1:], ")")
	switch {
	case authority == "":
		return 0, nil, fmt.Errorf("want labels from the right, such as (org,example,; use default + for all hosts")
	case strings.Contains(authority, "@"):
		return 0, nil, fmt.Errorf("want no user: URLs are crawled without user names")
	case !isLabels(authority, closed):
		return 0, nil, fmt.Errorf("want labels from the right, each with a comma, such as (org,example,www,:8080)/path")
	case closed && path != "" && path[0] != '/':
		return 0, nil, fmt.Errorf("want a path that starts with / after )")
	}
	return in, []byte(rest), nil
}

// isLabels reports whether the text between the parentheses can be an authority in SURT form or an address,
// or its beginning, such as "org,example,:80". whole excludes mere beginnings.
func isLabels(text string, whole bool) bool {
	if text[0] == '[' {
		i := strings.IndexByte(text, ']')
		if i < 0 {
			return !whole
		}
		a, err := netip.ParseAddr(text[1:i])
		port, comma := strings.CutPrefix(text[i+1:], ",")
		return err == nil && a.Is6() && a.String() == text[1:i] && isPort(port) && (comma || !whole && port == "")
	}
	i := strings.IndexByte(text, ':')
	if i < 0 {
		i = len(text)
	}
	name := text[:i]
	if whole && strings.HasSuffix(text, ":") || !isPort(text[i:]) || strings.ContainsAny(name, "/?#[](") ||
		strings.HasPrefix(name, ",") || strings.Contains(name, ",,") {
		return false
	}
	if strings.Contains(name, ".") { // an address is not reversed
		if strings.Trim(name, "0123456789.") != "" {
			return false
		}
		a, err := netip.ParseAddr(name)
		return !whole && i == len(text) || err == nil && a.Is4()
	}
	return strings.HasSuffix(name, ",") || !whole && i == len(text)
}

// isPort reports whether the text is empty, or a colon and a port.
func isPort(text string) bool {
	return text == "" ||
		text[0] == ':' && len(bytes.Trim([]byte(text[1:]), "0123456789")) == 0 && len(text) <= len(":65535")
}
