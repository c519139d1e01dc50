package cache

import (
	"math"
	"math/rand/v2"
)

// Stream describes a stream of keys of links whose reuse is like a crawl's: only what Table IV depends on.
// It is generated; "crawl --trace-links" records a real one.
//
// Hosts sites are crawled at a time, ordered by due time: the next visit of a site is one host delay after
// the last, which is Hosts pages of all sites together, plus or minus a tenth. So Hosts is tau_h S, and the
// number of links between two visits of a site is tau_h l S, the knee of Table IV under any other
// assumptions. A site leaves after a number of pages from a Pareto distribution with mean PagesPerStay,
// since BEAST's budgets are skewed. With probability Return its successor is one of the last
// ReturnWindow·Hosts sites, whose budget in a later queue has come, otherwise a new site.
//
// The shares below divide the links of a page: Repeat repeats a link further up; Site is the site's menu,
// which is on each of its pages; Local links to one of the LocalPages pages of the site, by a power law;
// Popular links to one of the PopularURLs of the whole web, by a power law. Other links occur only once.
// The power laws are Zipf's with exponent 1.
//
// The default shares and returns approximate exact LRU's curve in Table IV. So the heights of its steps
// prove nothing; only the differences between policies are results, for streams like this one.
type Stream struct {
	// Hosts is tau_h S, the number of sites crawled at a time. LinksPerPage is l, the mean. All pages of a
	// site have the same number of links, from a third to five thirds of l.
	Hosts, LinksPerPage int
	// PagesPerStay is the mean number of pages of a site before it leaves.
	PagesPerStay float64
	// Return is the probability that a former site replaces it, ReturnWindow how long ago that site left at
	// most, in rounds of Hosts sites.
	Return       float64
	ReturnWindow int
	// Repeat, Site, Local and Popular are shares of the links.
	Repeat, Site, Local, Popular float64
	LocalPages, PopularURLs      float64
	// Seed is the seed of the random numbers.
	Seed uint64
}

// DefaultStream returns the stream with hosts sites at a time; other sizes scale with it where necessary.
func DefaultStream(hosts int) Stream {
	return Stream{
		Hosts: hosts, LinksPerPage: paperLinksPerPage, PagesPerStay: 12, Return: 0.75, ReturnWindow: 3,
		Repeat: 0.16, Site: 0.50, Local: 0.06, Popular: 0.17,
		LocalPages: 1000, PopularURLs: 700 * float64(hosts) * paperLinksPerPage, Seed: 1,
	}
}

const paperLinksPerPage = 59

// paretoShape is the shape of the pages per stay: finite mean, infinite variance. stayMost bounds a stay,
// as a multiple of the mean.
const (
	paretoShape = 1.5
	stayMost    = 100
)

// Span returns tau_h l S: the number of links in one host delay.
func (o Stream) Span() float64 { return float64(o.Hosts) * float64(o.LinksPerPage) }

// cacheStream yields the keys. It takes 40 bytes per site, and allocates nothing after the page with the
// most links.
type cacheStream struct {
	o     Stream
	rng   *rand.Rand
	sites []streamSite
	due   []siteVisit // a heap
	now   int64       // pages so far
	met   uint64      // sites so far
	fresh uint64      // links so far that occur once
	page  []uint64
	// local and popular are the logarithms of the number of ranks.
	local, popular float64
}

type streamSite struct {
	key   uint64
	left  int32 // remaining pages of this stay
	links int32 // links per page
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
		s.sites[i].left = 1 + s.rng.Int32N(s.sites[i].left) // the site is in the middle of its stay
		s.due[i] = siteVisit{int64(i), int32(i)}
	}
	return s
}

// The kinds of URLs. A key mixes the kind and a number within the kind.
const (
	kindMenu = iota + 1
	kindLocal
	kindPopular
	kindFresh
)

// streamKey mixes its arguments (the finalizer of MurmurHash3, twice).
func streamKey(kind, of, n uint64) uint64 { return mix64(mix64(of<<3|kind) + n) }

func mix64(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// nextSite returns the site that takes a free place.
func (s *cacheStream) nextSite() streamSite {
	n := s.met
	if window := uint64(s.o.ReturnWindow) * uint64(s.o.Hosts); s.met > window && s.rng.Float64() < s.o.Return {
		n = s.met - 1 - s.rng.Uint64N(window)
	} else {
		s.met++
	}
	least := s.o.PagesPerStay * (paretoShape - 1) / paretoShape
	pages := least * math.Pow(1-s.rng.Float64(), -1/paretoShape)
	// Rounding up or down at random keeps the mean.
	pages = max(1, min(pages, stayMost*s.o.PagesPerStay)+s.rng.Float64())
	links := uint64(s.o.LinksPerPage)
	return streamSite{n, int32(pages), int32(max(1, links/3+mix64(n)%(4*links/3+1)))}
}

// next returns the keys of the links of the next page, valid until the next call.
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
	// An overdue visit takes place immediately; the next one follows a host delay from now.
	jitter := 0.9 + 0.2*s.rng.Float64()
	at.page = max(at.page, s.now) + int64(jitter*float64(o.Hosts))
	s.sink()
	return page
}

// rank draws a rank by Zipf's law; log is the logarithm of the number of ranks.
func (s *cacheStream) rank(log float64) uint64 { return uint64(math.Exp(log * s.rng.Float64())) }

// sink restores the heap after its first visit was deferred.
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

// read fills keys; it truncates the last page.
func (s *cacheStream) read(keys []uint64) (int, error) {
	n := 0
	for n < len(keys) {
		n += copy(keys[n:], s.next())
	}
	return n, nil
}
