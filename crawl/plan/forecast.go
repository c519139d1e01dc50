package plan

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"drumbeat/beast"
	"drumbeat/cluster"
	"drumbeat/drum"
	"drumbeat/internal/human"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/warc"
)

// The paper's numbers (sections IV.D, VII and VIII) are the defaults for an unknown load.
const (
	paperLinksPerPage = 59
	paperUnique       = 1. / 9
	paperURLBytes     = 110 // 70.6 of text, and the data that travel with it
	paperMisses       = 0.33
	paperRequests     = 7_606_109_371. / 6_380_051_942 // requests per page
	paperHosts        = 260_113_628. / 6_380_051_942   // hosts looked up and asked for robots.txt, per page
	paperPLDs         = 89_652_630. / 6_380_051_942
	paperEdges        = 1_832_325_052. / 6_380_051_942
	paperCoreRate     = 1000 // pages/s of one processor: S_max = 4,000 with 4
)

// These numbers are ours: measured values or round estimates.
const (
	// TextRatio is the compression of URLs in blocks that hold the links of pages: 3 to 20 where disks bind,
	// so that URLseen compresses its text.
	TextRatio = 4
	// planKeyBytes is the size of a key and the number of its text.
	planKeyBytes = 10
	// planPageBytes is the size of a response in a WARC file, compressed with gzip, with headers and index:
	// 25.2 KB of HTML at 5:1, 1 KB, and 81 bytes of the statements of a robots.txt (212 with signals).
	planPageBytes = 6100
	// planLogBytes is the compressed size of a line in the crawl log: 42 bytes, and 34 of the statements of a
	// robots.txt if the lines nearby are of other hosts. Of 700 hosts with 11 lines each these are 4.
	planLogBytes = 76
	// planRobotsBytes is the size of an entry of RobotsCache: 300 bytes of rules, addresses and times, 21 of digest and
	// group, 5 of signals (25 in one file of five), and 20 of a tdmrep.json.
	planRobotsBytes = 350
	// planNameBytes is the size of a value in the store of names with its length: 17 bytes of text on
	// average.
	planNameBytes = 22
	// planDiskRate is the assumed speed of one disk, in bytes/s.
	planDiskRate = 150e6
)

// Load is the expected load of a crawl. A zero field means the default in its comment.
type Load struct {
	// Pages is N (1e9), LinksPerPage l (59), UniqueFraction p (1/9). URLBytes is b, with the data that
	// travel with a URL (110).
	Pages          float64 `json:"pages"`
	LinksPerPage   float64 `json:"linksPerPage"`
	UniqueFraction float64 `json:"uniqueFraction"`
	URLBytes       float64 `json:"urlBytes"`
	// TextRatio is the compression of URLs on disk (4).
	TextRatio float64 `json:"textRatio"`
	// Misses is pi, the share of links that are not in the RAM cache (0.33, or 1 without a cache).
	Misses float64 `json:"misses"`
	// PageBytes is the size of a response in the output (6,100).
	PageBytes float64 `json:"pageBytes"`
	// RequestsPerPage are the requests for URLs for each page (1.19). HostsPerPage (0.041), PLDsPerPage (0.014) and
	// EdgesPerPage (0.29) are the distinct hosts, PLDs and edges between PLDs that a page adds.
	RequestsPerPage float64 `json:"requestsPerPage"`
	HostsPerPage    float64 `json:"hostsPerPage"`
	PLDsPerPage     float64 `json:"pldsPerPage"`
	EdgesPerPage    float64 `json:"edgesPerPage"`
	// DiskRate is W, bytes/s of all disks together (150e6 for each directory). MaxRate is S_max, the
	// pages/s that CPU and network allow (1,000 for each processor).
	DiskRate float64 `json:"diskRate"`
	MaxRate  float64 `json:"maxRate"`
}

