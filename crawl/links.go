package crawl

import (
	"bytes"
	"slices"
	"time"

	"drumbeat/drum"
	"drumbeat/scope"
	"drumbeat/star"
	"drumbeat/weburl"
)

// maxEdgesPerPage bounds the PLD-PLD edges that one page may add: a link farm's page of 10^5 hosts says no more than one
// of a thousand.
const maxEdgesPerPage = 1000

// maxLinkBytesPerPage bounds the records of one page's links, and so what a step hands on: 50,000 links, the most that
// parse finds, of 160 bytes. A page with a long base makes two thousand bytes of every three.
const maxLinkBytesPerPage = 8 << 20

// What a batch keeps for the next page.
const (
	keepLinkBytes = 256 << 10
	keepLinks     = 4096
)

// recordBytes is what a link's record takes at most behind its URL, but for the page's URL.
const recordBytes = 40

// linkBatch turns the links of one page into tuples for URLseen and edges for STAR. It is owned by one worker and
// reused; nothing is allocated per link once its buffers have grown.
//
// Nine in ten links of a page of documentation repeat another one of the page. Those that the parser recognises come
// through again: for them the first one's fate is counted once more, and nothing else is done. What is the same for all
// URLs of an origin is found out once (linksites.go), and what is the same for all records of the page is coded once.
type linkBatch struct {
	r      *ring
	arena  []byte // the URLs
	ends   []int  // in arena
	keys   []drum.Key
	seen   []bool // of keys: met a moment ago
	fates  []fate // of the links that came, repeats apart
	again  int64  // repeats of links in keys
	asset  bool   // the link being added is a part of the page
	fresh  []int  // of keys: where a refresh leads (weburl.FlagRefresh), ascending
	traced []drum.Key
	coded  []byte // the records of tuples
	tails  [4][]byte
	tuples []drum.Tuple
	faults [][2]string // seeds that were held back, and why
	edges  []star.Edge
	names  nameList
	rec    weburl.Record
	vias   int64  // bytes that the page's URL takes in the records of keys
	origin []byte // of that URL, with the '/' behind it
	d      delta

	fromPLD uint64
	plds    map[uint64]struct{} // that edges lead to
	sites   linkSites

	rules, blacklist *scope.Set // in force when the page began
	rewriter         linkRewriter
}

// fate is what becomes of a link: its index in keys, or what counts it instead.
type fate int32

// fateNoFollow counts as CountLinksFiltered, but not as a link. The others are ^Counter.
const fateNoFollow fate = -1 << 31

func newLinkBatch(r *ring) *linkBatch {
	return &linkBatch{r: r, plds: make(map[uint64]struct{})}
}

// start begins the batch of one page. depth and flags are those of the links, via is the URL that they are found on: that of the page,
// or a robots.txt (parentOf).
func (b *linkBatch) start(via, pageURL []byte, depth uint16, flags uint8, now time.Time) {
	if cap(b.arena) > keepLinkBytes || cap(b.coded) > keepLinkBytes || cap(b.keys) > keepLinks || cap(b.fates) > keepLinks ||
		cap(b.traced) > keepLinks {
		b.arena, b.coded, b.ends, b.keys, b.seen, b.fates, b.traced, b.tuples = nil, nil, nil, nil, nil, nil, nil, nil
	}
	b.arena, b.ends, b.keys, b.fates = b.arena[:0], b.ends[:0], b.keys[:0], b.fates[:0]
	b.again, b.traced, b.fresh = 0, b.traced[:0], b.fresh[:0]
	b.rewriter.changed = b.rewriter.changed[:0]
	b.tuples, b.edges, b.faults = b.tuples[:0], b.edges[:0], b.faults[:0]
	b.d.reset()
	clear(b.plds)
	b.names.reset()
	b.sites.reset()
	b.rules, b.blacklist = b.r.fence.rules.Load(), b.r.fence.blacklist.Load()
	b.rec = weburl.Record{Depth: depth, Found: now.Unix(), Flags: flags}
	b.vias, b.origin = 0, nil
	if len(via) > 0 {
		b.rec.SetVia(via, b.r.hasher.URLKey(via))
		b.origin = via[:len(via)-len(weburl.Split(via).Path)+1]
	}
	b.fromPLD = 0
	if len(pageURL) > 0 {
		b.fromPLD = b.siteOf(pageURL).pld
	}
}

// add takes one canonical URL.
func (b *linkBatch) add(url []byte) {
	b.d.count(CountLinks, 1)
	if b.r.urlRules.Rewrites() {
		url = b.rewrite(url)
	}
	f, why := b.judge(url)
	if f < 0 {
		b.d.count(Counter(^f), 1)
		if why != "" {
			b.fault(url, why)
		}
		b.fates = append(b.fates, f)
		return
	}
	b.fates = append(b.fates, f)
	b.nameHost(&b.sites.sites[b.sites.last])
	b.take(url, drum.Key(b.r.hasher.URLKey(url)))
	if b.r.trace != nil {
		b.traced = append(b.traced, b.keys[f])
	}
}

