package erase_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
	"drumbeat/weburl"
)

// ordered is a crawl that was stopped while URLs of all hosts waited that the operator has enqueued: new ones, such
// as waited already, and such as were fetched.
func ordered(t *testing.T) *world {
	web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.CrawlDelay = 1500, 0 })
	fs := memfs.New(*testworld.Seed)
	opt := crawltest.SimOptions(t, web, fs)
	opt.Budgets.QueuePages, opt.Order.StockTarget = crawl.Unlimited, 100
	opt.Observe.Control = new(crawl.Control)
	ended := make(chan error, 1)
	go func() {
		_, err := crawl.Run(t.Context(), opt)
		ended <- err
	}()
	<-opt.Observe.Control.Started()
	pages := func() int64 {
		s, err := opt.Observe.Control.Exact()
		must(t, err)
		return s.Count(state.CountPages)
	}
	urls := slices.Sorted(web.Expected("drumbeat").FetchedURLs())
	for turn := range 6 {
		for pages() < int64(40*(turn+1)) {
			<-time.After(10 * time.Millisecond)
		}
		var batch []string
		for i := turn; i < len(urls) && len(batch) < 60; i += 17 {
			batch = append(batch, urls[i])
		}
		_, _, err := opt.Observe.Control.Enqueue(t.Context(), "test", batch)
		must(t, err)
	}
	_, err := opt.Observe.Control.Make(t.Context(), changes.Change{Op: changes.OpStop})
	must(t, err)
	must(t, <-ended)
	opt.Observe.Control = nil
	return &world{fs: fs, opt: opt, web: web}
}

// TestEnqueued: of URLs that the operator has enqueued, an erasure takes both records, or the only one. The accounts
// balance, and the others are fetched.
func TestEnqueued(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := ordered(t)
		r, m := w.open(t)
		must(t, r.Unlock())
		if m.Accounts.Orders.N < 20 {
			t.Fatalf("%d orders wait", m.Accounts.Orders.N)
		}
		left := m.Accounts.Orders.N
		hosts := w.read(t).hosts()
		for _, host := range hosts[:4] {
			before := w.read(t)
			_, err := erase.Run(w.options(erase.Source{Hosts: []string{host}}))
			must(t, err)
			w.check(t, before, hostOf(host), "//"+host+"/")
		}
		r, m = w.open(t)
		data, err := disk.ReadTail(r.Set, m.Orders)
		must(t, errors.Join(err, r.Unlock()))
		inTable := int64(0)
		must(t, state.EachOrder(data, func(o *state.Order) error {
			if !o.Own && !o.Done {
				inTable++
			}
			return nil
		}))
		if inTable != m.Accounts.Orders.N {
			t.Errorf("the table has %d orders, the account %d", inTable, m.Accounts.Orders.N)
		}
		if m.Accounts.Orders.N == 0 || m.Accounts.Orders.N >= left {
			t.Errorf("of %d orders %d wait", left, m.Accounts.Orders.N)
		}
		fetched := w.web.Log().Snapshot().Fetches
		w.opt.Limits.Linger = 6 * time.Hour
		res, err := crawl.Run(t.Context(), w.opt)
		must(t, err)
		if res.Stop != crawl.StopDone {
			t.Errorf("ended: %s", res.Stop)
		}
		for url, n := range w.web.Log().Snapshot().Fetches {
			if host := string(weburl.Split([]byte(url)).Host); n > fetched[url] && slices.Contains(hosts[:4], host) {
				t.Errorf("%s was fetched again", url)
			}
		}
		r, m = w.open(t)
		must(t, r.Unlock())
		if rep := testworld.Deep(t, w.fs, w.opt.Disk.Dirs); !rep.Balanced() || m.Accounts.Orders.N > 0 {
			t.Errorf("at the end %d orders: %q, %v", m.Accounts.Orders.N, rep.Bad, rep.Damages)
		}
	})
}