// Validate returns all errors, joined.
func (l Load) Validate() error {
	var faults []error
	for _, f := range []struct {
		name string
		v    float64
	}{{"pages", l.Pages}, {"links per page", l.LinksPerPage}, {"unique share", l.UniqueFraction},
		{"bytes of a URL", l.URLBytes}, {"text ratio", l.TextRatio}, {"misses", l.Misses},
		{"bytes of a page", l.PageBytes}, {"requests per page", l.RequestsPerPage},
		{"hosts per page", l.HostsPerPage}, {"PLDs per page", l.PLDsPerPage}, {"edges per page", l.EdgesPerPage},
		{"disk rate", l.DiskRate}, {"highest rate", l.MaxRate}} {
		if f.v < 0 || f.v > 1e18 || math.IsNaN(f.v) {
			faults = append(faults, fmt.Errorf("crawl: load: %s %v: want 0 to 1e18", f.name, f.v))
		}
	}
	if l.UniqueFraction > 1 || l.Misses > 1 || l.TextRatio > 0 && l.TextRatio < 1 {
		faults = append(faults, fmt.Errorf("crawl: load: unique share %v and misses %v must be at most 1,"+
			" text ratio %v at least 1", l.UniqueFraction, l.Misses, l.TextRatio))
	}
	return errors.Join(faults...)
}

// complete replaces zero fields by their defaults, except Misses and DiskRate.
func (l Load) complete() Load {
	for _, f := range []struct {
		at  *float64
		def float64
	}{{&l.Pages, 1e9}, {&l.LinksPerPage, paperLinksPerPage}, {&l.UniqueFraction, paperUnique},
		{&l.URLBytes, paperURLBytes}, {&l.TextRatio, TextRatio}, {&l.PageBytes, planPageBytes},
		{&l.RequestsPerPage, paperRequests}, {&l.HostsPerPage, paperHosts}, {&l.PLDsPerPage, paperPLDs},
		{&l.EdgesPerPage, paperEdges}, {&l.MaxRate, float64(paperCoreRate * runtime.GOMAXPROCS(0))}} {
		if *f.at == 0 {
			*f.at = f.def
		}
	}
	return l
}

// Amount is a part of RAM or disk.
type Amount struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Of says how Bytes was computed.
	Of string `json:"of,omitempty"`
}

// Forecast is the result of the formulas for a plan and a load.
type Forecast struct {
	Load Load `json:"load"`
	// Links is l N. Checked is the number of links that reach URLseen, Unique the number of new ones.
	Links   float64 `json:"links"`
	Checked float64 `json:"checked"`
	Unique  float64 `json:"unique"`
	// Cost is the cost of a link that reaches URLseen. Alpha is Cost in units of the URL's text. PaperAlpha
	// is the value for the paper's design by equation (14) with the same k and r.
	Cost       drum.Cost `json:"cost"`
	Alpha      float64   `json:"alpha"`
	PaperAlpha float64   `json:"paperAlpha"`
	// Disk is the largest size of each structure, DiskBytes their sum, OutputBytes the part of it that goes
	// to --out. Fits reports whether the sum is within the plan's disk.
	Disk        []Amount `json:"disk"`
	DiskBytes   int64    `json:"diskBytes"`
	OutputBytes int64    `json:"outputBytes"`
	Fits        bool     `json:"fits"`
	// PageIO are the bytes read and written per page by structure, PageIOBytes their sum.
	PageIO      []Amount `json:"pageIO"`
	PageIOBytes float64  `json:"pageIOBytes"`
	// SeenRate is the pages/s that the disks allow if they serve URLseen only (Theorem 3 with its cost),
	// DiskRate if they serve all structures. Rate is the smaller of DiskRate and MaxRate. Seconds is the
	// time for N pages at this rate.
	SeenRate float64 `json:"seenRate"`
	DiskRate float64 `json:"diskRate"`
	Rate     float64 `json:"rate"`
	Seconds  float64 `json:"seconds"`
	// Collisions is the expected number of pairs of URLs with the same key. The second URL of a pair counts
	// as seen.
	Collisions float64 `json:"collisions"`
	// SupportersDiskBytes is what a computation of supporters (--budget supporters) takes at the end of the crawl while
	// it runs, in the first directory; SupportersBytes is what it reads and writes. Neither is part of the sums. In a
	// cluster these are the bytes of the node that computes for all.
	SupportersDiskBytes int64 `json:"supportersDiskBytes"`
	SupportersBytes     int64 `json:"supportersBytes"`
}

