package seen_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/node"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/roomtest"
	"drumbeat/crawl/seen"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/linktrace"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// room is the room with the world around it. It stands for STAR.
type room struct {
	*roomtest.World
	stage  *seen.Stage
	drains bool
	orders *orders.Table

	mu        sync.Mutex // guards the fields below
	urls      []string   // that STAR got
	edges     []star.Edge
	hostLinks []star.HostLink
}

func (r *room) CheckOf(rec *weburl.Record, aux []byte) star.CheckTuple {
	return star.CheckTuple{Aux: aux}
}
func (r *room) ChecksPending() bool { return false }
func (r *room) Scanning() bool      { return false }

func (r *room) CheckAll(_ *account.Tx, urls []star.CheckTuple) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range urls {
		var rec weburl.Record
		if err := rec.Decode(u.Aux); err != nil {
			return err
		}
		r.urls = append(r.urls, string(rec.URL))
	}
	return nil
}

func (r *room) AddHostLinks(links []star.HostLink) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hostLinks = append(r.hostLinks, links...)
	return nil
}

func (r *room) AddEdges(edges []star.Edge) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.edges = append(r.edges, edges...)
	return nil
}

// adopt takes new URLs that were enqueued.
func (r *room) adopt(tx *account.Tx, rec *weburl.Record) (ok bool, _ error) {
	_, ok = r.orders.Adopt(r.Key(string(rec.URL)))
	if ok {
		tx.Adopt(r.Key(string(rec.URL)))
	}
	return ok, nil
}

// open opens the room at the last checkpoint of w.
func open(w *roomtest.World, cacheBytes int64, change func(*seen.Options)) *room {
	r := &room{World: w, orders: orders.New()}
	w.Plan.CacheBytes, w.Plan.NameCacheBytes = cacheBytes, 1<<16
	w.Links.Cached = cacheBytes > 0
	opt := seen.Options{Log: w.Log, Dirs: w.Saved.Set.Paths, Plan: &w.Plan, Links: w.Links,
		Drains: func() bool { return r.drains }}
	if change != nil {
		change(&opt)
	}
	r.stage = seen.New(w.Run, w.Saved, opt, seen.Needs{Orders: r.orders, Sketches: observe.NewSketches(),
		Node: node.New(w.Run, w.Saved, node.Options{}, nil, w.Space), Passes: w.Passes, Space: w.Space})
	r.stage.Wire(seen.Others{Budgets: r, AdoptOrder: r.adopt, LogSeed: w.LogSeed})
	r.stage.OpenCaches()
	w.Open(nil, w.Drum(&r.stage.URLSeen, r.stage.SeenStore()), w.Drum(&r.stage.Names, r.stage.NamesStore()))
	r.stage.OpenMerger()
	w.T.Cleanup(r.stage.Close)
	return r
}

// batch returns the links of a page.
func (r *room) batch(flags uint8, links ...string) *admit.Batch {
	b := admit.NewBatch(r.Links)
	b.Start([]byte("http://page.test/"), []byte("http://page.test/"), 1, flags, time.Unix(1e9, 0))
	for _, l := range links {
		b.Add([]byte(l))
	}
	return b
}

// send sends the links of a page in its transaction.
func (r *room) send(flags uint8, links ...string) {
	r.T.Helper()
	b := r.batch(flags, links...)
	r.Do(func(tx *account.Tx) error { return r.stage.SendLinks(b, tx) })
}

// pass runs a pass of both stores.
func (r *room) pass() {
	r.T.Helper()
	for _, pass := range []func() error{
		func() error { _, err := r.stage.URLSeen.Pass(r.T.Context(), true); return err },
		func() error { _, err := r.stage.Names.Pass(r.T.Context(), true); return err },
	} {
		must(r.T, pass())
	}
}

// want compares the URLs that STAR got, in any order, and the accounts.
func (r *room) want(when string, unique int64, urls ...string) {
	r.T.Helper()
	slices.Sort(r.urls)
	slices.Sort(urls)
	if a := r.Accounts.Copy(); !slices.Equal(r.urls, urls) || a.Unique.N != unique {
		r.T.Errorf("%s: STAR got %q, want %q; %d unique URLs, want %d", when, r.urls, urls, a.Unique.N,
			unique)
	}
}

// TestNewOnce: each new URL comes to STAR once, however often it is linked, with a cache and without one, and
// also after a cut, when the links that no checkpoint has come again.
func TestNewOnce(t *testing.T) {
	for _, cacheBytes := range []int64{0, 1 << 16} {
		r := open(roomtest.New(t, 100), cacheBytes, nil)
		a, b, c := "http://a.test/", "http://b.test/", "http://c.test/"
		r.send(0, a, b, a)
		r.Save()
		r.send(0, b, c)
		r = open(r.Cut(), cacheBytes, nil)
		r.pass()
		r.want("after the cut", 2, a, b)
		r.send(0, b, c) // the page is fetched again
		r.send(0, c, a)
		r.pass()
		r.want("in the end", 3, a, b, c)
		n := r.Accounts.Copy().Counters
		cached, checked := n[state.CountLinksCached], n[state.CountLinksChecked]
		if cached+checked != 7 || (cacheBytes > 0) != (cached > 0) {
			t.Errorf("cache of %d bytes: it dropped %d links, %d were checked; want 7 together", cacheBytes,
				cached, checked)
		}
		if names := r.Accounts.Copy().Names.N; names == 0 || names != r.stage.Names.Keys() {
			t.Errorf("%d names in the accounts, %d in the store", names, r.stage.Names.Keys())
		}
		r.Save()
		if r = open(r.Cut(), cacheBytes, nil); r.stage.URLSeen.Keys() != 3 {
			t.Errorf("%d URLs are known after another cut", r.stage.URLSeen.Keys())
		}
	}
}

