package cache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Stream describes a stream of keys of links whose reuse is like a crawl's: what Table IV depends on and
// nothing else. It is made, not recorded; "crawl --trace-links" records a real one.
//
// Hosts sites are crawled at a time. They are visited in turns, by their due time: the next visit of a site
// is one host delay after the last, which is Hosts pages of all sites together, give or take a tenth. So
// Hosts is tau_h S, and the links between two visits of a site are tau_h l S: the knee of Table IV stands
// there whatever else is assumed. After some pages, a Pareto number of PagesPerStay on average, as BEAST's
// budgets are skewed, a site makes room for another: with the probability Return for one of the last
// ReturnWindow Hosts sites, whose budget in a later queue has come, else for one never met.
//
// A link of a page is, by the shares below: a Repeat of a link further up; one of the Site's menu, which
// stands on each of its pages; a Local link to one of the LocalPages pages of the site, by a power law; a
// link to one of the PopularURLs of the whole web, by a power law; and else one never met before and never
// again. The power laws are Zipf's with exponent 1.
//
// The defaults of shares and returns were chosen so that the curve of exact LRU is roughly that of Table
// IV; so the heights of its steps prove nothing, and only the differences between policies are results, for
// streams like this one.
type Stream struct {
	// Hosts is tau_h S, the sites that are crawled at a time. LinksPerPage is l on average; the pages of a
	// site have all the same number, from a third of it to five thirds.
	Hosts, LinksPerPage int
	// PagesPerStay is the mean number of pages of a site before another takes its place.
	PagesPerStay float64
	// Return and ReturnWindow say which site that is.
	Return       float64
	ReturnWindow int
	// Repeat, Site, Local and Popular are shares of the links.
	Repeat, Site, Local, Popular float64
	LocalPages, PopularURLs      float64
	// Seed is that of the random numbers.
	Seed uint64
}

// DefaultStream is the stream with so many sites at a time; the rest is scaled with it where it must be.
func DefaultStream(hosts int) Stream {
	return Stream{
		Hosts: hosts, LinksPerPage: paperLinksPerPage, PagesPerStay: 12, Return: 0.75, ReturnWindow: 3,
		Repeat: 0.16, Site: 0.50, Local: 0.06, Popular: 0.17,
		LocalPages: 1000, PopularURLs: 700 * float64(hosts) * paperLinksPerPage, Seed: 1,
	}
}

const paperLinksPerPage = 59

// paretoShape is that of the pages per stay: finite mean, infinite variance. stayMost bounds them by as
// many means.
const (
	paretoShape = 1.5
	stayMost    = 100
)

// Span is tau_h l S: the links of one host delay.
func (o Stream) Span() float64 { return float64(o.Hosts) * float64(o.LinksPerPage) }

// Validate returns all faults, joined.
func (o Stream) Validate() error {
	var faults []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: stream of links: "+format, args...))
		}
	}
	need(o.Hosts >= 10 && o.Hosts <= 1e8, "%d sites at a time: want 10 to 1e8", o.Hosts)
	need(o.LinksPerPage >= 3 && o.LinksPerPage <= 1e4, "%d links per page: want 3 to 1e4", o.LinksPerPage)
	need(o.PagesPerStay >= 1 && o.PagesPerStay <= 1e6, "%g pages per stay: want 1 to 1e6", o.PagesPerStay)
	need(o.Return >= 0 && o.Return <= 1 && o.ReturnWindow >= 1 && o.ReturnWindow <= 1e6, "return of %g of %d rounds", o.Return, o.ReturnWindow)
	sum := o.Repeat + o.Site + o.Local + o.Popular
	need(min(o.Repeat, o.Site, o.Local, o.Popular) >= 0 && sum <= 1, "shares of links: want none below 0 and a sum of at most 1, not %g", sum)
	need(o.LocalPages >= 1 && o.PopularURLs >= 1 && max(o.LocalPages, o.PopularURLs) <= 1e15, "power laws: want 1 to 1e15 URLs")
	return errors.Join(faults...)
}

