package crawl

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk/memfs"
	"drumbeat/internal/pace"
	"drumbeat/polite"
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
	opt.Network.Connections, opt.Order.StockTarget, opt.Health.Backoff, opt.Health.BackoffMax, opt.Output.Store = 64, 1000, 50*time.Millisecond, 100*time.Millisecond, false
	opt.Budgets.QueuePages, opt.Budgets.Default, opt.Budgets.Max = Unlimited, each, each
	opt.Network.Rate, opt.Limits.MaxPages = schedule(t, "1500", pace.Pages), most
	res := mustRun(t, ctx, opt)
	slices.Sort(gaps)
	t.Logf("%d requests, %d URLs left in BEAST; requests between failures and retries: %d", all, res.Snapshot.Place(state.PlaceBeast), gaps)
	if len(gaps) < failing {
		t.Errorf("%d of %d failed URLs came back within %d requests, while BEAST had others", len(gaps), len(failedAt), all)
	}
}

// TestStockShares: BEAST leaves a sixteenth of the stock to URLs that return. After four of them in a row it is BEAST's
// turn, if it has URLs. Either has room in the smallest stock.
func TestStockShares(t *testing.T) {
	for _, c := range []struct {
		target           int
		stock, beast     int64
		returned         int
		fresh, returning bool
	}{
		{160, 149, 9, 0, true, true},
		{160, 150, 9, 0, false, true}, // the share of what returns
		{160, 159, 9, 3, false, true},
		{160, 160, 9, 0, false, false},
		{160, 150, 9, 4, false, false}, // BEAST's turn, as soon as there is room for it
		{160, 149, 9, 4, true, true},
		{160, 150, 0, 4, false, true}, // BEAST has none
		{1, 0, 9, 0, true, true},
		{1, 1, 9, 0, false, false},
		{2, 1, 9, 0, false, true},
	} {
		e := &engine{Run: account.New(nil, nil, nil), opt: Options{Order: OrderOptions{StockTarget: c.target}}, polite: polite.New(polite.Options{}, time.Now())}
		e.Accounts.Do(func(a *state.Accounts) { a.Places[state.PlaceRAM].N, a.Places[state.PlaceBeast].N = c.stock, c.beast })
		s := &stockKeeper{engine: e}
		for range c.returned {
			s.noteReturn()
		}
		if fresh, returning := !s.stocked(), s.roomForReturning(); fresh != c.fresh || returning != c.returning {
			t.Errorf("%+v: room for new URLs %v, for returning ones %v", c, fresh, returning)
		}
		s.noteFresh()
		if returning := s.roomForReturning(); returning != (c.stock < int64(c.target)) {
			t.Errorf("%+v: after a new URL, room for returning ones %v", c, returning)
		}
	}
}
