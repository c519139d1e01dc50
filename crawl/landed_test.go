package crawl

import (
	"sync/atomic"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// TestOneConnectionPerHost: a host has one connection and one request at a time, by the log of the servers,
// when no delay holds the next request back and pages land while the next request is under way. A host that
// closes an idle connection may see the next one before it notices (simweb allows a second).
func TestOneConnectionPerHost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.CrawlDelay = 4, 8, 2000, 0
		})
		atOnce(&opt)
		opt.Budgets.QueuePages = Unlimited
		var landed atomic.Int64
		opt.tests.hook = func(place string) {
			if place == "landed" {
				landed.Add(1)
			}
		}
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
		}
		checkFetched(t, web, &opt) // MaxBusy and MaxConns of each host: checkDelays
		checkBalanced(t, fs, opt.Disk.Dirs)
		t.Logf("%d pages landed", landed.Load()) // how many depends on the load of the machine
		if landed.Load() < 20 {
			t.Errorf("%d pages landed, want at least 20", landed.Load())
		}
	})
}

// TestMaxPagesWhilePagesLand: --max-pages is exact, although fetchers take their next grants themselves.
func TestMaxPagesWhilePagesLand(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.CrawlDelay = 4, 8, 2000, 0 })
		opt := simOptions(t, web, memfs.New(*seedFlag))
		atOnce(&opt)
		opt.Budgets.QueuePages, opt.Limits.MaxPages = Unlimited, 500
		var landed atomic.Int64
		opt.tests.hook = func(place string) {
			if place == "landed" {
				landed.Add(1)
			}
		}
		res := mustRun(t, t.Context(), opt)
		pages := res.Snapshot.Count(state.CountPages)
		if res.Stop != StopPages || pages != opt.Limits.MaxPages || landed.Load() < 5 {
			t.Errorf("stopped by %q with %d pages, %d of them landed; want %q with %d, at least 5 landed",
				res.Stop, pages, landed.Load(), StopPages, opt.Limits.MaxPages)
		}
	})
}