// TestDrains: while the crawl drains, new links are counted and not queued, of pages, of other nodes, and of
// pages that waited for a verdict. Seeds are queued, past the cache.
func TestDrains(t *testing.T) {
	r := open(roomtest.New(t, 100), 1<<16, nil)
	held := r.stage.HeldLinks(r.batch(0, "http://held.test/"))
	r.send(0, "http://seed.test/") // in the cache
	r.drains = true
	r.send(0, "http://a.test/", "http://b.test/")
	edges := len(r.edges)
	r.Do(func(tx *account.Tx) error { return r.stage.SendHeld(tx, held, true) })
	b := r.batch(0, "http://in.test/")
	b.Seen = make([]bool, len(b.Keys))
	b.Code()
	in := &admit.Inlet{Tuples: b.Tuples, Edges: []star.Edge{{From: 1, To: 2}}}
	r.Do(func(tx *account.Tx) error { return r.stage.TakeLinks(in, tx) })
	if n := r.Accounts.Counter(state.CountLinksDraining); n != 4 || len(r.edges) > edges {
		t.Errorf("%d links were dropped, want 4; %d edges", n, len(r.edges)-edges)
	}
	checked := r.Accounts.Counter(state.CountLinksChecked)
	r.send(weburl.FlagSeed, "http://seed.test/", "http://other.test/")
	if n := r.Accounts.Counter(state.CountLinksChecked) - checked; n != 2 {
		t.Errorf("%d of 2 seeds came to URLseen", n)
	}
	r.pass()
	r.want("draining", 2, "http://seed.test/", "http://other.test/")
}

// TestHeldLinks: links that wait for the verdict on their page's body are sent as the page would have sent
// them, or counted as those of a duplicate. Damaged ones are an error.
func TestHeldLinks(t *testing.T) {
	r := open(roomtest.New(t, 100), 1<<16, nil)
	links := []string{"http://a.test/", "http://www.b.test/"}
	r.send(0, links...)
	edges, sent := len(r.edges), r.stage.Pending()
	names, _ := r.stage.Names.Pending()
	held := r.stage.HeldLinks(r.batch(0, "http://c.test/", "http://www.d.test/"))
	r.Do(func(tx *account.Tx) error { return r.stage.SendHeld(tx, held, false) })
	if n := r.Accounts.Counter(state.CountLinksDuplicate); n != 2 || len(r.edges) != edges {
		t.Errorf("%d links of a duplicate, %d edges", n, len(r.edges)-edges)
	}
	r.Do(func(tx *account.Tx) error { return r.stage.SendHeld(tx, held, true) })
	all, _ := r.stage.Names.Pending()
	if len(r.edges) != 2*edges || r.stage.Pending() != 2*sent || all != 2*names || edges == 0 {
		t.Errorf("%d edges, %d links and %d names, want twice %d, %d and %d", len(r.edges), r.stage.Pending(),
			all, edges, sent, names)
	}
	r.pass()
	r.want("sent later", 4, append(links, "http://c.test/", "http://www.d.test/")...)
	if r.stage.HeldLinks(r.batch(0)) != nil {
		t.Error("a page without links has links that wait")
	}
	if r.Transact(func(tx *account.Tx) error { return r.stage.SendHeld(tx, held[:9], true) }) == nil {
		t.Error("damaged links were sent")
	}
}

// TestEnqueuedIsNew: a new URL that was enqueued has its record already, and does not come to STAR.
func TestEnqueuedIsNew(t *testing.T) {
	r := open(roomtest.New(t, 100), 0, nil)
	r.orders.Begin(r.Key("http://a.test/"), 1)
	r.Do(func(tx *account.Tx) error {
		tx.EnterOrder(r.Key("http://a.test/"), state.PlaceRAM)
		return nil
	})
	r.send(0, "http://a.test/", "http://b.test/")
	r.pass()
	r.want("an order", 2, "http://b.test/")
	if a := r.Accounts.Copy(); a.Orders.N != 0 || a.Places[state.PlaceStar].N != 1 {
		t.Errorf("%d orders, %d URLs in STAR", a.Orders.N, a.Places[state.PlaceStar].N)
	}
}

