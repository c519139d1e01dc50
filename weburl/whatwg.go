package weburl

import (
	"fmt"
	"strings"

	"github.com/nlnwa/whatwg-url/url"
)

// WHATWG returns the href that the URL standard defines for ref relative to base, for any scheme, with user
// and fragment, for display. base may be empty. It is slow, unlike a Resolver, and rejects input over 64 KiB.
func WHATWG(base, ref string) (href string, err error) {
	const limit = 64 << 10
	if len(base)+len(ref) > limit {
		return "", fmt.Errorf("weburl: parse URL of %d bytes: %w", len(base)+len(ref), ErrTooLong)
	}
	defer func() {
		// A panic of the library means that it cannot parse the input.
		if recover() != nil {
			href, err = "", fmt.Errorf("weburl: parse %.100q relative to %.100q: %w", ref, base, ErrParse)
		}
	}()
	p := newStandardParser()
	u, err := p.parse(base, ref)
	if err != nil {
		return "", fmt.Errorf("weburl: parse %.100q relative to %.100q: %w: %w", ref, base, ErrParse, err)
	}
	return p.href(u, false), nil
}

// StandardCanonical returns what a Resolver should return for ref relative to base, computed by the
// library's complete parser without a length limit, for comparison. base may be empty. Its errors are
// ErrScheme and ErrParse. Unlike a Resolver it also parses references of other schemes.
func StandardCanonical(base, ref string) (canonical string, err error) {
	defer func() {
		if recover() != nil {
			canonical, err = "", ErrParse // as in WHATWG
		}
	}()
	p := newStandardParser()
	u, err := p.parse(base, ref)
	if err != nil {
		return "", ErrParse
	}
	if u.Scheme() != "http" && u.Scheme() != "https" {
		return "", ErrScheme
	}
	u.SetUsername("")
	u.SetPassword("")
	return p.href(u, true), nil
}

// standardParser is the library's parser with our host parser for special schemes, because the library's own
// lags behind the standard (names with '_' beside non-ASCII labels, "+1" as a number). The library parses a
// placeholder in place of a domain name, and href replaces it.
type standardParser struct {
	parser url.Parser
	hosts  hostParser
	domain string // domain name of the last authority parsed: the reference's or else the base's
	err    error
}

const placeholder = "placeholder"

func newStandardParser() *standardParser {
	p := new(standardParser)
	p.parser = url.NewParser(
		// The standard added '^' after the library's last release.
		url.WithPathPercentEncodeSet(url.PathPercentEncodeSet.Set('^')), url.WithPreParseHostFunc(p.host))
	return p
}

func (p *standardParser) host(u *url.Url, host string) string {
	switch u.Scheme() {
	case "http", "https", "ws", "wss", "ftp":
	default:
		return host
	}
	if host == "" {
		return host
	}
	var answer string
	if answer, p.err = p.hosts.parse(host); p.err != nil {
		return "[" // fails in every parser
	}
	if IsAddress(answer) {
		return answer
	}
	p.domain = answer
	return placeholder
}

func (p *standardParser) parse(base, ref string) (*url.Url, error) {
	if base == "" {
		return p.parser.Parse(ref)
	}
	return p.parser.ParseRef(base, ref)
}

// href returns the href of u with its real host.
func (p *standardParser) href(u *url.Url, excludeFragment bool) string {
	href := u.Href(excludeFragment)
	if u.Hostname() != placeholder || u.Scheme() == "file" {
		return href
	}
	start := strings.Index(href, "://") + 3
	end := len(href)
	if i := strings.IndexByte(href[start:], '/'); i >= 0 {
		end = start + i
	}
	if i := strings.LastIndexByte(href[start:end], '@'); i >= 0 {
		start += i + 1
	}
	if !strings.HasPrefix(href[start:end], placeholder) || p.domain == "" {
		return href
	}
	return href[:start] + p.domain + href[start+len(placeholder):]
}
