package cache

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/bench/result"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/linktrace"
)

// naiveLRU and naiveClock implement the policies with slices.
type naiveLRU struct {
	keys    []uint64
	entries int
}

func (c *naiveLRU) testAndSet(key uint64) bool {
	i := slices.Index(c.keys, key)
	if i >= 0 {
		c.keys = slices.Delete(c.keys, i, i+1)
	} else if len(c.keys) == c.entries {
		c.keys = c.keys[1:]
	}
	c.keys = append(c.keys, key)
	return i >= 0
}

type naiveClock struct {
	keys          []uint64
	met           map[uint64]bool
	entries, hand int
}

func (c *naiveClock) testAndSet(key uint64) bool {
	if slices.Contains(c.keys, key) {
		c.met[key] = true
		return true
	}
	if len(c.keys) < c.entries {
		c.keys = append(c.keys, key)
		return false
	}
	for ; c.met[c.keys[c.hand]]; c.hand = (c.hand + 1) % c.entries {
		c.met[c.keys[c.hand]] = false
	}
	c.keys[c.hand] = key
	c.hand = (c.hand + 1) % c.entries
	return false
}

// TestCachePolicies: the reference caches follow their policies.
func TestCachePolicies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, entries := range []int{1, 2, 7, 64} {
		pairs := []struct {
			name      string
			got, want interface{ testAndSet(uint64) bool }
		}{
			{"LRU", newExactLRU(entries), &naiveLRU{entries: entries}},
			{"CLOCK", newClock(entries), &naiveClock{entries: entries, met: map[uint64]bool{}}},
		}
		for range 20_000 {
			key := mix64(uint64(float64(10*entries) * rng.Float64() * rng.Float64()))
			for _, p := range pairs {
				if got, want := p.got.testAndSet(key), p.want.testAndSet(key); got != want {
					t.Fatalf("%s of %d entries: key %x: got %v, want %v", p.name, entries, key, got, want)
				}
			}
		}
	}
}

// TestCacheStream: the stream is deterministic, has the requested shares, and a site returns after a host
// delay.
func TestCacheStream(t *testing.T) {
	o := DefaultStream(200)
	a, b := newCacheStream(o), newCacheStream(o)
	seen, last := map[uint64]int{}, map[uint64]int64{}
	links, repeats, fresh, pages := 0, 0, 0, 0
	var gaps []float64
	for range 20_000 {
		site := a.sites[a.due[0].site].key
		if at, ok := last[site]; ok && a.sites[a.due[0].site].left > 0 {
			gaps = append(gaps, float64(a.now-at)/float64(o.Hosts))
		}
		last[site] = a.now
		page := a.next()
		if !slices.Equal(page, b.next()) {
			t.Fatalf("page %d differs in a second stream", pages)
		}
		on := map[uint64]bool{}
		for _, key := range page {
			if on[key] {
				repeats++
			}
			on[key] = true
			if seen[key]++; seen[key] == 1 {
				fresh++
			}
		}
		links += len(page)
		pages++
	}
	slices.Sort(gaps)
	if median := gaps[len(gaps)/2]; median < 0.95 || median > 1.05 {
		t.Errorf("a site is visited again after %.2f host delays, want 1", median)
	}
	for _, c := range []struct {
		what            string
		got, want, give float64
	}{
		{"links per page", float64(links) / float64(pages), paperLinksPerPage, 3},
		{"repeats on a page", float64(repeats) / float64(links), o.Repeat, 0.05},
		{"URLs that are new", float64(fresh) / float64(links), 0.2, 0.1},
	} {
		if math.Abs(c.got-c.want) > c.give {
			t.Errorf("%s: got %.3f, want %.3f ± %.3f", c.what, c.got, c.want, c.give)
		}
	}
}

// TestOursAgainstLRU: near the knee of a crawl-like stream our cache loses at most 2 points against exact
// LRU.
func TestOursAgainstLRU(t *testing.T) {
	o := DefaultStream(250)
	for _, factor := range []float64{1.15, 2.3, 9} {
		entries := int(factor*o.Span()) &^ 7
		mine, lru := ours{drum.NewRAMCache(int64(8 * entries))}, newExactLRU(entries)
		s := newCacheStream(o)
		keys := make([]uint64, 10*entries)
		if _, err := s.read(keys); err != nil {
			t.Fatal(err)
		}
		hits := [2]int{}
		for i, key := range keys {
			for j, c := range []keyCache{mine, lru} {
				if c.testAndSet(key) && i > len(keys)/2 {
					hits[j]++
				}
			}
		}
		mine.Close()
		if lost := 200 * float64(hits[1]-hits[0]) / float64(len(keys)); lost > 2 {
			t.Errorf("%d entries, %.2f of tau_h l S: loses %.2f points against LRU", entries, factor, lost)
		} else if testing.Verbose() {
			t.Logf("%d entries: %.1f %% hits, %.2f points below LRU", entries,
				200*float64(hits[0])/float64(len(keys)), lost)
		}
	}
}

