package simweb

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("seed", 1, "seed of the webs in the tests")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a web with a share of every feature.
func small(seed uint64) Options {
	o := Defaults(seed)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.PageBytes = 40, 150, 2500, 30, 2000
	o.HTTPS, o.AltPort, o.IDN, o.MultiIP, o.CNAME = 0.2, 0.1, 0.2, 0.2, 0.2
	o.Page = PageMix{
		NotFound: 0.08, ServerError: 0.04, Redirect: 0.05, RedirectCross: 0.05, RedirectChain: 0.04,
		RedirectLoop: 0.04, NonHTML: 0.15, Gzip: 0.3, Chunked: 0.3,
	}
	o.Link = LinkMix{
		Relative: 0.4, AbsolutePath: 0.2, ProtocolRelative: 0.2, Duplicate: 0.1, Fragment: 0.2, UpperHost: 0.2,
		DefaultPort: 0.2, DotSegments: 0.2, Entities: 0.2, Odd: 0.1, OtherTags: 0.2, BaseTag: 0.2, Refresh: 0.2,
		Noise: 0.5, Cross: 0.3,
	}
	o.Robots = RobotsMix{
		AllowAll: 0.08, Prefix: 0.08, Wildcard: 0.1, OwnGroup: 0.1, Tie: 0.1, Forbidden: 0.05, ServerError: 0.05,
		DisallowAll: 0.05, RedirectPath: 0.1, RedirectHost: 0.1, CrawlDelay: 0.05, BOM: 0.08,
	}
	o.Dead = DeadHosts{NXDomain: 5, ServFail: 3, Refused: 4, Links: 0.1}
	o.ChainPages, o.BigPages, o.DNSTruncate = 20, 300, 0.2
	return o
}

func mustNew(t testing.TB, o Options) *Web {
	t.Helper()
	w, err := New(o)
	if err != nil {
		t.Fatalf("New(seed %d): %v", o.Seed, err)
	}
	return w
}

func mustStart(t testing.TB, w *Web, o ServerOptions) *Server {
	t.Helper()
	s, err := w.Start(context.Background(), o)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// compare reports the first few differences of two sets.
func compare(t *testing.T, what string, got map[string]bool, want []string) {
	t.Helper()
	bad := 0
	set := map[string]bool{}
	for _, u := range want {
		set[u] = true
		if !got[u] && bad < 5 {
			bad++
			t.Errorf("%s: got no %s, want it", what, u)
		}
	}
	for _, u := range slices.Sorted(maps.Keys(got)) {
		if !set[u] && bad < 10 {
			bad++
			t.Errorf("%s: got %s, want none", what, u)
		}
	}
	if len(got) != len(want) || len(set) != len(want) {
		t.Errorf("%s: got %d URLs, want %d (%d distinct)", what, len(got), len(want), len(set))
	}
}

// TestExpectedIsWhatAnIndependentWalkerFinds: the expected sets, computed from integers, equal those that a
// crawler with independent parsers finds over real sockets.
func TestExpectedIsWhatAnIndependentWalkerFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, agent := range []string{"drumbeat", "otherbot2"} {
		t.Run("agent="+agent, func(t *testing.T) {
			w := mustNew(t, small(*seedFlag))
			s := mustStart(t, w, ServerOptions{})
			k := newWalker(t, s, agent)
			if err := k.walk(w.Seeds()); err != nil {
				t.Fatalf("seed %d: walk: %v", *seedFlag, err)
			}
			e := w.Expected(agent)
			t.Logf("seed %d: %d fetched %v, %d refused, %d dead", *seedFlag, e.Fetched, e.ByKind, e.Refused, e.Dead)
			compare(t, "fetched", k.fetched, slices.Collect(e.FetchedURLs()))
			compare(t, "refused", k.refused, slices.Collect(e.RefusedURLs()))
			compare(t, "dead", k.dead, slices.Collect(e.DeadURLs()))
			if e.Fetched != len(k.fetched) || e.Refused != len(k.refused) || e.Dead != len(k.dead) {
				t.Errorf("counts: got %d, %d, %d; want %d, %d, %d",
					e.Fetched, e.Refused, e.Dead, len(k.fetched), len(k.refused), len(k.dead))
			}
			if err := w.Log().Snapshot().CheckOnce(); err != nil {
				t.Error(err)
			}
			if err := w.Log().Snapshot().CheckFetched(e, 1); err != nil {
				t.Error(err)
			}
			if err := w.Log().Snapshot().CheckRobotsFirst(); err != nil {
				t.Error(err)
			}
			hosts := HostCount{}
			for _, c := range e.ByHost() {
				hosts.Fetched += c.Fetched
				hosts.Refused += c.Refused
				hosts.Dead += c.Dead
			}
			if want := (HostCount{e.Fetched, e.Refused, e.Dead}); hosts != want {
				t.Errorf("sum of ByHost: got %v, want %v", hosts, want)
			}
		})
	}
}