// assetHops is how much deeper than a page its parts may be: a style sheet, one that it imports, an image of that.
const assetHops = 3

// addAsset is add for a part of the page.
func (b *linkBatch) addAsset(url []byte) {
	b.asset = true
	b.add(url)
	b.asset = false
}

// addRefresh is add for the target of a refresh.
func (b *linkBatch) addRefresh(url []byte) {
	n := len(b.keys)
	if b.add(url); len(b.keys) > n {
		b.fresh = append(b.fresh, n)
	}
}

func (b *linkBatch) take(url []byte, key drum.Key) {
	b.arena = append(b.arena, url...)
	b.ends = append(b.ends, len(b.arena))
	b.keys = append(b.keys, key)
	b.vias += b.viaBytes(url)
}

// full is true when a URL would make the batch too large.
func (b *linkBatch) full(url []byte) bool {
	return len(b.arena)+len(url)+(len(b.keys)+1)*recordBytes+int(b.vias+b.viaBytes(url)) > maxLinkBytesPerPage
}

// near tells whether a URL's record has no copy of its own origin, which is the page's.
func (b *linkBatch) near(url []byte) bool { return len(b.origin) > 0 && bytes.HasPrefix(url, b.origin) }

func (b *linkBatch) viaBytes(url []byte) int64 {
	if b.near(url) {
		return int64(len(b.rec.Via) - len(b.origin) + 1)
	}
	return int64(len(b.rec.Via))
}

// judge returns the fate of a URL, and, where a seed's log wants to know, its reason.
func (b *linkBatch) judge(url []byte) (f fate, why string) {
	r := b.r
	site := b.siteOf(url)
	if b.fromPLD != 0 && site.pld != b.fromPLD && !site.edge && !b.asset { // an image recommends nobody
		site.edge = true
		b.addEdge(site)
	}
	if site.blocked != scope.None {
		return ^fate(CountLinksBlocked), b.because("blacklisted", b.blacklist, site.blocked)
	}
	ruling := scope.Undecided
	if b.rules != nil {
		n := b.rules.Find(&site.rules, url)
		if ruling = b.rules.Ruling(n); ruling == scope.Exclude {
			return ^fate(CountLinksRules), b.because("excluded", b.rules, n)
		}
	}
	switch {
	case r.opt.MaxDepth >= 0 && int(b.rec.Depth) > r.opt.MaxDepth && !(b.asset && int(b.rec.Depth) <= r.opt.MaxDepth+assetHops):
		return ^fate(CountLinksDepth), ""
	case b.rec.Redirects > 0 && int(b.rec.Redirects) > r.opt.MaxRedirects:
		return ^fate(CountLinksRedirects), tooManyRedirects
	case !site.portAllowed:
		return ^fate(CountLinksPort), ReasonForbiddenPort.String()
	case b.rec.Flags&weburl.FlagSeed != 0:
		r.scope.extend(site.host(), site.pld)
	case ruling == scope.Undecided && !site.inScope:
		return ^fate(CountLinksScope), ""
	}
	if b.rec.Flags&weburl.FlagSeed == 0 {
		if f, refused := b.guard(url[len(site.origin)-1:]); refused {
			return f, ""
		}
	}
	if r.opt.LinkFilter != nil && !r.opt.LinkFilter(url) {
		return ^fate(CountLinksFiltered), "filtered"
	}
	if b.full(url) {
		return ^fate(CountLinksDropped), ""
	}
	return fate(len(b.keys)), ""
}

// because names the rule that holds a seed back; nobody asks for those of other links.
func (b *linkBatch) because(what string, set *scope.Set, n scope.Number) string {
	if b.rec.Flags&weburl.FlagSeed == 0 {
		return ""
	}
	return what + " by " + set.Rule(n).String()
}

// addEdge notes that the page links to another PLD.
func (b *linkBatch) addEdge(to *linkSite) {
	if len(b.plds) >= maxEdgesPerPage || b.r.opt.Scope != ScopeAll {
		return
	}
	if _, ok := b.plds[to.pld]; !ok {
		b.plds[to.pld] = struct{}{}
		b.edges = append(b.edges, star.Edge{From: b.fromPLD, To: to.pld})
		b.namePLD(to)
	}
}

// noFollow takes a link that asks not to be followed.
func (b *linkBatch) noFollow() {
	b.fates = append(b.fates, fateNoFollow)
	if b.r.urlRules.Rewrites() {
		b.rewriter.changed = append(b.rewriter.changed, false)
	}
	b.d.count(CountLinksFiltered, 1)
	b.d.count(CountLinksNoFollow, 1)
}

