package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// hosterResult is what a crawl of a web with a hoster fetched.
type hosterResult struct {
	parts    map[string]int // pages of the hoster by simweb's part
	ordinary int            // pages of other PLDs that are of no farm
	elapsed  time.Duration
}

// blogs returns the share of the hoster's pages that are of blogs, in percent.
func (r *hosterResult) blogs() float64 {
	all := 0
	for _, n := range r.parts {
		all += n
	}
	return 100 * float64(r.parts["blog"]) / float64(max(1, all))
}

// add adds the pages of another crawl.
func (r *hosterResult) add(s hosterResult) {
	for part, n := range s.parts {
		r.parts[part] += n
	}
	r.ordinary += s.ordinary
}

// odds is the number of pages of blogs for each page of the farm.
func (r *hosterResult) odds() float64 {
	return float64(r.parts["blog"]) / float64(max(1, r.parts["farm"]))
}

// crawlHoster crawls a web of 300 PLDs with scenarios until it has fetched a number of pages.
func crawlHoster(t *testing.T, pages int64, seed uint64, scenarios []string,
	by state.BudgetParts) (res hosterResult) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs, o.SeedURLs = 300, 400, int(3*pages), 400, 20
			o.LogRequests, o.Skew = 1<<17, 3
			o.Seed += seed
			o.Hostile = scenarios
			if len(scenarios) > 1 {
				o.Bought = 5
			}
		})
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.Admission.SeedLines = append(web.Seeds(), web.HosterSeeds()...)
		opt.Limits.MaxPages, opt.Output.Store, opt.Output.CrawlLog, opt.Disk.CheckpointEvery, opt.Limits.MaxTime =
			pages, false, state.LogOff, time.Minute, 10*time.Hour
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = 8*time.Second, 200*time.Millisecond, time.Millisecond, time.Millisecond
		opt.Budgets.QueuePages, opt.Budgets.Default, opt.Budgets.Max, opt.Budgets.Parts = Unlimited, 10, 50, by
		if scenarios[0] == "hoster-directories" { // else the delay of its one host would limit it, not the budget
			host := weburl.Split([]byte(web.HosterSeeds()[0])).Host
			writeRules(t, opt.Disk.FS, "sites.toml", fmt.Sprintf("[[site]]\nhost = %q\ndelay = \"1s\"", host))
			opt.Admission.Sites = "sites.toml"
		}
		run := mustRun(t, t.Context(), opt)
		res.elapsed, res.parts = run.Snapshot.Elapsed, map[string]int{}
		for _, q := range web.Log().Snapshot().Requests {
			part := web.HosterPart(q.URL)
			switch {
			case q.Robots:
			case part != "":
				res.parts[part]++
			case q.Known:
				res.ordinary++
			}
		}
		t.Logf("%v, by %q: stopped by %q after %v; of the hoster %v, blogs %.1f %%; ordinary %d; places %v",
			scenarios, by, run.Stop, res.elapsed, res.parts, res.blogs(), res.ordinary, run.Snapshot.Places)
	})
	return res
}

// TestHoster measures the effect of budgets of hosts and of directories on a hoster: a PLD with blogs that others link
// to, and with a farm of hosts, or of directories, that link to each other, alone or with links from a farm of PLDs.
// The blogs must get most of the budget, and the other PLDs must lose nothing.
func TestHoster(t *testing.T) {
	t.Parallel()
	notShort(t)
	pages, seeds := int64(12_000), uint64(2)
	cases := []struct {
		by        state.BudgetParts
		scenarios []string
		least     float64 // share of the blogs, in percent
	}{{state.ByHosts, []string{"hoster"}, 45}, {state.ByDirectories, []string{"hoster-directories"}, 25}}
	if *longRuns {
		pages, seeds = 24_000, 3
		for _, c := range cases[:2] {
			c.scenarios = append(c.scenarios, "link-farm")
			cases = append(cases, c)
		}
	}
	for _, c := range cases {
		pages, seeds := pages, seeds
		if c.by == state.ByDirectories && !*longRuns {
			pages, seeds = pages/2, 1
		}
		off, on := hosterResult{parts: map[string]int{}}, hosterResult{parts: map[string]int{}}
		for seed := range seeds {
			off.add(crawlHoster(t, pages, seed, c.scenarios, state.ByPLDs))
			on.add(crawlHoster(t, pages, seed, c.scenarios, c.by))
		}
		// In the short form two crawls have some 300 pages of the hoster, so 50 % are 50 ± 3, and odds differ by a
		// fifth. Beside directories the main host's pages have more, since links to it are links to the PLD, and a
		// crawl in which the farm's directories are found long before the links to blogs gives it most: 24,000 pages
		// and three crawls show the effect, fewer do not.
		if c.by == state.ByDirectories && !*longRuns {
			t.Logf("%v: blogs get %.1f %%, without %.1f %%", c.scenarios, on.blogs(), off.blogs())
		} else if on.blogs() < c.least || on.odds() < 2*off.odds() {
			t.Errorf("%v: with budgets of %s blogs get %.1f %% of the hoster's pages, %.2f for each of the farm; "+
				"without %.1f %%, %.2f; want at least %v %%, and twice as many for each of the farm",
				c.scenarios, c.by, on.blogs(), on.odds(), off.blogs(), off.odds(), c.least)
		}
		// Beside a farm of PLDs the figures of two crawls differ more, since chance decides how much that one gets.
		if len(c.scenarios) == 1 && float64(on.ordinary) < 0.9*float64(off.ordinary) {
			t.Errorf("%v: %d pages of other PLDs with budgets of %s, %d without", c.scenarios, on.ordinary, c.by,
				off.ordinary)
		}
	}
}

