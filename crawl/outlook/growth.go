package outlook

import (
	"math"

	"drumbeat/crawl/plan"
	"drumbeat/state"
)

// growth computes the queue and the disk space over the pages of a crawl.
type growth struct {
	f    *Figures
	per  Span // figures of the pages to come
	fade float64
	text float64 // compression of URLs on disk
	plan *plan.Plan
	base map[string]float64 // forecast of the stores for the pages so far
	most float64            // number of pages up to which it looks
}

// farthest is the number of times that a crawl may grow in a forecast, unless the operator asks for more.
const farthest = 1000

// newURLs returns the number of new URLs from now until the crawl has pages: the integral of a power law through the
// figures of the last hours.
func (g *growth) newURLs(pages float64) float64 {
	from, middle := g.f.Pages, g.f.Pages-g.f.Recent.Pages/2
	if pages <= from {
		return 0
	}
	if d := 1 - g.fade; math.Abs(d) > 1e-6 {
		return g.per.UniquePerPage * middle / d * (math.Pow(pages/middle, d) - math.Pow(from/middle, d))
	}
	return g.per.UniquePerPage * middle * math.Log(pages/from)
}

// newPerPage returns the new URLs of a page now.
func (g *growth) newPerPage() float64 {
	middle := g.f.Pages - g.f.Recent.Pages/2
	return g.per.UniquePerPage * math.Pow(g.f.Pages/middle, -g.fade)
}

// queued returns the URLs that have not ended when the crawl has pages.
func (g *growth) queued(pages float64) float64 {
	return g.f.Queued + g.newURLs(pages) - g.per.EndedPerPage*(pages-g.f.Pages)
}

// end returns the number of pages at which the queue is empty; ok is false if that is out of reach.
func (g *growth) end() (pages float64, ok bool) {
	return g.reaches(func(pages float64) bool { return g.queued(pages) <= 0 })
}

// reaches returns the least number of pages for which holds is true.
func (g *growth) reaches(holds func(pages float64) bool) (float64, bool) {
	now := g.f.Pages
	if holds(now) {
		return now, true
	}
	const step = 1.3
	for hi := now * step; hi <= g.most; hi *= step {
		if !holds(hi) {
			continue
		}
		lo := hi / step
		for range 20 {
			if mid := (lo + hi) / 2; holds(mid) {
				hi = mid
			} else {
				lo = mid
			}
		}
		return hi, true
	}
	return 0, false
}

// loadAt returns the load of a crawl from its start to pages, most of it measured.
func (g *growth) loadAt(pages float64) plan.Load {
	f, more := g.f, pages-g.f.Pages
	whole := func(now, perPage float64) float64 { return max(1e-9, (now+perPage*more)/pages) }
	links := max(leastLinks*pages, f.Links+g.per.LinksPerPage*more)
	checked := f.Links*f.Whole.Misses + g.per.LinksPerPage*g.per.Misses*more
	return plan.Load{Pages: pages, LinksPerPage: links / pages,
		UniqueFraction: min(1, max(1e-9, (f.Unique+g.newURLs(pages))/links)), URLBytes: g.per.URLBytes,
		TextRatio: g.text, Misses: min(1, max(1e-9, checked/links)), PageBytes: max(1, g.per.OutputBytes),
		RequestsPerPage: whole(f.Whole.Requests*f.Pages, g.per.Requests), HostsPerPage: whole(f.Hosts, g.per.Hosts),
		PLDsPerPage: whole(f.PLDs, g.per.PLDs), EdgesPerPage: whole(f.Edges, g.per.Edges)}
}

// names of the parts of an Outlook, and the structures of disk_bytes in each.
const (
	partOutput = "WARC files, indexes, logs"
	partQueues = "queues"
)

// groups are the stores by part: names in disk_bytes, and of the amounts of plan.Forecast.
var groups = []struct {
	name     string
	measured []string
	planned  []string
}{
	{"URLseen", []string{state.NameURLSeen}, []string{"URLseen cache", "URLseen buckets and text"}},
	{"PLD graph", []string{partEdges, partIndegree}, []string{"PLD edges", "PLD in-degrees"}},
	{"robots.txt", []string{state.NameRobotsCache, state.NameRobotsRequested},
		[]string{"RobotsCache", "RobotsRequested"}},
	{"names", []string{state.NameNames}, []string{"names"}},
	{"links to hosts", []string{state.NameHostLinks}, []string{"links to hosts"}},
	{"contents", []string{state.NameContent}, []string{"contents"}},
}

// planned returns the sizes of the stores at pages, by part, as package plan computes them.
func (g *growth) planned(pages float64) map[string]float64 {
	sizes := map[string]float64{}
	forecast, err := g.plan.Forecast(g.loadAt(pages))
	if err != nil {
		return sizes
	}
	for _, a := range forecast.Disk {
		for _, group := range groups {
			for _, name := range group.planned {
				// Once passes run, the highest size of the last hours has what waits for them.
				if name == a.Name && !(g.f.Merged && name == "URLseen buckets and text") {
					sizes[group.name] += float64(a.Bytes)
				}
			}
		}
	}
	return sizes
}

// Part is the disk space of a part of the crawl, in bytes.
type Part struct {
	Name string  `json:"name"`
	Now  float64 `json:"now"`
	Then float64 `json:"then"` // at Outlook.Target
}

// parts returns the disk space when the crawl has pages.
func (g *growth) parts(pages float64) []Part {
	if g.base == nil {
		g.base = g.planned(g.f.Pages)
	}
	then := g.planned(pages)
	out := g.f.Sizes["output"]
	queues := 0.0
	for name, size := range g.f.Sizes {
		queues += size.Now
		for _, store := range stores {
			if name == store {
				queues -= size.Now
			}
		}
	}
	queues -= out.Now
	each := g.f.QueuedBytes
	if each == 0 {
		each = g.per.URLBytes / g.text
	}
	list := []Part{{partOutput, out.Now, out.Now + g.per.OutputBytes*(pages-g.f.Pages)},
		{partQueues, queues, max(0, queues+each*(g.queued(pages)-g.f.Queued))}}
	for _, group := range groups {
		p := Part{Name: group.name}
		for _, name := range group.measured {
			p.Now += g.f.Sizes[name].Now
			p.Then += g.f.Sizes[name].Highest
		}
		p.Then += max(0, then[group.name]-g.base[group.name])
		list = append(list, p)
	}
	return list
}

// used returns the disk space when the crawl has pages, in bytes.
func (g *growth) used(pages float64) (sum float64) {
	for _, p := range g.parts(pages) {
		sum += p.Then
	}
	return sum
}
