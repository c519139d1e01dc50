package cache

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"drumbeat/bench/result"
	"drumbeat/internal/human"
)

// The targets.
const (
	cacheRateTarget  = 30e6 // keys/s on one core
	cacheBytesTarget = 9    // bytes of RAM per entry
	cacheLossTarget  = 2    // points of hit rate below exact LRU
)

// sorted sorts sizes.
func sorted(sizes []cacheSize) []cacheSize {
	return slices.SortedFunc(slices.Values(sizes),
		func(a, b cacheSize) int { return cmp.Compare(a.entries, b.entries) })
}

// sizes returns the measured sizes, sorted.
func (res *cacheResult) sizes() []cacheSize {
	var sizes []cacheSize
	for _, h := range res.rates {
		if !slices.Contains(sizes, h.size) && h.links > 0 {
			sizes = append(sizes, h.size)
		}
	}
	return sorted(sizes)
}

// report fills in r.
func (res *cacheResult) report(c *Options, r *result.Report) {
	res.settings(c, r)
	for _, h := range res.rates {
		r.Add(fmt.Sprintf("BenchmarkCacheHits/policy=%s/entries=%d", strings.ReplaceAll(h.policy, " ", "-"),
			h.size.entries), h.links, result.Metric{Value: 100 * h.share(), Unit: "hit-%"},
			result.Metric{Value: 100 * h.cold, Unit: "cold-hit-%"},
			result.Metric{Value: 100 * (1 - h.share()), Unit: "miss-%"})
	}
	res.speedLines(r)
	r.Tables = append(r.Tables, res.tableIV(c), res.speedTable())
	s := &res.speed
	r.Checks = append(r.Checks,
		result.AtLeast(fmt.Sprintf("new keys on one core, %d entries", s.entries), s.fresh.Median()/1e6,
			cacheRateTarget/1e6, "M/s"),
		result.AtLeast(fmt.Sprintf("crawl-like keys on one core, %d entries", s.entries), s.crawl.Median()/1e6,
			cacheRateTarget/1e6, "M/s"), result.AtMost("RAM per entry", s.bytes, cacheBytesTarget, "B"))
	if at, loss := res.worst(true); !math.IsNaN(loss) {
		of := "at the worst size"
		if res.tabled() {
			of = "at the worst size of Table IV"
		}
		r.Checks = append(r.Checks, result.AtMost(fmt.Sprintf("hit rate below exact LRU %s (%d entries)", of,
			at), loss, cacheLossTarget, "points"))
	}
	if at, loss := res.worst(false); loss > cacheLossTarget {
		r.Notes = append(r.Notes,
			fmt.Sprintf("At %d entries ours is %.1f points below exact LRU. At this size the cache just "+
				"holds the links of one host delay, and LRU's own hit rate drops.", at, loss))
	}
	if next := res.modelCommand(); next != "" {
		r.Notes = append(r.Notes, "This command computes the cache size of equation (24) for this crawl. It "+
			"assumes the paper's RAM and bandwidth; set yours by --column-ram and --bandwidth: "+next)
	}
	r.Notes = append(r.Notes,
		"Rates are per second of the thread's CPU time, so other load on the machine has little effect.")
}

func (res *cacheResult) settings(c *Options, r *result.Report) {
	r.Set("method", "section V.A: skip %d links (N0), fill the empty cache with the next 5E, count the hits "+
		"of the 5E after that", res.from)
	if c.Trace != "" {
		r.Set("links", "%d of a crawl's trace, in %s: %s", res.links,
			human.Counted(res.generations, "generation", "generations"), c.Trace)
		if res.span() > 0 {
			r.Set("crawl",
				"%.4g pages/s (S), %.4g links per page (l), %v between requests to a host (tau_h): tau_h l "+
					"S = %.4g",
				res.pagesPerSecond, res.linksPerPage, res.delay, res.span())
		} else {
			r.Set("crawl",
				"unknown pages/s: an earlier release wrote the trace, or it is shorter than two blocks")
		}
		return
	}
	o := c.Stream
	r.Set("links", "generated, not recorded: %d sites at a time (tau_h S), %d links per page, tau_h l S = "+
		"%.0f; %g pages per visit of a site; the next site is, with probability %g, one of the last %d "+
		"rounds",
		o.Hosts, o.LinksPerPage, o.Span(), o.PagesPerStay, o.Return, o.ReturnWindow)
	r.Set("shares", "of links: to a URL of the same page %g, to the site's menu %g, to the site's %g pages "+
		"%g, to the web's %.3g popular URLs %g; the others never repeat. The shares give LRU roughly the "+
		"curve of Table IV, so only the differences between policies are results",
		o.Repeat, o.Site, o.LocalPages, o.Local, o.PopularURLs, o.Popular)
}

