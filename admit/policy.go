package admit

import (
	"sync/atomic"

	"drumbeat/cluster"
	"drumbeat/internal/ports"
	"drumbeat/internal/sites"
	"drumbeat/internal/urlrule"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Policy holds the settings that decide which links become URLs. The caller sets the fields before first
// use and does not change them. Lists and Sites are safe for concurrent use.
type Policy struct {
	Hasher   *weburl.Hasher
	Suffixes *weburl.Suffixes
	Lists    *Lists
	Sites    *Sites // what --scope allows
	URLRules urlrule.Rules

	// Settings are those of single sites, which may replace MaxDepth; nil, or a pointer to nil: none.
	Settings *atomic.Pointer[sites.Set]

	MaxDepth     int  // links from a seed; negative for any number
	SeedsOnly    bool // no link is followed, whatever MaxDepth and the settings of sites say
	MaxRedirects int  // from the last page that linked to a URL
	MaxURLBytes  int  // 0 for any length
	Walks        bool // the crawl is a random walk, and takes walkers of other nodes
	RenderParts  bool // parts of rendered pages are fetched wherever they are
	KeepEscapes  bool
	Ports        ports.Set
	LinkFilter   func([]byte) bool // nil: every URL

	Parts state.BudgetParts // whose links from other PLDs Batch.HostLinks collects

	// Traced collects the keys of all links in Batch.Traced. Cached means that a cache precedes URLseen, so
	// a Batch only counts a page's repeated links.
	Traced, Cached bool

	// Table says which node owns a PLD, and Node is this one; Table is nil in a crawl of one node.
	Table *cluster.Table
	Node  int
}

// TooFar reports whether a URL at which a number of redirects in a row end is beyond MaxRedirects.
func (p *Policy) TooFar(redirects int) bool { return redirects > 0 && redirects > p.MaxRedirects }

// owner returns the node that owns a PLD.
func (p *Policy) owner(pld uint64) int {
	if p.Table == nil {
		return p.Node
	}
	return p.Table.Owner(pld)
}

// Elsewhere returns the node that owns the PLD of a URL; ok is false if it is this one.
func (p *Policy) Elsewhere(url []byte) (node int, ok bool) {
	if p.Table == nil {
		return p.Node, false
	}
	pld := p.Suffixes.PLDBytes(weburl.Split(url).Host)
	node = p.owner(p.Hasher.PLDKey(pld))
	return node, node != p.Node
}

// partsOf returns the parts of a PLD, by its name; nil: it is not divided.
func (p *Policy) partsOf(pld []byte) *cluster.Parts {
	if p.Table == nil {
		return nil
	}
	return p.Table.PartsOf(pld)
}

// Visitor returns the node that visits the host of a URL; ok is false if it is this one.
func (p *Policy) Visitor(url []byte) (node int, ok bool) {
	if p.Table == nil {
		return p.Node, false
	}
	node = p.Table.Visitor(p.Hasher, p.Suffixes, weburl.Split(url).Host)
	return node, node != p.Node
}

// ElsewhereKey is Elsewhere by the key of a URL, which holds its slot in a crawl of several nodes.
func (p *Policy) ElsewhereKey(key uint64) (node int, ok bool) {
	if p.Table == nil {
		return p.Node, false
	}
	node = p.Table.OwnerOf(weburl.SlotOf(key))
	return node, node != p.Node
}

// URLOptions returns the options for parsing URLs that the crawl admits.
func (p *Policy) URLOptions() weburl.Options {
	return weburl.Options{MaxBytes: p.MaxURLBytes, Fold: !p.KeepEscapes}
}

// ParseSeed parses a line of a seed file as the function ParseSeed does, and folds escapes unless
// KeepEscapes is set.
func (p *Policy) ParseSeed(line []byte) (url string, bare bool, err error) {
	if url, bare, err = ParseSeed(string(line)); err == nil && !p.KeepEscapes {
		url = string(weburl.FoldEscapes([]byte(url)))
	}
	return url, bare, err
}
