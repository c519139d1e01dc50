package simweb

import (
	"iter"
	"strings"
)

// Expected is the result of a correct crawl of the web: the URLs that it fetches, those that robots.txt
// forbids, and those on dead hosts. It is immutable. No set contains URLs of the spam PLD, which are endless.
type Expected struct {
	w       *Web
	fetched bitset
	refused bitset
	dead    bitset

	Fetched int            // URLs fetched exactly once: pages, 404, 500, redirects, non-HTML
	Refused int            // URLs found and disallowed by robots.txt (those of hosts answering 503 included)
	Dead    int            // URLs found on hosts without an address or a listener
	ByKind  [NumKinds]int  // of Fetched
	ByPLD   map[string]int // fetched URLs of each PLD
}

// HostCount counts the URLs of one host in an Expected.
type HostCount struct{ Fetched, Refused, Dead int }

// Expected computes the sets for a crawler with this product token (as in User-agent lines,
// case-insensitive) from Seeds(). It takes one visit and 3 bits per node.
func (w *Web) Expected(agent string) *Expected {
	e, err := w.ExpectedFrom(agent, w.Seeds(), nil)
	if err != nil {
		panic("BUG: simweb: seeds are not of the web: " + err.Error())
	}
	return e
}

// ExpectedFrom is Expected for other seeds (canonical URLs of this web) and a scope: it ignores URLs of
// hosts for which inScope is false. A nil inScope accepts all.
func (w *Web) ExpectedFrom(
	agent string, seeds []string, inScope func(host, pld string) bool,
) (*Expected, error) {
	e := &Expected{w: w, ByPLD: map[string]int{}}
	e.fetched, e.refused, e.dead = newBitset(w.nodes), newBitset(w.nodes), newBitset(w.nodes)
	own := strings.EqualFold(agent, w.opt.Agent)
	outside := make([]bool, len(w.hosts))
	if inScope != nil {
		for i := range w.hosts {
			outside[i] = !inScope(w.hosts[i].name, w.plds[w.hosts[i].pld].name)
		}
	}
	var stack, links []node
	for _, s := range seeds {
		n, err := w.parseURL(s)
		if err != nil {
			return nil, err
		}
		stack = append(stack, n)
	}
	perPLD := make([]int, len(w.plds))
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n.host == w.spam || outside[n.host] {
			continue
		}
		k, i := w.kind(&w.hosts[n.host], n.page), w.number(n)
		switch {
		case w.hosts[n.host].kind.dead():
			e.Dead += e.dead.set(i)
			continue
		case w.refuses(n, k, own):
			e.Refused += e.refused.set(i)
			continue
		case e.fetched.set(i) == 0:
			continue
		}
		e.Fetched++
		e.ByKind[k]++
		perPLD[w.hosts[n.host].pld]++
		links = w.appendTargets(links[:0], n, k)
		for _, t := range links {
			if t.host == w.spam || !e.fetched.has(w.number(t)) {
				stack = append(stack, t)
			}
		}
	}
	for i, c := range perPLD {
		if c > 0 {
			e.ByPLD[w.plds[i].name] = c
		}
	}
	return e, nil
}

// FetchedURLs yields the URLs to be fetched, host by host.
func (e *Expected) FetchedURLs() iter.Seq[string] { return e.urls(e.fetched) }

// RefusedURLs yields the URLs that robots.txt forbids.
func (e *Expected) RefusedURLs() iter.Seq[string] { return e.urls(e.refused) }

// DeadURLs yields the URLs found on dead hosts.
func (e *Expected) DeadURLs() iter.Seq[string] { return e.urls(e.dead) }

// Has reports whether a canonical URL must be fetched, refused, or found dead.
func (e *Expected) Has(url string) (fetched, refused, dead bool) {
	n, err := e.w.parseURL(url)
	if err != nil || n.host == e.w.spam {
		return false, false, false
	}
	i := e.w.number(n)
	return e.fetched.has(i), e.refused.has(i), e.dead.has(i)
}

// ByHost counts the URLs of every host that has any.
func (e *Expected) ByHost() map[string]HostCount {
	m := map[string]HostCount{}
	for i := range e.w.hosts {
		h := &e.w.hosts[i]
		from, to := h.base*hops, (h.base+uint64(h.pages))*hops
		c := HostCount{e.fetched.count(from, to), e.refused.count(from, to), e.dead.count(from, to)}
		if c != (HostCount{}) {
			m[h.name] = c
		}
	}
	return m
}

// Names returns the hosts of all URLs in the sets, with their PLDs.
func (e *Expected) Names() map[string]string {
	names := map[string]string{}
	for host := range e.ByHost() {
		names[host] = e.w.PLD(host)
	}
	return names
}

// PLDLinks returns the links between different PLDs from all fetched URLs, once each, redirects included.
func (e *Expected) PLDLinks() map[[2]string]bool {
	links := map[[2]string]bool{}
	for ends := range e.PLDLinkCounts() {
		links[ends] = true
	}
	return links
}

// PLDLinkCounts returns the links of PLDLinks with their numbers.
func (e *Expected) PLDLinkCounts() map[[2]string]int {
	links := map[[2]string]int{}
	var targets []node
	for i := range e.w.hosts {
		h := &e.w.hosts[i]
		for j := h.base * hops; j < (h.base+uint64(h.pages))*hops; j++ {
			if !e.fetched.has(j) {
				continue
			}
			n := node{host: int32(i), page: uint32(j/hops - h.base), hop: uint8(j % hops)}
			targets = e.w.appendTargets(targets[:0], n, e.w.kind(h, n.page))
			for _, t := range targets {
				if to := e.w.hosts[t.host].pld; to != h.pld {
					links[[2]string{e.w.plds[h.pld].name, e.w.plds[to].name}]++
				}
			}
		}
	}
	return links
}

func (e *Expected) urls(b bitset) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range e.w.hosts {
			h := &e.w.hosts[i]
			for j := h.base * hops; j < (h.base+uint64(h.pages))*hops; j++ {
				if b.has(j) {
					n := node{host: int32(i), page: uint32(j/hops - h.base), hop: uint8(j % hops)}
					if !yield(e.w.url(n)) {
						return
					}
				}
			}
		}
	}
}

// bitset is a set of node numbers.
type bitset []uint64

func newBitset(n uint64) bitset { return make(bitset, (n+63)/64) }

func (b bitset) has(i uint64) bool { return b[i/64]>>(i%64)&1 != 0 }

// set adds i and returns 1 if it was absent, else 0.
func (b bitset) set(i uint64) int {
	if b.has(i) {
		return 0
	}
	b[i/64] |= 1 << (i % 64)
	return 1
}

func (b bitset) count(from, to uint64) (n int) {
	for i := from; i < to; i++ {
		if b.has(i) {
			n++
		}
	}
	return n
}
