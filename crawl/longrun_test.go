package crawl

import (
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// TestRobotsAreRefreshed: a crawl so slow that robots.txt expires must request it again after a day, under
// the same politeness as a page.
func TestRobotsAreRefreshed(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		web, _, opt := smallCrawl(t, func(o *simweb.Options) {
			o.Pages, o.Hosts, o.PLDs, o.IPs = 300, 6, 3, 4
		})
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 30*time.Minute, 30*time.Minute
		opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin = time.Minute, time.Minute
		opt.Disk.CheckpointEvery = time.Hour
		opt.Limits.Linger = 24 * time.Hour
		res := mustRun(t, t.Context(), opt)
		checkFetched(t, web, &opt)
		snap := web.Log().Snapshot()
		days := res.Snapshot.Elapsed.Hours() / 24
		refreshed := 0
		for host, tr := range snap.Hosts {
			if tr.Robots > 1 {
				refreshed++
			}
			if float64(tr.Robots) > 4*(days+2) {
				t.Errorf("%s: robots.txt was requested %d times in %.1f days", host, tr.Robots, days)
			}
		}
		t.Logf("%.1f days, requested robots.txt again at %d of %d hosts", days, refreshed, len(snap.Hosts))
		if days < 1 || refreshed == 0 {
			t.Errorf("%.1f days, %d robots.txt refreshed: too few for this test", days, refreshed)
		}
	})
}

// TestDepthLimit: the crawl must fetch no page deeper than the depth limit.
func TestDepthLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, err := simweb.New(simweb.Options{Seed: *seedFlag, ChainPages: 100, LogRequests: 1000})
		must(t, err)
		for _, depth := range []int{0, 3} {
			opt := simOptions(t, web, memfs.New(*seedFlag))
			opt.Disk.Dirs = []string{"x"}
			opt.Limits.MaxDepth = depth
			res := mustRun(t, t.Context(), opt)
			if got := res.Snapshot.Count(state.CountPages); got != int64(depth+1) {
				t.Errorf("depth %d: %d pages", depth, got)
			}
		}
	})
}

// TestScopeHost: --scope=host must keep the crawl on the seed's host, its www form, and the targets of its
// redirects.
func TestScopeHost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		seed := web.Seeds()[0]
		host := strings.TrimSuffix(strings.SplitN(seed, "://", 2)[1], "/")
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.Admission.Scope = state.ScopeHost
		opt.Admission.SeedLines = []string{seed}
		res := mustRun(t, t.Context(), opt)
		want, err := web.ExpectedFrom("drumbeat", []string{seed}, func(h, _ string) bool {
			return strings.TrimPrefix(h, "www.") == strings.TrimPrefix(host, "www.")
		})
		must(t, err)
		snap := web.Log().Snapshot()
		for url := range want.FetchedURLs() {
			if snap.Fetches[url] != 1 {
				t.Errorf("fetched %d times: %s", snap.Fetches[url], url)
			}
		}
		for url := range snap.Fetches {
			if ok, _, _ := want.Has(url); !ok {
				t.Errorf("fetched outside of the scope: %s", url)
			}
		}
		if res.Snapshot.Count(state.CountLinksScope) == 0 || want.Fetched < 3 {
			t.Errorf("%d links outside of the scope, %d URLs inside: too few for this test",
				res.Snapshot.Count(state.CountLinksScope), want.Fetched)
		}
	})
}

// TestBareHosts: for a seed without scheme the crawl must try https first, then http.
func TestBareHosts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.HTTPS, o.AltPort = 0.5, 0 })
		var http, https string
		for _, h := range web.Hosts() {
			switch root := web.Root(h); {
			case web.RobotsVariant(h) != "404":
			case strings.HasPrefix(root, "https://") && https == "":
				https = h
			case strings.HasPrefix(root, "http://") && http == "":
				http = h
			}
		}
		if http == "" || https == "" {
			t.Skipf("no host of each kind: %q, %q", http, https)
		}
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.Admission.SeedLines = []string{http, https}
		opt.Limits.MaxDepth = 0
		mustRun(t, t.Context(), opt)
		snap := web.Log().Snapshot()
		for _, url := range []string{"http://" + http + "/", "https://" + https + "/"} {
			if snap.Fetches[url] != 1 {
				t.Errorf("%s was fetched %d times", url, snap.Fetches[url])
			}
		}
	})
}