// smallCache returns the smallest measurement.
func smallCache() Options {
	return Options{Stream: DefaultStream(20), Entries: 1 << 14, Repeats: 1, Quick: true}
}

// TestRunCache: the report contains all promised tables and checks; the sizes are optional.
func TestRunCache(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	c := smallCache()
	r, err := c.Measure(context.Background(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BenchmarkCacheHits/policy=exact-LRU/entries=",
		"BenchmarkCache/links=crawl/entries=16384/cores=1", "Table IV: hit rates", "512M",
		"new keys on one core, 16384 entries", "RAM per entry", "hit rate below exact LRU at the worst"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got no %q in\n%s", want, b.String())
		}
	}
	if len(r.Checks) != 4 {
		t.Errorf("got %d checks", len(r.Checks))
	}
	c.Sizes = []int64{600, 5000}
	if r, err = c.Measure(context.Background(), func(string) {}); err != nil || len(r.Tables) != 2 ||
		len(r.Tables[0].Rows) != 2 {
		t.Errorf("got %v, %d tables", err, len(r.Tables))
	}
	c.Sizes = []int64{1 << 31}
	if _, err := c.Measure(context.Background(), func(string) {}); result.ThisMachine().RAMBytes < 64<<30 &&
		(err == nil || !strings.Contains(err.Error(), "lower --size or --entries")) {
		t.Errorf("got %v for more than the RAM", err)
	}
	c.Sizes = nil
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Measure(ctx, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after the context ended", err)
	}
	for _, bad := range []Options{{Entries: 1}, {Sizes: []int64{100}}, {From: 3}, {Repeats: -1},
		{Stream: Stream{Hosts: 1}}} {
		if bad.Complete() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// writeTrace records the beginning of a stream.
func writeTrace(t *testing.T, o Stream, links int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "links")
	w, err := linktrace.Create(linktrace.Options{FS: disk.OS(), Path: name, LimitBytes: 1 << 30,
		Ended: func(err error) {
			t.Error(err)
		}})
	if err != nil {
		t.Fatal(err)
	}
	s := newCacheStream(o)
	for n := 0; n < links; {
		var page []drum.Key
		for _, k := range s.next() {
			page = append(page, drum.Key(k))
		}
		page = page[:min(len(page), links-n)]
		w.Add(page)
		n += len(page)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestRunCacheTrace: a recorded stream gives the same rates as the stream itself.
func TestRunCacheTrace(t *testing.T) {
	const links, from = 60_000, 1234
	c := smallCache()
	c.Trace, c.From = writeTrace(t, c.Stream, links), from
	r, err := c.Measure(context.Background(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	lru, keys := newExactLRU(4096), make([]uint64, from+10*4096)
	if _, err := newCacheStream(c.Stream).read(keys); err != nil {
		t.Fatal(err)
	}
	for i, k := range keys[from:] {
		if lru.testAndSet(k) && i >= 5*4096 {
			want++
		}
	}
	found := false
	for _, l := range r.Lines {
		if l.Name == "BenchmarkCacheHits/policy=exact-LRU/entries=4096" {
			if found = true; l.N != 5*4096 || math.Abs(l.Metrics[0].Value-100*float64(want)/(5*4096)) > 1e-9 {
				t.Errorf("got %+v, want %d hits", l, want)
			}
		}
	}
	if rows := len(r.Tables[0].Rows); !found || rows != 4 { // 512 to 4096
		t.Errorf("got %d sizes, of 4096 entries %v", rows, found)
	}
	for _, bad := range []struct {
		change func(c *Options)
		want   string
	}{
		{func(c *Options) { c.From = links - 100 }, "100 of them after --from 59900"},
		{func(c *Options) { c.Sizes = []int64{10_000} }, "ten times the size"},
		{func(c *Options) { c.Trace += "x" }, "no such file"},
		{func(c *Options) { c.Trace = "cache_test.go" }, "is not a readable trace"},
	} {
		b := c
		bad.change(&b)
		progress := func(what string) { t.Errorf("%s: %q was measured before", bad.want, what) }
		if _, err := b.Measure(context.Background(), progress); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("got %v, want %q", err, bad.want)
		}
	}
}