// Lines is a short description of the forecast for the start of a crawl.
func (f *Forecast) Lines() []string {
	lines := []string{
		fmt.Sprintf("%s pages have %s links and %s unique URLs (%s expected key collisions), and need %s of disk",
			human.Rough(f.Load.Pages), human.Rough(f.Links), human.Rough(f.Unique), human.Rough(f.Collisions),
			human.Bytes(f.DiskBytes)),
		fmt.Sprintf("URLseen: predicted I/O %.1f bytes per link that reaches it, alpha %.2f (paper's "+
			"design: %.2f), %s", f.Cost.Bytes(), f.Alpha, f.PaperAlpha,
			human.Counted(int64(math.Ceil(f.Cost.Passes)), "pass", "passes")),
	}
	if !f.Fits {
		lines = append(lines, "that is more than --disk: fetching will pause before the end")
	}
	return lines
}

// MostPages returns the largest number of pages, to three digits, whose files fit into the plan's disk.
func (p *Plan) MostPages(l Load) float64 {
	fits := func(pages float64) bool {
		l.Pages = pages
		f, err := p.Forecast(l)
		return err == nil && f.Fits
	}
	if !fits(1) {
		return 0
	}
	lo, hi := 0.0, 15.0 // powers of ten
	for hi-lo > 0.002 {
		if mid := (lo + hi) / 2; fits(math.Pow(10, mid)) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Pow(10, lo)
}

// paperAlpha computes equation (14): the overhead of the paper's design with this plan's k and r.
func (p *Plan) paperAlpha(l Load) float64 {
	const key = 8
	o := p.SeenOptions(nil)
	waiting := float64(p.URLSeen.Buckets) * float64(p.URLSeen.BucketBytes/o.TupleBytes(0)) * key
	links := l.Pages * l.LinksPerPage
	return l.UniqueFraction*links*key*key/(l.URLBytes*waiting) + 2 + l.UniqueFraction + 2*key/l.URLBytes
}

// Forecast computes the size and the speed of a crawl of l.Pages.
func (p *Plan) Forecast(l Load) (Forecast, error) {
	if err := l.Validate(); err != nil {
		return Forecast{}, err
	}
	l = l.complete()
	o := &p.of
	if l.Misses == 0 {
		if l.Misses = paperMisses; p.CacheBytes == 0 {
			l.Misses = 1
		}
	}
	l.Misses = max(l.Misses, l.UniqueFraction) // new links are in no cache
	if l.DiskRate == 0 {
		l.DiskRate = planDiskRate * float64(max(1, len(o.Dirs)))
	}
	f := Forecast{Load: l, Links: l.Pages * l.LinksPerPage, PaperAlpha: p.paperAlpha(l)}
	f.Checked, f.Unique = l.Misses*f.Links, l.UniqueFraction*f.Links
	f.Cost = p.SeenOptions(o.Dirs).Cost(drum.CostInput{Tuples: f.Checked, UniqueFraction: l.UniqueFraction / l.Misses,
		AuxBytes: l.URLBytes, AuxRatio: l.TextRatio})
	f.Alpha = f.Cost.Bytes() / l.URLBytes
	f.Collisions = f.Unique * f.Unique / math.Exp2(65)
	f.pageIO(p)
	f.SeenRate = l.DiskRate / (f.Cost.Bytes() * l.Misses * l.LinksPerPage)
	f.DiskRate = l.DiskRate / f.PageIOBytes
	f.Rate = min(f.DiskRate, l.MaxRate)
	f.Seconds = l.Pages / f.Rate
	f.disk(p)
	return f, nil
}

// PerPage returns the requests per page, those for robots.txt included, and the DNS lookups per page, as in
// the paper's crawl.
func PerPage() (requests, lookups float64) { return paperRequests + paperHosts, paperHosts }

// Files estimates from above the inodes of a crawl on all file systems together: four for each bucket of a
// store (keys and texts, those that arrive and those being merged), two for each queue of BEAST and one for
// each segment of a queue, three for each full WARC file (which the size of its index may end early), and
// those without which the crawl pauses.
func (p *Plan) Files(f *Forecast) int64 {
	n := int64(LeastFiles) + 2*int64(p.of.QueuesMax) + (f.DiskBytes-f.OutputBytes)/segmentBytes
	n += 3 * int64(math.Ceil(float64(f.OutputBytes)/warc.DefaultFileBytes))
	for _, d := range []*DrumPlan{&p.URLSeen, &p.Edges, &p.Indegree, &p.RobotsCache, &p.RobotsRequested,
		&p.Names, &p.Content, &p.HostLinks} {
		n += 4 * int64(d.Buckets)
	}
	return n
}

// segmentBytes is the size at which package queue ends a file by default.
const segmentBytes = 64 << 20

// amount converts bytes to an int64. The limit ensures that the sum of 32 amounts does not overflow: a
// valid Load can exceed it.
func amount(bytes float64) int64 { return int64(min(bytes, math.MaxInt64/32)) }

// disk adds up the sizes of the structures at the end of the crawl, when they are largest.
func (f *Forecast) disk(p *Plan) {
	o := &p.of
	l := &f.Load
	hosts, plds, edges := l.HostsPerPage*l.Pages, l.PLDsPerPage*l.Pages, l.EdgesPerPage*l.Pages
	waiting := max(0, f.Unique-l.RequestsPerPage*l.Pages)
	add := func(name string, bytes float64, of string) {
		f.Disk = append(f.Disk, Amount{name, amount(bytes), of})
		f.DiskBytes += amount(bytes)
	}
	add("URLseen cache", 2*f.Cost.CacheBytes, fmt.Sprintf("%s keys of %.2f bytes, twice while a pass replaces it",
		human.Rough(f.Unique), f.Cost.CacheBytes/f.Unique))
	during := min(1, f.Rate/f.SeenRate) // share of a pass's links that arrive while it runs
	add("URLseen buckets and text", (1+during)*f.Cost.WaitingBytes,
		fmt.Sprintf("%s links, %.0f %% more during a pass", human.Rough(f.Cost.PassTuples), math.Ceil(100*during)))
	add("BEAST, QF, deferred", waiting*l.URLBytes/l.TextRatio,
		fmt.Sprintf("%s URLs known but not fetched, text at %.3g:1", human.Rough(waiting), l.TextRatio))
	add("PLD edges", 2*p.Edges.cacheBytes(EdgesShape(), edges), human.Rough(edges)+" edges, twice")
	add("PLD in-degrees", 2*p.Indegree.cacheBytes(IndegreeShape(p.Lanes, o.divided()), plds),
		human.Rough(plds)+" PLDs, twice")
	all := edges // of all nodes
	if o.Nodes > 1 {
		all /= cluster.LargestShare(o.Nodes)
	}
	f.SupportersDiskBytes, f.SupportersBytes = amount(all*star.SupportBytesPerEdge),
		amount(all*star.SupportTrafficPerEdge)
	if o.divided() {
		parts, of := hosts, human.Rough(hosts)+" hosts, twice"
		if o.Parts == state.ByDirectories {
			parts += edges
			of = fmt.Sprintf("%s hosts, and a directory for each PLD edge, twice", human.Rough(hosts))
		}
		add("links to hosts", 2*p.HostLinks.cacheBytes(star.HostLinksShape(), parts), of)
	}
	names := p.Names.cacheBytes(NamesShape(), hosts+plds) + planNameBytes*(hosts+plds)
	add("names", 2*names, fmt.Sprintf("%s hosts, %s PLDs, twice", human.Rough(hosts), human.Rough(plds)))
	if o.ContentSeen != state.ContentOff {
		bodies := l.RequestsPerPage * l.Pages
		add("contents", 2*bodies*contentBytes(l), human.Rough(bodies)+" bodies, twice")
		add("pages that wait for it", float64(p.ContentDiskBytes), "at most")
	}
	add("RobotsCache", 2*hosts*planRobotsBytes, human.Rough(hosts)+" hosts, twice")
	add("RobotsRequested", 2*p.RobotsRequested.cacheBytes(RequestedShape(), hosts), "the same hosts, twice")
	stock := max(o.LeastStock, int64(p.PoliteItems))
	add("Q, QR, QD", float64(stock)*l.URLBytes, fmt.Sprintf("%s ahead of the connections at most",
		human.Counted(stock, "URL", "URLs")))
	add("checkpoints", 2*float64(p.BufferedBytes()), "the contents of buffers, twice")
	if o.Store {
		f.OutputBytes = amount(l.Pages * l.PageBytes)
		add("WARC files and indexes", l.Pages*l.PageBytes, human.Rough(l.PageBytes)+" bytes per page")
	}
	if o.CrawlLog != state.LogOff {
		lines := max(0, l.RequestsPerPage-1) * l.Pages
		if o.CrawlLog == state.LogAll {
			lines += l.Pages
		}
		add("crawl log", lines*planLogBytes, human.Rough(lines)+" lines")
	}
	f.Fits = f.DiskBytes <= p.DiskBytes
}

// contentBytes is the size of a body's entry in the store of contents: key, value, and the value's length.
func contentBytes(l *Load) float64 { return planKeyBytes + ContentHead + l.URLBytes + 2 }

// contentTuples returns the number of tuples that make a pass of the store of contents due.
func (p *Plan) contentTuples(l *Load) float64 {
	shape := p.Content.Shaped(ContentShape())
	return float64(p.Content.Buckets) * float64(p.Content.BucketBytes) / float64(
		shape.TupleBytes(ContentHead+int(l.URLBytes)))
}

// cacheBytes returns the size of the cache of a store with entries entries.
func (p *DrumPlan) cacheBytes(shape drum.Options, entries float64) float64 {
	cost := p.Shaped(shape).Cost(drum.CostInput{Known: entries, Tuples: 1})
	return cost.CacheBytes + entries*float64(max(0, shape.ValueBytes))
}

// pageIO adds up the bytes read and written per page. Each hop of a URL is one write and one read. Theorem 7
// limits the hops of STAR and BEAST to 2b(2L-1) bytes per page, and STAR's buckets add almost as much again.
func (f *Forecast) pageIO(p *Plan) {
	o := &p.of
	l := &f.Load
	add := func(name string, bytes float64, of string) {
		f.PageIO = append(f.PageIO, Amount{name, amount(bytes), of})
		f.PageIOBytes += bytes
	}
	model := beast.Model{PagesPerSecond: 1, UniquePerPage: max(1, l.UniqueFraction*l.LinksPerPage),
		URLBytes: l.URLBytes}
	queues := model.RateBound()
	add("URLseen", f.Cost.Bytes()*l.Misses*l.LinksPerPage,
		fmt.Sprintf("%.1f bytes for each of %s links", f.Cost.Bytes(), human.Rough(l.Misses*l.LinksPerPage)))
	add("BEAST", queues/l.TextRatio, "2b(2L-1), Theorem 7, text compressed")
	add("STAR", model.RateBoundWithStar()-queues, "2b(2L-2), in buckets")
	add("RobotsCache", 2*l.RequestsPerPage*l.URLBytes, "in buckets, once per request")
	add("Q", 2*l.RequestsPerPage*l.URLBytes/l.TextRatio, "once per request")
	if o.ContentSeen != state.ContentOff {
		// A pass rewrites the store, which on average is half as large as at the end.
		passes := l.RequestsPerPage * l.Pages / p.contentTuples(l)
		add("contents", l.RequestsPerPage*contentBytes(l)*(2+passes), human.Rough(passes)+" passes")
	}
	add("checkpoints", 2*planKeyBytes*l.Misses*l.LinksPerPage, "keys that entered buffers, at most twice")
	if o.Store {
		add("WARC files and indexes", l.PageBytes, "written once")
	}
}

func (p *DrumPlan) geometry() string {
	return fmt.Sprintf("k = %d, M = %s, r = %s", p.Buckets, human.Bytes(int64(p.BufferBytes)),
		human.Bytes(p.BucketBytes))
}

// RAM lists the division of RAM. The sum is RAMBytes.
func (p *Plan) RAM() []Amount {
	list := []Amount{{Name: "URLseen", Bytes: p.URLSeen.RAMBytes}, {Name: "PLD edges", Bytes: p.Edges.RAMBytes},
		{Name: "PLD in-degrees", Bytes: p.Indegree.RAMBytes}, {Name: "RobotsCache", Bytes: p.RobotsCache.RAMBytes},
		{Name: "RobotsRequested", Bytes: p.RobotsRequested.RAMBytes}, {Name: "names", Bytes: p.Names.RAMBytes},
		{Name: "contents", Bytes: p.Content.RAMBytes}, {Name: "filter, recent contents", Bytes: p.ContentFilterBytes},
		{Name: "cache of recent URLs", Bytes: p.CacheBytes, Of: "c"},
		{Name: "cache of recent edges", Bytes: p.EdgeCacheBytes},
		{Name: "cache of recent names", Bytes: p.NameCacheBytes},
		{Name: "URLs in RAM", Bytes: p.PoliteBytes,
			Of: "of the Go heap: " + human.Rough(float64(p.PoliteBytes)/politeHostBytes) + " hosts"},
		{Name: "queues", Bytes: p.QueueBytes, Of: "of the Go heap"},
		{Name: "large bodies", Bytes: p.BodyBytes, Of: "of the Go heap"}}
	for i, d := range []*DrumPlan{&p.URLSeen, &p.Edges, &p.Indegree, &p.RobotsCache, &p.RobotsRequested,
		&p.Names, &p.Content} {
		list[i].Of = d.geometry()
	}
	if d := &p.HostLinks; d.RAMBytes > 0 {
		list = append(list, Amount{Name: "links to hosts", Bytes: d.RAMBytes, Of: d.geometry()},
			Amount{Name: "levels of hosts", Bytes: p.HostLevelBytes, Of: "of the Go heap"})
	}
	if p.TrapBytes > 0 {
		list = append(list, Amount{Name: "trap scores", Bytes: p.TrapBytes, Of: "of the Go heap"})
	}
	if p.WalkBytes > 0 {
		list = append(list, Amount{Name: "random walk", Bytes: p.WalkBytes, Of: "of the Go heap"})
	}
	if p.SupportersBytes > 0 {
		list = append(list, Amount{Name: "supporters", Bytes: p.SupportersBytes, Of: "of the Go heap"})
	}
	if p.ExchangeBytes > 0 {
		list = append(list, Amount{Name: "exchange with other nodes", Bytes: p.ExchangeBytes, Of: "of the Go heap"})
	}
	rest := p.HeapBytes - p.PoliteBytes - p.QueueBytes - p.BodyBytes - p.TrapBytes - p.WalkBytes - p.SupportersBytes -
		p.ExchangeBytes
	return append(list, Amount{"rest of the Go heap", rest, "connections, pages, DNS"})
}