// repeat takes the nth link of add and noFollow, counted from 0, once more.
func (b *linkBatch) repeat(n int) {
	f := b.fates[n]
	if f == fateNoFollow {
		b.d.count(CountLinksFiltered, 1)
		b.d.count(CountLinksNoFollow, 1)
		return
	}
	b.d.count(CountLinks, 1)
	if b.r.urlRules.Rewrites() && b.rewriter.changed[n] {
		b.d.count(CountURLsRewritten, 1)
	}
	if f < 0 {
		b.d.count(Counter(^f), 1)
		return
	}
	if b.r.trace != nil {
		b.traced = append(b.traced, b.keys[f])
	}
	if b.r.recent != nil {
		b.again++
		return
	}
	start := 0 // without a cache URLseen gets every link
	if f > 0 {
		start = b.ends[f-1]
	}
	if url := b.arena[start:b.ends[f]]; b.full(url) {
		b.d.count(CountLinksDropped, 1)
	} else {
		b.take(url, b.keys[f])
	}
}

// fault notes a seed that isn't taken. Other links are counted only.
func (b *linkBatch) fault(url []byte, why string) {
	if b.rec.Flags&weburl.FlagSeed != 0 {
		b.faults = append(b.faults, [2]string{string(url), why})
	}
}

// allowedPort tells whether a URL's port may be connected to; 0 is none.
func (r *ring) allowedPort(port uint16) bool {
	return port != 0 && (r.opt.AllowedPort == nil || r.opt.AllowedPort(port))
}

// send hands the batch to URLseen and STAR; it is part of the step of the page.
func (b *linkBatch) send(d *delta) error {
	seeds := b.rec.Flags&weburl.FlagSeed != 0
	if b.r.draining.Load() && !seeds {
		d.count(CountLinksDraining, int64(len(b.keys))+b.again)
		b.ends, b.keys, b.edges, b.traced, b.again = b.ends[:0], b.keys[:0], b.edges[:0], b.traced[:0], 0
		b.names.reset()
	}
	if b.r.trace != nil && !seeds {
		b.r.trace.Add(b.traced)
	}
	b.seen = slices.Grow(b.seen[:0], len(b.keys))[:len(b.keys)]
	if b.r.recent != nil && !seeds {
		// The cache is part of the step: a link that is dropped because of it was sent by a step before this one, or by this.
		b.r.recent.TestAndSetBatch(b.keys, b.seen)
	} else {
		clear(b.seen)
	}
	text := b.code()
	if cached := int64(len(b.keys)-len(b.tuples)) + b.again; cached > 0 {
		d.count(CountLinksCached, cached)
	}
	if len(b.tuples) > 0 {
		if err := b.r.urlSeen.Add(b.tuples); err != nil {
			return err
		}
		d.count(CountLinksChecked, int64(len(b.tuples)))
		b.r.seenMeter.added.Add(int64(len(b.tuples)))
		b.r.seenMeter.text.Add(text)
		d.wake(b.r.wakeSeen)
	}
	if err := b.names.send(b.r, d); err != nil {
		return err
	}
	if len(b.edges) > 0 {
		if err := b.r.star.AddEdges(b.edges); err != nil {
			return err
		}
		d.count(CountEdges, int64(len(b.edges)))
	}
	for _, f := range b.faults {
		b.r.logSeed(f[0], f[1])
	}
	for c, n := range b.d.counts {
		if n != 0 {
			d.count(Counter(c), n)
		}
	}
	return nil
}

// code makes the tuples of the links that the cache didn't know, and returns the bytes of their records. All that stands
// behind the URL is the same for the whole page, but that links within its origin leave that out of its URL, and the refreshes.
func (b *linkBatch) code() (text int64) {
	var tails [4][]byte
	b.coded = b.coded[:0]
	start, fresh := 0, b.fresh // in ascending order
	for i, end := range b.ends {
		isFresh := len(fresh) > 0 && fresh[0] == i
		if isFresh {
			fresh = fresh[1:]
		}
		if !b.seen[i] {
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
			b.tuples = append(b.tuples, drum.Tuple{Key: b.keys[i], Op: drum.CheckUpdate, Aux: b.coded[from:len(b.coded):len(b.coded)]})
		}
		start = end
	}
	return int64(len(b.coded))
}

// tail is what stands behind the URLs of a kind of links: 1 within the page's origin, 2 refreshes.
func (b *linkBatch) tail(kind int) []byte {
	rec := b.rec
	if kind&1 != 0 {
		rec.Via = rec.Via[len(b.origin)-1:]
	}
	if kind&2 != 0 {
		rec.Flags |= weburl.FlagRefresh
	}
	b.tails[kind] = rec.AppendTail(b.tails[kind][:0])
	return b.tails[kind]
}
