package admit

import (
	"bytes"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/internal/scope"
	"drumbeat/star"
	"drumbeat/weburl"
)

// maxEdgesPerPage bounds the PLD-PLD edges that one page may add: a link farm's page of 10^5 hosts says no more than one
// of a thousand.
const maxEdgesPerPage = 1000

// maxLinkBytesPerPage bounds the records of one page's links, and so what a transaction hands on: 50,000 links, the most that
// parse finds, of 160 bytes. A page with a long base makes two thousand bytes of every three.
const maxLinkBytesPerPage = 8 << 20

// What a batch keeps for the next page.
const (
	keepLinkBytes = 256 << 10
	keepLinks     = 4096
)

// recordBytes is what a link's record takes at most behind its URL, but for the page's URL.
const recordBytes = 40

// Batch turns the links of one page into tuples for URLseen and edges for STAR. It is owned by one worker and
// reused; nothing is allocated per link once its buffers have grown.
//
// Nine in ten links of a page of documentation repeat another one of the page. Those that the parser recognises come
// through again: for them the first one's fate is counted once more, and nothing else is done. What is the same for all
// URLs of an origin is found out once (linksites.go), and what is the same for all records of the page is coded once.
type Batch struct {
	p        *Policy
	arena    []byte // the URLs
	Ends     []int  // in arena
	Keys     []drum.Key
	Seen     []bool    // of keys: met a moment ago
	verdicts []verdict // of the links that came, repeats apart
	Again    int64     // repeats of links in keys
	asset    bool      // the link being added is a part of the page
	fresh    []int     // of keys: where a refresh leads (weburl.FlagRefresh), ascending
	Traced   []drum.Key
	coded    []byte // the records of tuples
	tails    [4][]byte
	Tuples   []drum.Tuple
	Faults   [][2]string // seeds that were held back, and why
	Edges    []star.Edge
	Names    Names
	Rec      weburl.Record
	vias     int64  // bytes that the page's URL takes in the records of keys
	origin   []byte // of that URL, with the '/' behind it
	Counts   [state.NumCounters]int64

	fromPLD uint64
	plds    map[uint64]struct{} // that edges lead to
	sites   linkSites

	Rules, Blacklist *scope.Set // in force when the page began
	Rewriter         linkRewriter
}

// fate is what becomes of a link: its index in keys, or what counts it instead.
type verdict int32

// fateNoFollow counts as CountLinksFiltered, but not as a link. The others are ^Counter.
const verdictNoFollow verdict = -1 << 31

// NewBatch returns an empty batch; Start begins the first page.
func NewBatch(p *Policy) *Batch {
	return &Batch{p: p, plds: make(map[uint64]struct{})}
}

// Start begins the batch of one page. depth and flags are those of the links, via is the URL that they are found on: that of the page,
// or a robots.txt (parentOf).
func (b *Batch) Start(via, pageURL []byte, depth uint16, flags uint8, now time.Time) {
	if cap(b.arena) > keepLinkBytes || cap(b.coded) > keepLinkBytes || cap(b.Keys) > keepLinks || cap(b.verdicts) > keepLinks ||
		cap(b.Traced) > keepLinks {
		b.arena, b.coded, b.Ends, b.Keys, b.Seen, b.verdicts, b.Traced, b.Tuples = nil, nil, nil, nil, nil, nil, nil, nil
	}
	b.arena, b.Ends, b.Keys, b.verdicts = b.arena[:0], b.Ends[:0], b.Keys[:0], b.verdicts[:0]
	b.Again, b.Traced, b.fresh = 0, b.Traced[:0], b.fresh[:0]
	b.Rewriter.changed = b.Rewriter.changed[:0]
	b.Tuples, b.Edges, b.Faults = b.Tuples[:0], b.Edges[:0], b.Faults[:0]
	b.Counts = [state.NumCounters]int64{}
	clear(b.plds)
	b.Names.Reset()
	b.sites.reset()
	b.Rules, b.Blacklist = b.p.Lists.Rules.Load(), b.p.Lists.Blacklist.Load()
	b.Rec = weburl.Record{Depth: depth, Found: now.Unix(), Flags: flags}
	b.vias, b.origin = 0, nil
	if len(via) > 0 {
		b.Rec.SetVia(via, b.p.Hasher.URLKey(via))
		b.origin = via[:len(via)-len(weburl.Split(via).Path)+1]
	}
	b.fromPLD = 0
	if len(pageURL) > 0 {
		b.fromPLD = b.SiteOf(pageURL).pld
	}
}

// Add takes one canonical URL.
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
	b.nameHost(&b.sites.sites[b.sites.last])
	b.take(url, drum.Key(b.p.Hasher.URLKey(url)))
	if b.p.Traced {
		b.Traced = append(b.Traced, b.Keys[f])
	}
}

// assetHops is how much deeper than a page its parts may be: a style sheet, one that it imports, an image of that.
const assetHops = 3

// AddAsset is add for a part of the page.
func (b *Batch) AddAsset(url []byte) {
	b.asset = true
	b.Add(url)
	b.asset = false
}

// AddRefresh is add for the target of a refresh.
func (b *Batch) AddRefresh(url []byte) {
	n := len(b.Keys)
	if b.Add(url); len(b.Keys) > n {
		b.fresh = append(b.fresh, n)
	}
}

func (b *Batch) take(url []byte, key drum.Key) {
	b.arena = append(b.arena, url...)
	b.Ends = append(b.Ends, len(b.arena))
	b.Keys = append(b.Keys, key)
	b.vias += b.viaBytes(url)
}

