package inforce

import (
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/options"
	"drumbeat/internal/sites"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Sites are the settings of some sites. It is safe for concurrent use.
type Sites struct {
	atomic.Pointer[sites.Set] // nil for none. A reload replaces it
	// Admitting is held for reading while a URL is admitted with the terms of its site; above polite.
	Admitting sync.RWMutex

	budgets atomic.Pointer[map[uint64]uint32] // of PLDs with settings, by key
	saved   *state.Saved
	opt     SiteOptions
}

// SiteOptions are the options of Sites.
type SiteOptions struct {
	Assets     bool // parts of pages are fetched
	Politeness *options.Politeness
}

// NewSites returns Sites without settings.
func NewSites(saved *state.Saved, opt SiteOptions) *Sites { return &Sites{saved: saved, opt: opt} }

// Use puts settings in force. It returns the old ones and the number of PLDs whose fixed budget changed.
func (s *Sites) Use(set *sites.Set) (old *sites.Set, changed int) {
	var budgets *map[uint64]uint32
	if plds := set.Budgets(); len(plds) > 0 {
		byKey := make(map[uint64]uint32, len(plds))
		for pld, budget := range plds {
			byKey[s.saved.Hasher.PLDKey([]byte(pld))] = budget
		}
		budgets = &byKey
	}
	return s.Swap(set), differ(s.budgets.Swap(budgets), budgets)
}

// differ returns the number of keys whose values differ.
func differ(a, b *map[uint64]uint32) (n int) {
	var none map[uint64]uint32
	if a == nil {
		a = &none
	}
	if b == nil {
		b = &none
	}
	for key, v := range *a {
		if (*b)[key] != v {
			n++
		}
	}
	for key := range *b {
		if _, both := (*a)[key]; !both {
			n++
		}
	}
	return n
}

// Budget returns the budget that settings have fixed for a PLD, 0 for none.
func (s *Sites) Budget(pld uint64) uint32 {
	if b := s.budgets.Load(); b != nil {
		return (*b)[pld]
	}
	return 0
}

// HasBudgets reports whether settings have fixed the budget of any PLD.
func (s *Sites) HasBudgets() bool { return s.budgets.Load() != nil }

// Of returns the settings of the site of a canonical URL; nil if it has none of its own.
func (s *Sites) Of(parts *weburl.Parts) *sites.Site {
	if set := s.Load(); set != nil {
		return set.Lookup(parts)
	}
	return nil
}

// TooDeep reports whether a queued URL is beyond the depth that the settings of its site allow now: they may
// have changed since the URL was found. The parts of pages may be deeper than pages (admit.AssetHops).
func (s *Sites) TooDeep(rec *weburl.Record) bool {
	set := s.Load()
	if set == nil || rec.Depth == 0 {
		return false
	}
	site := set.LookupURL(rec.URL)
	if site == nil || site.Has&sites.HasMaxDepth == 0 || site.MaxDepth < 0 {
		return false
	}
	most := site.MaxDepth
	if s.opt.Assets {
		most += admit.AssetHops
	}
	return int(rec.Depth) > most
}

// Terms returns the delays of a host's site; nil if it has none of its own. They are the same for all URLs of the
// host.
func (s *Sites) Terms(host []byte) *polite.Terms {
	set := s.Load()
	if set == nil {
		return nil
	}
	site := set.Host(host)
	if site == nil || site.Has&(sites.HasDelay|sites.HasRate|sites.HasOwner) == 0 {
		return nil
	}
	t := &polite.Terms{HostDelay: -1, PLDDelay: -1, Own: site.Owner, Connections: site.Connections}
	if site.Has&sites.HasDelay != 0 {
		t.HostDelay = site.Delay
	}
	if site.Has&sites.HasRate != 0 {
		if site.PLDRate > 0 {
			t.PLDDelay = sites.Gap(site.PLDRate)
		}
		if site.HostRate > 0 {
			t.HostLeast = sites.Gap(site.HostRate)
		}
	}
	return t
}

// Connection returns which of its host's connections a URL uses: 0 except on sites with several.
func (s *Sites) Connection(host, url []byte) uint8 {
	if n := s.Connections(host); n > 1 {
		return uint8(s.saved.Hasher.URLKey(url) % uint64(n))
	}
	return 0
}

// Connections returns how many connections to a host may be open at once.
func (s *Sites) Connections(host []byte) int {
	if set := s.Load(); set != nil {
		if site := set.Host(host); site != nil && site.Has&sites.HasConnections != 0 {
			return site.Connections
		}
	}
	return 1
}

// OneTurn is the least lifetime of a robots.txt: a little more than the longest delay between two requests
// to its host, which has this Crawl-delay. Its own request starts a delay; if it expired before the end of that delay,
// no page could ever be fetched.
func (s *Sites) OneTurn(host []byte, crawlDelay time.Duration) time.Duration {
	turn := min(crawlDelay, s.opt.Politeness.MaxCrawlDelay)
	turn = max(turn, s.opt.Politeness.HostDelay, s.opt.Politeness.ServerDelay, s.opt.Politeness.PLDDelay)
	if t := s.Terms(host); t != nil {
		turn = max(turn, t.HostDelay, t.HostLeast, t.PLDDelay)
	}
	return turn + turn/16
}