func TestPagesAreAPureFunctionOfSeedAndURL(t *testing.T) {
	a, b := mustNew(t, small(*seedFlag)), mustNew(t, small(*seedFlag))
	other := mustNew(t, small(*seedFlag+1))
	urls := slices.Collect(a.Expected("drumbeat").FetchedURLs())
	differ := 0
	for i := range urls {
		u := urls[len(urls)-1-i] // another order than the web's own
		p, ok := a.Page(u)
		q, _ := b.Page(u)
		if !ok || !p.Known || p.Status != q.Status || p.Location != q.Location || !bytes.Equal(p.Body, q.Body) {
			t.Fatalf("%s: got two answers %v, want one", u, ok)
		}
		if o, ok := other.Page(u); !ok || !bytes.Equal(p.Body, o.Body) {
			differ++
		}
	}
	for _, u := range urls {
		p, _ := a.Page(u)
		q, _ := b.Page(u)
		if !bytes.Equal(p.Body, q.Body) {
			t.Fatalf("%s: got another answer the second time", u)
		}
	}
	if differ < len(urls)/2 {
		t.Errorf("another seed: got %d of %d pages different, want most", differ, len(urls))
	}
}

func TestDefaultWebIsWellConnectedAndSkewed(t *testing.T) {
	w := mustNew(t, Defaults(*seedFlag))
	start := time.Now()
	e := w.Expected("drumbeat")
	took := time.Since(start)
	t.Logf("seed %d: %d fetched %v, %d refused, %d PLDs, in %v",
		*seedFlag, e.Fetched, e.ByKind, e.Refused, len(e.ByPLD), took)
	if e.Fetched < 20000 || e.Fetched > 23000 {
		t.Errorf("fetched: got %d, want about 20,000", e.Fetched)
	}
	if len(e.ByPLD) < 490 {
		t.Errorf("PLDs fetched from: got %d, want nearly all of 500", len(e.ByPLD))
	}
	edges := map[int32]map[int32]bool{} // in-neighbours of PLDs
	var links []node
	for i := range w.hosts {
		for page := range w.hosts[i].pages {
			n := node{host: int32(i), page: page}
			links = w.appendTargets(links[:0], n, w.kind(&w.hosts[i], page))
			for _, l := range links {
				if from, to := w.hosts[i].pld, w.hosts[l.host].pld; from != to {
					if edges[to] == nil {
						edges[to] = map[int32]bool{}
					}
					edges[to][from] = true
				}
			}
		}
	}
	var degrees []int
	for _, from := range edges {
		degrees = append(degrees, len(from))
	}
	slices.Sort(degrees)
	top, median := degrees[len(degrees)-1], degrees[len(degrees)/2]
	t.Logf("PLD in-degree: largest %d, median %d", top, median)
	if top < 8*median || median == 0 {
		t.Errorf("PLD in-degree: got largest %d and median %d, want a power law", top, median)
	}
}

func TestEveryKindOfHostAndURLOccurs(t *testing.T) {
	w := mustNew(t, small(*seedFlag))
	e := w.Expected("drumbeat")
	for k := range NumKinds {
		if e.ByKind[k] == 0 {
			t.Errorf("kind %s: got no URL, want some", k)
		}
	}
	robots := map[string]int{}
	for _, h := range w.Hosts() {
		robots[w.RobotsVariant(h)]++
	}
	for _, name := range robotsNames {
		if robots[name] == 0 {
			t.Errorf("robots %s: got no host, want some", name)
		}
	}
}

func TestOptionsAreRefusedWithAllFaults(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing":     {},
		"no PLDs":     {Hosts: 3},
		"more PLDs":   {Hosts: 3, PLDs: 4},
		"share":       {Hosts: 3, PLDs: 3, HTTPS: 1.5},
		"kinds":       {Hosts: 3, PLDs: 3, Page: PageMix{NotFound: 0.5, NonHTML: 0.5}},
		"robots":      {Hosts: 3, PLDs: 3, Robots: RobotsMix{Prefix: 0.6, BOM: 0.6}},
		"neg. number": {Hosts: 3, PLDs: 3, Pages: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

func TestManyPagesNeedNoStorage(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	o := Defaults(*seedFlag)
	o.Pages = 200_000
	start := time.Now()
	w := mustNew(t, o)
	made := time.Since(start)
	e := w.Expected("drumbeat")
	t.Logf("made in %v, expected %d in %v", made, e.Fetched, time.Since(start)-made)
	if e.Fetched < 180_000 {
		t.Errorf("fetched: got %d, want about 200,000", e.Fetched)
	}
}