// cacheStream yields the keys. It takes 40 bytes a site, and allocates nothing once a page has had its most
// links.
type cacheStream struct {
	o     Stream
	rng   *rand.Rand
	sites []streamSite
	due   []siteVisit // a heap
	now   int64       // pages
	met   uint64      // sites
	fresh uint64      // links that are never met again
	page  []uint64
	// local and popular are the logarithms of the ranks.
	local, popular float64
}

type streamSite struct {
	key   uint64
	left  int32 // pages of this stay
	links int32 // of a page
}

type siteVisit struct {
	page int64
	site int32
}

func newCacheStream(o Stream) *cacheStream {
	s := &cacheStream{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0xca5e)), sites: make([]streamSite, o.Hosts),
		due: make([]siteVisit, o.Hosts), local: math.Log(o.LocalPages), popular: math.Log(o.PopularURLs)}
	for i := range s.sites {
		s.sites[i] = s.nextSite()
		s.sites[i].left = 1 + s.rng.Int32N(s.sites[i].left) // in the midst of its stay
		s.due[i] = siteVisit{int64(i), int32(i)}
	}
	return s
}

// Keys are mixed from what a URL is: a number of its own for each kind.
const (
	kindMenu = iota + 1
	kindLocal
	kindPopular
	kindFresh
)

// streamKey mixes two numbers (the finalizer of MurmurHash3, twice).
func streamKey(kind, of, n uint64) uint64 { return mix64(mix64(of<<3|kind) + n) }

func mix64(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// nextSite is the one that takes a place.
func (s *cacheStream) nextSite() streamSite {
	n := s.met
	if window := uint64(s.o.ReturnWindow) * uint64(s.o.Hosts); s.met > window && s.rng.Float64() < s.o.Return {
		n = s.met - 1 - s.rng.Uint64N(window)
	} else {
		s.met++
	}
	least := s.o.PagesPerStay * (paretoShape - 1) / paretoShape
	pages := least * math.Pow(1-s.rng.Float64(), -1/paretoShape)
	// Rounding to one side or the other by chance keeps the mean.
	pages = max(1, min(pages, stayMost*s.o.PagesPerStay)+s.rng.Float64())
	links := uint64(s.o.LinksPerPage)
	return streamSite{n, int32(pages), int32(max(1, links/3+mix64(n)%(4*links/3+1)))}
}

// next returns the keys of the links of the next page, which are valid until the next call.
func (s *cacheStream) next() []uint64 {
	at := &s.due[0]
	site := &s.sites[at.site]
	o := &s.o
	page, menu := s.page[:0], uint64(0)
	for range site.links {
		switch u := s.rng.Float64(); {
		case u < o.Repeat && len(page) > 0:
			page = append(page, page[s.rng.IntN(len(page))])
		case u < o.Repeat+o.Site:
			page = append(page, streamKey(kindMenu, site.key, menu))
			menu++
		case u < o.Repeat+o.Site+o.Local:
			page = append(page, streamKey(kindLocal, site.key, s.rank(s.local)))
		case u < o.Repeat+o.Site+o.Local+o.Popular:
			page = append(page, streamKey(kindPopular, 0, s.rank(s.popular)))
		default:
			s.fresh++
			page = append(page, streamKey(kindFresh, 0, s.fresh))
		}
	}
	s.page = page
	if site.left--; site.left == 0 {
		*site = s.nextSite()
	}
	s.now++
	// A visit that is overdue is made up for at once; the one after it is a host delay from now.
	jitter := 0.9 + 0.2*s.rng.Float64()
	at.page = max(at.page, s.now) + int64(jitter*float64(o.Hosts))
	s.sink()
	return page
}

// rank draws from Zipf's law, of so many ranks by their logarithm.
func (s *cacheStream) rank(log float64) uint64 { return uint64(math.Exp(log * s.rng.Float64())) }

// sink restores the heap after its first visit has been put off.
func (s *cacheStream) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s.due) {
			return
		}
		if child+1 < len(s.due) && s.due[child+1].page < s.due[child].page {
			child++
		}
		if s.due[i].page <= s.due[child].page {
			return
		}
		s.due[i], s.due[child] = s.due[child], s.due[i]
		i = child
	}
}

// read fills keys, cutting the last page.
func (s *cacheStream) read(keys []uint64) (int, error) {
	n := 0
	for n < len(keys) {
		n += copy(keys[n:], s.next())
	}
	return n, nil
}