// tabled reports whether sizes of Table IV were measured.
func (res *cacheResult) tabled() bool {
	return slices.ContainsFunc(res.rates, func(h hitRate) bool { return h.size.printed >= 0 })
}

// worst returns the size at which our cache loses most points against exact LRU, and the loss. If printed
// is true it considers only Table IV's sizes.
func (res *cacheResult) worst(printed bool) (entries int, loss float64) {
	loss = math.NaN()
	printed = printed && res.tabled()
	for _, s := range res.sizes() {
		if printed && s.printed < 0 {
			continue
		}
		if l := 100 * (res.rate(nameLRU, s.entries).share() - res.rate(nameOurs, s.entries).share()); !(l <= loss) {
			entries, loss = s.entries, l
		}
	}
	return entries, loss
}

func (res *cacheResult) tableIV(c *Options) result.Table {
	t := result.Table{Title: "Table IV: hit rates", Head: []string{"entries", "E/tau_h l S"}}
	for _, p := range policies() {
		t.Head = append(t.Head, p.name)
	}
	t.Head = append(t.Head, "ours - LRU", "ours, cold", "paper's E", "LRU at N0=1B", "at 4B")
	percent := func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }
	for _, s := range res.sizes() {
		row := []string{fmt.Sprint(s.entries), "?"}
		if s.span > 0 {
			row[1] = fmt.Sprintf("%.3f", s.span)
		}
		for _, p := range policies() {
			row = append(row, percent(res.rate(p.name, s.entries).share()))
		}
		mine := res.rate(nameOurs, s.entries)
		row = append(row, fmt.Sprintf("%+.1f", 100*(mine.share()-res.rate(nameLRU, s.entries).share())),
			percent(mine.cold), "", "", "")
		if s.printed >= 0 {
			p := paperIV[s.printed]
			copy(row[len(row)-3:], []string{p.name, p.one + "%", p.four + "%"})
		}
		t.Add(row...)
	}
	t.Notes = []string{"cold: hits of all 10E links, from the empty cache on."}
	if c.Trace == "" {
		t.Notes = append(t.Notes,
			"The paper's sizes are scaled by tau_h l S, which was at most 7.3 million in its crawl.")
	}
	return t
}

// mega formats a rate and its spread in M/s.
func mega(s result.Sample) []string {
	scaled := make(result.Sample, len(s))
	for i, v := range s {
		scaled[i] = v / 1e6
	}
	return []string{result.Number(scaled.Median()), scaled.Spread()}
}

func (res *cacheResult) speedTable() result.Table {
	s := &res.speed
	t := result.Table{Title: fmt.Sprintf("Speed of ours: %d entries, %.2f B of RAM each", s.entries, s.bytes),
		Head: []string{"keys", "M/s of CPU", "spread"}}
	t.Add(append([]string{"new, pages of 59"}, mega(s.fresh)...)...)
	t.Add(append([]string{fmt.Sprintf("crawl-like, pages of 59, %.0f %% hits", 100*s.crawlHits)}, mega(s.crawl)...)...)
	return t
}

func (res *cacheResult) speedLines(r *result.Report) {
	s := &res.speed
	add := func(name string, rates result.Sample, more ...result.Metric) {
		for _, v := range rates {
			metrics := []result.Metric{{Value: 1e9 / v, Unit: "ns/op"}, {Value: v / 1e6, Unit: "M-keys/cpu-s"},
				{Value: s.bytes, Unit: "B/entry"}}
			r.Add(fmt.Sprintf("BenchmarkCache/links=%s/entries=%d/cores=1", name, s.entries), speedRounds*speedKeys,
				append(metrics, more...)...)
		}
	}
	add("new", s.fresh)
	add("crawl", s.crawl, result.Metric{Value: 100 * s.crawlHits, Unit: "hit-%"})
}