// TestPasses: the goroutine of URLseen runs a pass for a few links when URLs are needed, that of names only
// once the store would double.
func TestPasses(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), 0, nil)
		r.While(func() {
			r.send(0, "http://a.test/")
			time.Sleep(time.Minute)
			if r.stage.Pending() != 0 || r.stage.PassesEnded() != 1 || r.stage.Measured().Links != 1 {
				t.Errorf("%d links wait after %d passes", r.stage.Pending(), r.stage.PassesEnded())
			}
			if n := r.stage.Names.Keys(); n != 0 {
				t.Errorf("a pass for %d names", n)
			}
			for i := range 64 {
				r.send(0, fmt.Sprintf("http://h%d.test/", i))
			}
			time.Sleep(time.Hour)
			if n := r.stage.Names.Keys(); n < 64 {
				t.Errorf("%d names in the store", n)
			}
		}, r.stage.MergeSeen, r.stage.MergeNames)
	})
}

// TestUnreadableRecord: a record of URLseen that cannot be read stops the crawl before it loses the URL.
func TestUnreadableRecord(t *testing.T) {
	r := open(roomtest.New(t, 100), 0, nil)
	b := r.batch(0, "http://a.test/")
	b.Seen = make([]bool, len(b.Keys))
	b.Code()
	b.Tuples[0].Aux = []byte("no record")
	must(t, r.stage.URLSeen.Add(b.Tuples))
	if _, err := r.stage.URLSeen.Pass(t.Context(), true); !errors.Is(err, weburl.ErrRecord) {
		t.Errorf("got %v", err)
	}
	if r.Failure() == nil || r.Accounts.Copy().Unique.N != 0 {
		t.Errorf("the crawl continues: %v", r.Failure())
	}
}

// traced returns the links of a trace and the summary of its heads.
func traced(t *testing.T, r *room, name string) ([]uint64, linktrace.Summary) {
	t.Helper()
	tr, err := linktrace.Open(r.FS, name)
	must(t, err)
	defer tr.Close()
	keys := make([]uint64, tr.Summary().Links)
	if n, err := tr.Read(keys); err != nil || n != len(keys) {
		t.Fatalf("read %d of %d links: %v", n, len(keys), err)
	}
	return keys, tr.Summary()
}

// TestTrace: the trace has every link before the cache, in the order of the pages, over two runs. Seeds are
// not in it.
func TestTrace(t *testing.T) {
	for _, cacheBytes := range []int64{0, 1 << 16} {
		traces := func(o *seen.Options) { o.TraceLinks, o.TraceLimit = "links.trace", 8<<30 }
		w := roomtest.New(t, 100)
		var want []uint64
		for range 2 {
			r := open(w, cacheBytes, traces)
			must(t, r.stage.OpenTrace())
			r.Links.Traced = r.stage.Traced()
			a, b, c := "http://a.test/", "http://b.test/", "http://c.test/"
			for _, page := range [][]string{{a, b}, {b, c}} {
				r.send(weburl.FlagSeed, "http://seed.test/")
				r.send(0, page...)
				for _, url := range page {
					want = append(want, r.Key(url))
				}
			}
			r.stage.Close()
			keys, sum := traced(t, r, "links.trace")
			if !slices.Equal(keys, want) {
				t.Errorf("cache of %d bytes: %d links in %d generations: %x, want %x", cacheBytes, len(keys),
					sum.Generations, keys, want)
			}
			w = again(r.World)
		}
	}
}

// again returns a World of the same files, as a later run has it.
func again(w *roomtest.World) *roomtest.World {
	w.Save()
	return w.Cut()
}

// TestTraceFaults: a trace that cannot begin stops the crawl before it starts. One that fails or is full
// ends, with one line in the log, and the crawl continues.
func TestTraceFaults(t *testing.T) {
	r := open(roomtest.New(t, 100), 0, func(o *seen.Options) {
		o.TraceLinks, o.TraceLimit = "no/such/directory/trace", 8<<30
	})
	if err := r.stage.OpenTrace(); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "link trace") {
		t.Errorf("got %v", err)
	}
	broken := errors.New("the trace's disk is broken")
	for _, c := range []struct {
		limit int64
		fails bool
		line  string
	}{{8 << 30, true, "link trace ends"}, {linktrace.MinLimitBytes, false, "has reached its limit"}} {
		w := roomtest.New(t, 100)
		fails := false
		w.Saved.Meter = disk.NewMeter(memfs.NewFault(w.FS, func(_ memfs.Op, name string) error {
			if fails && strings.HasSuffix(name, "links.trace") {
				return broken
			}
			return nil
		}), "d")
		r := open(w, 0, func(o *seen.Options) { o.TraceLinks, o.TraceLimit = "links.trace", c.limit })
		must(t, r.stage.OpenTrace())
		r.Links.Traced, fails = true, c.fails
		var page []string
		for i := range 1000 {
			page = append(page, fmt.Sprintf("http://a.test/%d", i))
		}
		for range 20 {
			r.send(0, page...)
		}
		r.stage.Close()
		r.pass()
		if n := r.Logged(c.line); n != 1 || r.Failure() != nil || len(r.urls) != 1000 {
			t.Errorf("%d lines with %q; the crawl: %v, %d URLs", n, c.line, r.Failure(), len(r.urls))
		}
	}
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
