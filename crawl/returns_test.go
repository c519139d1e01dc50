package crawl

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/pace"
	"drumbeat/state"
)

// TestReturnsWhileBeastHasURLs: URLs that return, such as retries, find room in the stock while BEAST has URLs and
// fetching is the limit. In virtual time a page takes no time, so the stock would never be full: the time is real. But
// the test counts requests between a failure and its retry, not seconds: on a slow machine they are fewer.
func TestReturnsWhileBeastHasURLs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 3 s")
	}
	const hosts, each, failing, most = 300, 200, 10, 12_000
	var seeds []string
	for i := range each {
		for h := range hosts {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/%d", h, i))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &tinyWeb{}
	all, failedAt, gaps := 0, map[string]int{}, []int(nil)
	w.Serve = func(host, path string) answer {
		if path == "/robots.txt" {
			return noRobots
		}
		all++
		at, failed := failedAt[host+path]
		switch {
		case failed:
			if gaps = append(gaps, all-at); len(gaps) == failing {
				cancel()
			}
		case all >= 2000 && all%100 == 0 && len(failedAt) < failing:
			failedAt[host+path] = all
			return answer{503, "", ""}
		}
		return answer{200, "", "x"}
	}
	opt := tinyOptions(t, w, memfs.New(*seedFlag), seeds...)
	atOnce(&opt)
	opt.Network.Connections, opt.Order.StockTarget, opt.Health.Backoff, opt.Health.BackoffMax, opt.Output.Store = 64,
		1000, 50*time.Millisecond, 100*time.Millisecond, false
	opt.Budgets.QueuePages, opt.Budgets.Default, opt.Budgets.Max = Unlimited, each, each
	opt.Network.Rate, opt.Limits.MaxPages = schedule(t, "1500", pace.Pages), most
	res := mustRun(t, ctx, opt)
	slices.Sort(gaps)
	t.Logf("%d requests, %d URLs left in BEAST; requests between failures and retries: %d", all,
		res.Snapshot.Place(state.PlaceBeast), gaps)
	if len(gaps) < failing {
		t.Errorf("%d of %d failed URLs came back within %d requests, while BEAST had others", len(gaps),
			len(failedAt), all)
	}
}