// TestHosterCoverage: budgets of hosts and of directories delay pages, but lose none. In the web a PLD has 25 hosts on
// average, with links from other PLDs and without, so that of several PLDs the budgets are divided.
func TestHosterCoverage(t *testing.T) {
	t.Parallel()
	for _, by := range []state.BudgetParts{state.ByPLDs, state.ByHosts, state.ByDirectories} {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.IPs = 12, 300, 3000, 200 })
			fs := memfs.New(*seedFlag)
			opt := simOptions(t, web, fs)
			opt.Budgets.QueuePages, opt.Budgets.Default, opt.Budgets.Parts = Unlimited, 10, by
			run := mustRun(t, t.Context(), opt)
			if run.Stop != StopDone {
				t.Errorf("budgets of %s: stopped by %q", by.Name(), run.Stop)
			}
			checkFetchedAtLeastOnce(t, web)
			n := divided(t, fs, opt.Disk.Dirs)
			if by != state.ByPLDs && n < 3 || by == state.ByPLDs && n > 0 {
				t.Errorf("budgets of %s: %d of 12 are divided", by.Name(), n)
			}
			t.Logf("budgets of %s: %v, %d of 12 divided", by.Name(), run.Snapshot.Elapsed, n)
		})
	}
}

// divided returns the number of PLDs whose budgets are divided.
func divided(t *testing.T, fs *memfs.FS, dirs []string) (n int) {
	t.Helper()
	r, err := state.OpenReader(fs, dirs, nil)
	must(t, err)
	defer r.Close()
	st, err := state.Part[star.State](r.Manifest, state.NameStar)
	must(t, err)
	must(t, star.WalkPLDs(r.Set, state.NameStar, st, func(_ uint64, p star.PLD) error {
		if _, divided := p.Hosts(); divided {
			n++
		}
		return nil
	}))
	return n
}

// TestHosterResumed: the option is fixed when a crawl begins, and only fits a crawl of all sites on one node.
func TestHosterResumed(t *testing.T) {
	for _, by := range []state.BudgetParts{state.ByHosts, state.ByDirectories} {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, nil)
			opt := simOptions(t, web, memfs.New(*seedFlag))
			opt.Budgets.Parts, opt.Limits.MaxPages = by, 20
			mustRun(t, t.Context(), opt)
			opt.Limits.MaxPages = 0
			for _, other := range []state.BudgetParts{state.ByPLDs, state.ByHosts, state.ByDirectories} {
				opt.Budgets.Parts = other
				want := fmt.Sprintf("budgets were of %s, are of %s", by.Name(), other.Name())
				if other == by {
					continue
				}
				if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("resumed with other budgets: %v; want %q", err, want)
				}
			}
			opt.Budgets.Parts = by
			if run := mustRun(t, t.Context(), opt); run.Stop != StopDone {
				t.Errorf("resumed with budgets of %s: stopped by %q", by, run.Stop)
			}
		})
	}
	opt := Options{}
	opt.Budgets.Parts, opt.Admission.Scope = state.ByDirectories, state.ScopeHost
	if err := opt.Validate(); err == nil || !strings.Contains(err.Error(), "budgets of directories need scope all") {
		t.Errorf("budgets of directories with scope host: %v", err)
	}
	opt.Cluster, opt.Admission.Scope, opt.Budgets.Parts = &Cluster{}, "", state.ByHosts
	if err := opt.Validate(); err == nil || !strings.Contains(err.Error(), "does not support budgets of hosts") {
		t.Errorf("budgets of hosts in a cluster: %v", err)
	}
}
