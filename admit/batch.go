package admit

import (
	"bytes"
	"math"
	"time"

	"drumbeat/drum"
	"drumbeat/internal/revisit"
	"drumbeat/internal/scope"
	"drumbeat/internal/sites"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// maxEdgesPerPage limits the PLD-PLD edges that one page adds. More links on a link farm's page carry no
// more information.
const maxEdgesPerPage = 1000

// maxLinkBytesPerPage limits the records of one page's links, and so the size of a transaction: 50,000
// links, the most that parse returns, of 160 bytes. On a page with a long base URL a link of three bytes
// takes two thousand.
const maxLinkBytesPerPage = 8 << 20

// Limits of the buffers that a batch keeps for the next page.
const (
	keepLinkBytes = 256 << 10
	keepLinks     = 4096
)

// recordBytes is the maximum length of a link's record after its URL, without the page's URL and a date.
const recordBytes = 40

// dateBytes is the maximum length of a date in a record.
const dateBytes = 1 + revisit.MaxHintBytes

// Batch turns the links of one page into tuples for URLseen, edges for STAR and names. One worker owns and
// reuses it; a link allocates nothing once the buffers have grown.
//
// On a page of documentation, nine of ten links repeat another link of the page. For a repeat that the
// parser finds, the batch only counts the verdict of the first link again (Repeat). It computes data that
// all URLs of an origin share once (Site), and encodes data that all records of a page share once (tail).
type Batch struct {
	p         *Policy
	arena     []byte // the URLs
	Ends      []int  // ends of the URLs in arena
	Keys      []drum.Key
	nodes     []uint16  // of Keys: the nodes that own them, in a crawl of several
	Seen      []bool    // for each of Keys: the cache has it
	verdicts  []verdict // of the links except repeats
	Again     int64     // repeats of links in Keys
	asset     bool      // the link being added is a part of the page
	anywhere  bool      // parts that are added may be out of scope
	unguarded bool      // the guards for links do not hold
	fresh     []int     // indexes in Keys of targets of a refresh (weburl.FlagRefresh), ascending
	dates     []date    // of Keys, ascending
	Traced    []drum.Key
	coded     []byte // the records of Tuples
	tails     [4][]byte
	Tuples    []drum.Tuple
	Nodes     []uint16    // of Tuples, in a crawl of several
	Faults    [][2]string // dropped seeds and the reasons
	Edges     []star.Edge
	HostLinks []star.HostLink // to parts of other PLDs
	Away      []AwayEdge      // edges to PLDs of other nodes, which count them
	Extended  []uint64        // keys of the sites that redirects of seeds add to the scope
	Names     Names
	Rec       weburl.Record
	scores    []uint8        // of Keys, if SetScore was called; otherwise all have that of Rec
	vias      int64          // bytes of the page's URL in the records of Keys
	via, page []byte         // of Start
	redirects *weburl.Record // of AddTarget; nil for other links
	origin    []byte         // of the page's URL, up to and including the '/'
	Counts    [state.NumCounters]int64

	fromPLD     uint64
	fromPLDName []byte              // in a crawl of several nodes
	awayNames   []byte              // of the targets of Away
	plds        map[uint64]struct{} // targets of Edges
	sites       linkSites

	Rules, Blacklist *scope.Set // in force at the start of the page
	settings         *sites.Set // in force at the start of the page
	Rewriter         linkRewriter
}

// verdict is the result for a link: its index in Keys, or the complement (^) of the Counter that counts its
// drop.
type verdict int32

// verdictNoFollow counts as CountLinksFiltered and CountLinksNoFollow, but not as a link.
const verdictNoFollow verdict = -1 << 31

// NewBatch returns an empty batch. The caller must call Start for each page.
func NewBatch(p *Policy) *Batch { return &Batch{p: p, plds: make(map[uint64]struct{})} }

// Start begins the batch of a page. depth and flags are those of the links. via is the URL on which they
// are found: the page's, or that of a robots.txt. pageURL is the source of edges; empty for none.
func (b *Batch) Start(via, pageURL []byte, depth uint16, flags uint8, now time.Time) {
	if cap(b.arena) > keepLinkBytes || cap(b.coded) > keepLinkBytes || cap(b.Keys) > keepLinks ||
		cap(b.verdicts) > keepLinks || cap(b.Traced) > keepLinks {
		b.arena, b.coded, b.Ends, b.Keys = nil, nil, nil, nil
		b.Seen, b.verdicts, b.Traced, b.Tuples = nil, nil, nil, nil
	}
	b.arena, b.Ends, b.Keys, b.verdicts = b.arena[:0], b.Ends[:0], b.Keys[:0], b.verdicts[:0]
	b.Again, b.Traced, b.fresh, b.dates, b.scores = 0, b.Traced[:0], b.fresh[:0], b.dates[:0], nil
	b.Rewriter.changed = b.Rewriter.changed[:0]
	b.Tuples, b.Edges, b.HostLinks, b.Faults = b.Tuples[:0], b.Edges[:0], b.HostLinks[:0], b.Faults[:0]
	b.nodes, b.Away, b.awayNames, b.Extended = b.nodes[:0], b.Away[:0], b.awayNames[:0], b.Extended[:0]
	b.Counts = [state.NumCounters]int64{}
	clear(b.plds)
	b.Names.Reset()
	b.sites.reset()
	b.Rules, b.Blacklist = b.p.Lists.Rules.Load(), b.p.Lists.Blacklist.Load()
	if b.settings = nil; b.p.Settings != nil {
		b.settings = b.p.Settings.Load()
	}
	b.Rec = weburl.Record{Depth: depth, Found: now.Unix(), Flags: flags}
	b.vias, b.origin, b.via, b.page, b.anywhere = 0, nil, via, pageURL, false
	b.unguarded = false
	if len(via) > 0 {
		b.Rec.SetVia(via, b.p.Hasher.URLKey(via))
		b.origin = via[:len(via)-len(weburl.Split(via).Path)+1]
	}
	b.fromPLD = 0
	if len(pageURL) > 0 {
		site := b.SiteOf(pageURL)
		b.fromPLD = site.pld
		if b.p.Table != nil {
			b.fromPLDName = append(b.fromPLDName[:0], site.pldName()...)
		}
	}
}

// Add adds a link, given as a canonical URL.
func (b *Batch) Add(url []byte) {
	b.Counts[state.CountLinks]++
	if b.p.URLRules.Rewrites() {
		url = b.rewrite(url)
	}
	f, why := b.Admit(url)
	if f < 0 {
		b.Counts[state.Counter(^f)]++
		if why != "" {
			b.fault(url, why)
		}
		b.verdicts = append(b.verdicts, f)
		return
	}
	b.verdicts = append(b.verdicts, f)
	site := &b.sites.sites[b.sites.last]
	if site.node == b.p.Node {
		b.nameHost(site)
	}
	b.take(url, drum.Key(b.p.Hasher.URLKeyOf(url, site.pld)), site.node)
	if b.p.Traced {
		b.Traced = append(b.Traced, b.Keys[f])
	}
}

// AssetHops is how much deeper than a page its parts may be: a style sheet, its import, and an image of that.
const AssetHops = 3

// maxAssetSteps bounds the style sheets and redirects that lead from a page to one of its parts, so that a style
// sheet that imports ever new ones comes to an end in a crawl without MaxDepth.
const maxAssetSteps = 8

// PartsAnywhere says that the parts that are added from now on may be out of scope, if Policy.RenderParts is set: they
// are those of a rendered page, or of a style sheet of one.
func (b *Batch) PartsAnywhere() { b.anywhere = b.p.RenderParts }

// Unguarded says that the guards for links (urlrule.Rules.Judge) do not hold for what is added from now on, as for
// seeds.
func (b *Batch) Unguarded() { b.unguarded = true }

// AddAsset adds a link to a part of the page, such as an image.
func (b *Batch) AddAsset(url []byte) {
	b.asset = true
	b.Add(url)
	b.asset = false
}

// SetScore sets the score of the links that are added from now on.
func (b *Batch) SetScore(score uint8) {
	if b.scores == nil {
		b.scores = make([]uint8, 0, keepLinks)
	}
	for len(b.scores) < len(b.Keys) {
		b.scores = append(b.scores, b.Rec.Score)
	}
	b.Rec.Score = score
}

// AddRefresh adds the target of a refresh.
func (b *Batch) AddRefresh(url []byte) {
	n := len(b.Keys)
	if b.Add(url); len(b.Keys) > n {
		b.fresh = append(b.fresh, n)
	}
}

// date is when a sitemap says that a URL was changed last.
type date struct {
	n        int   // index in Keys
	modified int64 // Unix seconds, above 0
}

// Date adds to the link that was added last when its page was changed last, in Unix seconds. It is ignored if
// that link was dropped, or the time is not above 0.
func (b *Batch) Date(modified int64) {
	if n := len(b.verdicts); n == 0 || b.verdicts[n-1] < 0 || modified <= 0 {
		return
	}
	n := len(b.Keys) - 1
	if len(b.dates) > 0 && b.dates[len(b.dates)-1].n == n {
		return
	}
	b.dates = append(b.dates, date{n, modified})
}

// fewDates is the number of equal dates from which they are not believed.
const fewDates = 5

// dropEqualDates drops the dates if all are the same: then they are that of the sitemap.
func (b *Batch) dropEqualDates() {
	if len(b.dates) < fewDates {
		return
	}
	for _, d := range b.dates {
		if d.modified != b.dates[0].modified {
			return
		}
	}
	b.dates = b.dates[:0]
}

func (b *Batch) take(url []byte, key drum.Key, node int) {
	if b.p.Table != nil {
		b.nodes = append(b.nodes, uint16(node))
	}
	b.arena = append(b.arena, url...)
	b.Ends = append(b.Ends, len(b.arena))
	b.Keys = append(b.Keys, key)
	if b.scores != nil {
		b.scores = append(b.scores, b.Rec.Score)
	}
	b.vias += b.viaBytes(url)
}

// full reports whether a URL would exceed maxLinkBytesPerPage.
func (b *Batch) full(url []byte) bool {
	dates := len(b.dates) * dateBytes
	return len(b.arena)+len(url)+(len(b.Keys)+1)*recordBytes+dates+int(b.vias+b.viaBytes(url)) > maxLinkBytesPerPage
}

// near reports whether a URL has the page's origin, which its record then does not repeat.
func (b *Batch) near(url []byte) bool { return len(b.origin) > 0 && bytes.HasPrefix(url, b.origin) }

func (b *Batch) viaBytes(url []byte) int64 {
	if b.near(url) {
		return int64(len(b.Rec.Via) - len(b.origin) + 1)
	}
	return int64(len(b.Rec.Via))
}

// Admit returns the verdict on a URL. For a seed, why is the reason of a drop for the seed log.
func (b *Batch) Admit(url []byte) (f verdict, why string) {
	p := b.p
	site := b.SiteOf(url)
	// A part of the page is no recommendation, so it adds no edge.
	if b.fromPLD != 0 && site.pld != b.fromPLD && !b.asset {
		b.addPartLink(site, url)
		if !site.edge {
			site.edge = true
			b.addEdge(site)
		}
	}
	if site.Blocked != scope.None {
		return ^verdict(state.CountLinksBlocked), b.because("blacklisted", b.Blacklist, site.Blocked)
	}
	ruling := scope.Undecided
	if b.Rules != nil {
		n := b.Rules.Find(&site.Rules, url)
		if ruling = b.Rules.Ruling(n); ruling == scope.Exclude {
			return ^verdict(state.CountLinksRules), b.because("excluded", b.Rules, n)
		}
	}
	switch {
	case b.foreign(url):
		return ^verdict(state.CountLinksForeign), b.elsewhere()
	case b.tooDeep(url):
		return ^verdict(state.CountLinksDepth), ""
	case b.asset && b.Rec.Redirects > maxAssetSteps,
		(!b.asset || b.redirects != nil) && p.TooFar(int(b.Rec.Redirects)):
		return ^verdict(state.CountLinksRedirects), TooManyRedirects
	case !site.portAllowed:
		return ^verdict(state.CountLinksPort), state.ReasonForbiddenPort.String()
	case b.Rec.Flags&weburl.FlagSeed != 0:
		if key, ok := p.Sites.extend(site.host(), site.pld); ok && p.Table != nil {
			b.Extended = append(b.Extended, key)
		}
	case ruling == scope.Undecided && !site.inScope && !(b.asset && b.anywhere):
		return ^verdict(state.CountLinksScope), ""
	}
	if b.Rec.Flags&weburl.FlagSeed == 0 && !b.unguarded {
		if f, refused := b.guard(url[len(site.origin)-1:]); refused {
			return f, ""
		}
	}
	if p.LinkFilter != nil && !p.LinkFilter(url) {
		return ^verdict(state.CountLinksFiltered), Filtered
	}
	if b.full(url) {
		return ^verdict(state.CountLinksDropped), ""
	}
	return verdict(len(b.Keys)), ""
}

// tooDeep reports whether a link leads too far from the seeds.
func (b *Batch) tooDeep(url []byte) bool {
	most, depth := b.MaxDepth(url), int(b.Rec.Depth)
	return most >= 0 && depth > most && !(b.asset && depth <= most+AssetHops)
}

// MaxDepth returns how many links a URL may be away from a seed; negative for any number.
func (b *Batch) MaxDepth(url []byte) int {
	if b.p.SeedsOnly {
		return 0
	}
	if b.settings != nil {
		if site := b.settings.LookupURL(url); site != nil && site.Has&sites.HasMaxDepth != 0 {
			return site.MaxDepth
		}
	}
	return b.p.MaxDepth
}

// DepthRule describes the settings of a site that decide about MaxDepth; "" if the crawl's does.
func (b *Batch) DepthRule(url []byte) string {
	if site := b.settings.LookupURL(url); site != nil {
		return site.Decides(sites.HasMaxDepth)
	}
	return ""
}

// because describes the rule that drops a seed; "" for other links, which are only counted.
func (b *Batch) because(what string, set *scope.Set, n scope.Number) string {
	if b.Rec.Flags&weburl.FlagSeed == 0 {
		return ""
	}
	return what + " by " + set.Rule(n).String()
}

// addPartLink adds a link to the host, or to the directory, with which another PLD's budget is divided. It is called
// before addEdge.
func (b *Batch) addPartLink(to *Site, url []byte) {
	n := len(b.HostLinks)
	if b.p.Parts == state.ByPLDs || b.p.Parts == state.ByHosts && to.edge || n == maxEdgesPerPage {
		return
	}
	part, main := b.p.Parts.KeyOf(b.p.Hasher, to.host(), to.pldName(), url[len(to.origin)-1:])
	if !main && (n == 0 || b.HostLinks[n-1].Host != part) {
		b.HostLinks = append(b.HostLinks, star.HostLink{From: b.fromPLD, Host: part})
	}
}

// addEdge adds an edge from the page's PLD to another, once a page.
func (b *Batch) addEdge(to *Site) {
	if len(b.plds) >= maxEdgesPerPage || b.p.Sites.kind != state.ScopeAll {
		return
	}
	if _, ok := b.plds[to.pld]; !ok {
		b.plds[to.pld] = struct{}{}
		b.sendEdge(to, to.node)
		if parts := b.p.partsOf(to.pldName()); parts != nil { // all nodes that visit its hosts give it a budget
			for _, node := range parts.Nodes() {
				if node != to.node {
					b.sendEdge(to, node)
				}
			}
		}
	}
}

// sendEdge adds an edge for a node.
func (b *Batch) sendEdge(to *Site, node int) {
	if node == b.p.Node {
		b.Edges = append(b.Edges, star.Edge{From: b.fromPLD, To: to.pld})
		b.namePLD(to)
		return
	}
	from := len(b.awayNames) // if it grows, earlier names keep the old array
	b.awayNames = append(b.awayNames, to.pldName()...)
	recent := star.Edge{From: b.fromPLD, To: to.pld}
	if b.p.partsOf(to.pldName()) != nil { // it goes to several nodes
		recent.From ^= uint64(node+1) * 0x9e3779b97f4a7c15
	}
	b.Away = append(b.Away, AwayEdge{Node: node, Recent: recent, From: b.fromPLDName,
		To: b.awayNames[from:len(b.awayNames):len(b.awayNames)]})
}

// AwayEdge is an edge to a PLD of another node.
type AwayEdge struct {
	Node     int
	Recent   star.Edge // by which the node knows that it has sent the edge
	From, To []byte    // names of the PLDs, valid until the next call of Start
}

// NoFollow counts a link that the page asks not to follow.
func (b *Batch) NoFollow() {
	b.verdicts = append(b.verdicts, verdictNoFollow)
	if b.p.URLRules.Rewrites() {
		b.Rewriter.changed = append(b.Rewriter.changed, false)
	}
	b.Counts[state.CountLinksFiltered]++
	b.Counts[state.CountLinksNoFollow]++
}

// Discard removes all links that were added, and counts them as why. What was counted of dropped links stays.
// Further links may be added with Add, but not with Repeat.
func (b *Batch) Discard(why state.Counter) {
	b.Counts[why] += int64(len(b.Keys)) + b.Again
	b.arena, b.Ends, b.Keys, b.verdicts = b.arena[:0], b.Ends[:0], b.Keys[:0], b.verdicts[:0]
	b.Again, b.Traced, b.fresh, b.dates, b.scores, b.vias = 0, b.Traced[:0], b.fresh[:0], b.dates[:0], nil, 0
	b.Edges, b.HostLinks, b.nodes, b.Away = b.Edges[:0], b.HostLinks[:0], b.nodes[:0], b.Away[:0]
	b.awayNames, b.Extended = b.awayNames[:0], b.Extended[:0]
	clear(b.plds)
	b.Names.Reset()
	b.sites.reset()
}

// URLs calls yield with each URL that was added, as range has it. The bytes are valid until the next call of
// Start.
func (b *Batch) URLs(yield func(url []byte) bool) {
	start := 0
	for _, end := range b.Ends {
		if !yield(b.arena[start:end:end]) {
			return
		}
		start = end
	}
}

// Repeat adds the nth link of Add and NoFollow, counted from 0, once more.
func (b *Batch) Repeat(n int) {
	f := b.verdicts[n]
	if f == verdictNoFollow {
		b.Counts[state.CountLinksFiltered]++
		b.Counts[state.CountLinksNoFollow]++
		return
	}
	b.Counts[state.CountLinks]++
	if b.p.URLRules.Rewrites() && b.Rewriter.changed[n] {
		b.Counts[state.CountURLsRewritten]++
	}
	if f < 0 {
		b.Counts[state.Counter(^f)]++
		return
	}
	if b.p.Traced {
		b.Traced = append(b.Traced, b.Keys[f])
	}
	if b.p.Cached {
		b.Again++
		return
	}
	start := 0 // without a cache URLseen checks every repeat
	if f > 0 {
		start = b.Ends[f-1]
	}
	if url := b.arena[start:b.Ends[f]]; b.full(url) {
		b.Counts[state.CountLinksDropped]++
	} else {
		node := b.p.Node
		if b.p.Table != nil {
			node = int(b.nodes[f])
		}
		b.take(url, b.Keys[f], node)
	}
}

// fault records why a seed is dropped.
func (b *Batch) fault(url []byte, why string) {
	if b.Rec.Flags&weburl.FlagSeed != 0 {
		b.Faults = append(b.Faults, [2]string{string(url), why})
	}
}

// Code encodes the tuples of the links that the cache does not have, and returns the bytes of their
// records. All records of a page have the same tail after the URL, except links within the page's origin
// and targets of a refresh.
func (b *Batch) Code() (text int64) {
	var tails [4][]byte
	var scores [4]uint8 // in tails
	b.coded, b.Nodes = b.coded[:0], b.Nodes[:0]
	b.dropEqualDates()
	start, fresh, dates := 0, b.fresh, b.dates // in ascending order
	for i, end := range b.Ends {
		isFresh := len(fresh) > 0 && fresh[0] == i
		if isFresh {
			fresh = fresh[1:]
		}
		modified := int64(0)
		if len(dates) > 0 && dates[0].n == i {
			modified, dates = dates[0].modified, dates[1:]
		}
		if !b.Seen[i] {
			url := b.arena[start:end]
			kind := 0
			if b.near(url) {
				kind = 1
			}
			if isFresh {
				kind |= 2
			}
			if b.scores != nil {
				b.Rec.Score = b.scores[i]
			}
			if tails[kind] == nil || scores[kind] != b.Rec.Score {
				tails[kind], scores[kind] = b.tail(kind), b.Rec.Score
			}
			from := len(b.coded) // if coded grows, earlier records keep the old array
			if b.coded = append(b.coded, url...); modified > 0 {
				b.coded = b.appendDated(b.coded, kind, modified)
			} else {
				b.coded = append(b.coded, tails[kind]...)
			}
			aux := b.coded[from:len(b.coded):len(b.coded)]
			b.Tuples = append(b.Tuples, drum.Tuple{Key: b.Keys[i], Op: drum.CheckUpdate, Aux: aux})
			if b.p.Table != nil {
				b.Nodes = append(b.Nodes, b.nodes[i])
			}
		}
		start = end
	}
	return int64(len(b.coded))
}

// tail returns the bytes after the URL in the records of a kind of links. Bit 0 means within the page's
// origin, bit 1 target of a refresh.
func (b *Batch) tail(kind int) []byte {
	rec := b.kindRecord(kind)
	b.tails[kind] = rec.AppendTail(b.tails[kind][:0])
	return b.tails[kind]
}

// appendDated is tail for a link with a date.
func (b *Batch) appendDated(dst []byte, kind int, modified int64) []byte {
	rec, known := b.kindRecord(kind), revisit.History{Listed: modified}
	var coding [revisit.MaxHintBytes]byte
	rec.Visits = known.Append(coding[:0])
	return rec.AppendTail(dst)
}

// kindRecord returns the record, without its URL, of a kind of links.
func (b *Batch) kindRecord(kind int) weburl.Record {
	rec := b.Rec
	if kind&1 != 0 {
		rec.Via = rec.Via[len(b.origin)-1:]
	}
	if kind&2 != 0 {
		rec.Flags |= weburl.FlagRefresh
	}
	return rec
}

// TooManyRedirects is the reason in the logs for a redirect beyond --max-redirects.
const TooManyRedirects = "too-many-redirects"

// Deeper returns the depth of the links of a page at depth. It stays at the largest value that a record can
// hold.
func Deeper(depth uint16) uint16 { return min(depth, math.MaxUint16-1) + 1 }
