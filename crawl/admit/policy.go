package admit

import (
	"drumbeat/internal/urlrule"
	"drumbeat/weburl"
)

// Policy decides which links become URLs: blacklist, scope rules, depth, redirects, port, --scope, and the rules for names and traps.
// Its fields are set before it is used, and don't change; Lists and Sites guard what does.
type Policy struct {
	Hasher   *weburl.Hasher
	Suffixes *weburl.Suffixes
	Lists    *Lists
	Sites    *Sites // what --scope allows
	URLRules urlrule.Rules

	MaxDepth     int // links from a seed; below 0 for any number
	MaxRedirects int // from the last page that linked to a URL
	MaxURLBytes  int // 0 for any length
	KeepEscapes  bool
	AllowedPort  func(uint16) bool // nil: every port
	LinkFilter   func([]byte) bool // nil: every URL

	// Traced: Batch.Traced gets the keys of all links. Cached: a cache stands before URLseen, so that a page's repeats are only counted.
	Traced, Cached bool
}

// PortAllowed tells whether a URL's port may be connected to; 0 is none.
func (p *Policy) PortAllowed(port uint16) bool {
	return port != 0 && (p.AllowedPort == nil || p.AllowedPort(port))
}

// URLOptions are those of the URLs that the crawl takes up.
func (p *Policy) URLOptions() weburl.Options {
	return weburl.Options{MaxBytes: p.MaxURLBytes, Fold: !p.KeepEscapes}
}

// ParseSeed is ParseSeed with the crawl's spelling of escapes.
func (p *Policy) ParseSeed(line []byte) (url string, bare bool, err error) {
	if url, bare, err = ParseSeed(string(line)); err == nil && !p.KeepEscapes {
		url = string(weburl.FoldEscapes([]byte(url)))
	}
	return url, bare, err
}