// full is true when a URL would make the batch too large.
func (b *Batch) full(url []byte) bool {
	return len(b.arena)+len(url)+(len(b.Keys)+1)*recordBytes+int(b.vias+b.viaBytes(url)) > maxLinkBytesPerPage
}

// near tells whether a URL's record has no copy of its own origin, which is the page's.
func (b *Batch) near(url []byte) bool { return len(b.origin) > 0 && bytes.HasPrefix(url, b.origin) }

func (b *Batch) viaBytes(url []byte) int64 {
	if b.near(url) {
		return int64(len(b.Rec.Via) - len(b.origin) + 1)
	}
	return int64(len(b.Rec.Via))
}

// Judge returns the fate of a URL, and, where a seed's log wants to know, its reason.
func (b *Batch) Admit(url []byte) (f verdict, why string) {
	p := b.p
	site := b.SiteOf(url)
	if b.fromPLD != 0 && site.pld != b.fromPLD && !site.edge && !b.asset { // an image recommends nobody
		site.edge = true
		b.addEdge(site)
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
	case p.MaxDepth >= 0 && int(b.Rec.Depth) > p.MaxDepth && !(b.asset && int(b.Rec.Depth) <= p.MaxDepth+assetHops):
		return ^verdict(state.CountLinksDepth), ""
	case b.Rec.Redirects > 0 && int(b.Rec.Redirects) > p.MaxRedirects:
		return ^verdict(state.CountLinksRedirects), TooManyRedirects
	case !site.portAllowed:
		return ^verdict(state.CountLinksPort), state.ReasonForbiddenPort.String()
	case b.Rec.Flags&weburl.FlagSeed != 0:
		p.Sites.Extend(site.host(), site.pld)
	case ruling == scope.Undecided && !site.inScope:
		return ^verdict(state.CountLinksScope), ""
	}
	if b.Rec.Flags&weburl.FlagSeed == 0 {
		if f, refused := b.guard(url[len(site.origin)-1:]); refused {
			return f, ""
		}
	}
	if p.LinkFilter != nil && !p.LinkFilter(url) {
		return ^verdict(state.CountLinksFiltered), "filtered"
	}
	if b.full(url) {
		return ^verdict(state.CountLinksDropped), ""
	}
	return verdict(len(b.Keys)), ""
}

// because names the rule that holds a seed back; nobody asks for those of other links.
func (b *Batch) because(what string, set *scope.Set, n scope.Number) string {
	if b.Rec.Flags&weburl.FlagSeed == 0 {
		return ""
	}
	return what + " by " + set.Rule(n).String()
}

// addEdge notes that the page links to another PLD.
func (b *Batch) addEdge(to *Site) {
	if len(b.plds) >= maxEdgesPerPage || b.p.Sites.kind != state.ScopeAll {
		return
	}
	if _, ok := b.plds[to.pld]; !ok {
		b.plds[to.pld] = struct{}{}
		b.Edges = append(b.Edges, star.Edge{From: b.fromPLD, To: to.pld})
		b.namePLD(to)
	}
}

// NoFollow takes a link that asks not to be followed.
func (b *Batch) NoFollow() {
	b.verdicts = append(b.verdicts, verdictNoFollow)
	if b.p.URLRules.Rewrites() {
		b.Rewriter.changed = append(b.Rewriter.changed, false)
	}
	b.Counts[state.CountLinksFiltered]++
	b.Counts[state.CountLinksNoFollow]++
}

// Repeat takes the nth link of add and noFollow, counted from 0, once more.
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
	start := 0 // without a cache URLseen gets every link
	if f > 0 {
		start = b.Ends[f-1]
	}
	if url := b.arena[start:b.Ends[f]]; b.full(url) {
		b.Counts[state.CountLinksDropped]++
	} else {
		b.take(url, b.Keys[f])
	}
}

// fault notes a seed that isn't taken. Other links are counted only.
func (b *Batch) fault(url []byte, why string) {
	if b.Rec.Flags&weburl.FlagSeed != 0 {
		b.Faults = append(b.Faults, [2]string{string(url), why})
	}
}

// Code makes the tuples of the links that the cache didn't know, and returns the bytes of their records. All that stands
// behind the URL is the same for the whole page, but that links within its origin leave that out of its URL, and the refreshes.
func (b *Batch) Code() (text int64) {
	var tails [4][]byte
	b.coded = b.coded[:0]
	start, fresh := 0, b.fresh // in ascending order
	for i, end := range b.Ends {
		isFresh := len(fresh) > 0 && fresh[0] == i
		if isFresh {
			fresh = fresh[1:]
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
			if tails[kind] == nil {
				tails[kind] = b.tail(kind)
			}
			from := len(b.coded) // records coded before stay valid where they are if this grows
			b.coded = append(append(b.coded, url...), tails[kind]...)
			b.Tuples = append(b.Tuples, drum.Tuple{Key: b.Keys[i], Op: drum.CheckUpdate, Aux: b.coded[from:len(b.coded):len(b.coded)]})
		}
		start = end
	}
	return int64(len(b.coded))
}

// tail is what stands behind the URLs of a kind of links: 1 within the page's origin, 2 refreshes.
func (b *Batch) tail(kind int) []byte {
	rec := b.Rec
	if kind&1 != 0 {
		rec.Via = rec.Via[len(b.origin)-1:]
	}
	if kind&2 != 0 {
		rec.Flags |= weburl.FlagRefresh
	}
	b.tails[kind] = rec.AppendTail(b.tails[kind][:0])
	return b.tails[kind]
}

// TooManyRedirects says why a redirect isn't followed.
const TooManyRedirects = "too-many-redirects"
