package fetcher

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"drumbeat/crawl/options"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/sitemap"
	"drumbeat/parse"
)

// AcceptHTML in Options.Network.Accept means the types of pages: text/html and application/xhtml+xml.
const AcceptHTML = "html"

// acceptor decides by type which bodies are read, and how much of them. It is immutable.
type acceptor struct {
	patterns []string // "type/subtype", "type/" for all subtypes, "" for all types; no pattern accepts all
	caps     []bodyCap
	sitemaps bool // accept sitemaps in XML
}

type bodyCap struct {
	pattern string
	bytes   int64
}

// assetTypes returns the types of the parts of pages (Options.Links.Assets).
func assetTypes() []string {
	return []string{"text/css", "text/javascript", "image/", "font/", "audio/", "video/",
		"application/javascript", "application/x-javascript", "application/ecmascript", "application/json",
		"application/manifest+json", "application/wasm", "application/vnd.ms-fontobject",
		"application/font-woff", "application/font-woff2", "application/x-font-woff", "application/x-font-ttf",
		"application/octet-stream"}
}

func newAcceptor(accept []string, caps []options.BodyCap) (*acceptor, error) {
	a := &acceptor{}
	var faults []error
	for _, text := range accept {
		if strings.EqualFold(text, AcceptHTML) {
			a.patterns = append(a.patterns, "text/html", "application/xhtml+xml")
			continue
		}
		p, err := parseTypes(text)
		faults = append(faults, err)
		a.patterns = append(a.patterns, p)
	}
	for _, c := range caps {
		p, err := parseTypes(c.Type)
		faults = append(faults, err)
		if c.Bytes <= 0 {
			faults = append(faults, fmt.Errorf("crawl: body limit of %s is %d bytes: want at least 1", c.Type, c.Bytes))
		}
		a.caps = append(a.caps, bodyCap{p, c.Bytes})
	}
	return a, errors.Join(faults...)
}

// CheckBodies returns the errors in Options.Network.Accept and Options.Network.BodyCaps.
func CheckBodies(accept []string, caps []options.BodyCap) error {
	_, err := newAcceptor(accept, caps)
	return err
}

// parseTypes returns the pattern for "text/html", "text/*" or "*/*".
func parseTypes(text string) (string, error) {
	kind, sub, ok := strings.Cut(strings.ToLower(strings.TrimSpace(text)), "/")
	switch {
	case !ok || !isTypeToken(kind) && kind != "*" || !isTypeToken(sub) && sub != "*" || kind == "*" && sub != "*":
		return "", fmt.Errorf("crawl: type %q: want a type such as application/pdf, or text/*, or */*", text)
	case kind == "*":
		return "", nil
	case sub == "*":
		return kind + "/", nil
	}
	return kind + "/" + sub, nil
}

func isTypeToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$&-^_.+", c))
	}) < 0
}

// covers reports whether a pattern matches a type.
func covers(pattern, mime string) bool {
	if pattern == "" || strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(mime, pattern)
	}
	return mime == pattern
}

// busy reports whether the acceptor has any rule.
func (a *acceptor) busy() bool { return len(a.patterns) > 0 || len(a.caps) > 0 }

// limit is the function for fetch.Request.BodyLimit. It looks at the start of a body whose type is not
// accepted if the body may still be a page: servers give some types, or none, to content that they do not
// know. So no page is lost because of its type, and another file costs only its head or its first two KiB.
func (a *acceptor) limit(resp *fetch.Response, begin []byte) int64 {
	mime := output.MIMEType(resp)
	if !a.accepts(mime) {
		switch {
		case resp.Status < 200 || resp.Status > 299 || !maybePage(mime):
			return fetch.NoBody
		case begin == nil && len(resp.Header("Content-Encoding")) == 0:
			return fetch.LookFirst
		case begin != nil && !LooksLikePage(resp, mime, begin) && !(a.sitemaps && IsSitemap(begin)):
			return fetch.NoBody
		}
	}
	best, bytes := -1, int64(0)
	for _, c := range a.caps {
		if covers(c.pattern, mime) && len(c.pattern) > best { // the most specific pattern
			best, bytes = len(c.pattern), c.bytes
		}
	}
	return bytes
}

func (a *acceptor) accepts(mime string) bool {
	for _, p := range a.patterns {
		if covers(p, mime) {
			return true
		}
	}
	return len(a.patterns) == 0
}

// maybePage reports whether LooksLikePage can return true for a type.
func maybePage(mime string) bool {
	switch mime {
	case "application/xml", "text/xml", "text/plain", "application/octet-stream",
		"", "unknown/unknown", "application/unknown", "*/*":
		return true
	}
	return false
}

// LooksLikePage reports whether the bytes of a body with another type, or none, are those of a page. It
// respects X-Content-Type-Options: nosniff.
func LooksLikePage(resp *fetch.Response, mime string, body []byte) bool {
	return parse.SniffPage(mime, body, func() bool { return isNoSniff(resp) })
}

// AcceptHeader returns the Accept header for the accepted types: the header of a browser with those types
// added. It excludes nothing, since a site may report a wrong type. For pages only, or for all types, it
// equals the default of package fetch.
func AcceptHeader(accept []string) string {
	var types []string
	for _, text := range accept {
		text = strings.ToLower(strings.TrimSpace(text))
		if text != AcceptHTML && text != "*/*" && text != "text/html" && text != "application/xhtml+xml" {
			types = append(types, text+";q=0.9")
		}
	}
	return strings.Join(append(append([]string{"text/html", "application/xhtml+xml"}, types...), "*/*;q=0.8"), ",")
}

func isNoSniff(resp *fetch.Response) bool {
	first, _, _ := bytes.Cut(resp.Header("X-Content-Type-Options"), []byte(","))
	return bytes.EqualFold(bytes.TrimSpace(first), []byte("nosniff"))
}

// IsSitemap reports whether a body is a sitemap in XML, or an index of them.
func IsSitemap(body []byte) bool {
	form := sitemap.Sniff(body)
	return form == sitemap.URLSet || form == sitemap.Index
}
