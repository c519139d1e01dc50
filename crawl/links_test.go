package crawl

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/internal/ports"
	"drumbeat/internal/urlrule"
	"drumbeat/parse"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// linkStages returns the part of a crawler that a batch of links needs. URLseen returns nothing; its tuples
// show what a batch sends.
func linkStages(t testing.TB, cacheBytes int64) *crawler {
	t.Helper()
	set := disk.Set{FS: memfs.New(1), Paths: []string{"/d"}}
	c := newCrawler(Options{Admission: AdmissionOptions{Scope: state.ScopeAll}, Limits: LimitsOptions{MaxDepth: -1}})
	c.Hasher, c.Suffixes = weburl.NewHasher(weburl.Secret{1}), weburl.NewSuffixes(false)
	*c.links = admit.Policy{Hasher: c.Hasher, Suffixes: c.Suffixes, Lists: &c.rules.Lists, MaxDepth: -1,
		Cached: cacheBytes > 0, Sites: admit.NewSites(state.ScopeAll, c.Hasher.HostKey, nil)}
	var err error
	c.seen.URLSeen, err = drum.Open(drum.Options{Set: set, Name: "seen", Buckets: 1, Op: drum.CheckUpdate,
		Emit: func([]drum.Result) error { return nil }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.seen.URLSeen.Close() })
	recent := drum.NewRAMCache(1 << 20)
	t.Cleanup(recent.Close)
	c.budgets.Star, err = star.Open(star.Options{
		Set: set, Edges: drum.Options{Buckets: 1}, Indegree: drum.Options{Buckets: 1}, Recent: recent,
		Place: func(*[star.LedgerBytes]byte, uint32, uint8, uint8) int64 { return 1 },
		Emit:  func([]star.Placed) error { return nil },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.budgets.Star.Close() })
	c.seen.Names, err = drum.Open(drum.Options{Set: set, Name: state.NameNames, Buckets: 1, Op: drum.CheckUpdate,
		ValueBytes: -1, MaxValueBytes: state.MaxNameBytes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.seen.Names.Close() })
	c.plan.NameCacheBytes, c.plan.CacheBytes = 1<<20, cacheBytes
	c.seen.OpenCaches()
	t.Cleanup(c.seen.Close)
	return c
}

// TestLinkBatchRepeats: marking a link as the repeat of another must have the same effect as adding it
// again, whatever its verdict, with and without the cache.
func TestLinkBatchRepeats(t *testing.T) {
	const seed = 5
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, cacheBytes := range []int64{0, 1 << 16} {
		plain, told := linkStages(t, cacheBytes), linkStages(t, cacheBytes)
		for _, c := range []*crawler{plain, told} {
			c.links.Ports = ports.New(ports.Range{First: 1, Last: 80}, ports.Range{First: 82, Last: 65535})
			c.links.LinkFilter = func(url []byte) bool { return !strings.HasSuffix(string(url), "7") }
			rules, err := urlrule.New(urlrule.Options{StripParams: []string{"sid"}, SkipExtensions: []string{"pdf"},
				MaxPathDepth: 2})
			if err != nil {
				t.Fatal(err)
			}
			if cacheBytes > 0 {
				c.links.URLRules = *rules
			}
		}
		a, b := admit.NewBatch(plain.links), admit.NewBatch(told.links)
		for range 300 {
			depth := uint16(rnd.IntN(3))
			plain.links.MaxDepth, told.links.MaxDepth = 1, 1
			now, page := time.Unix(1e9, 0), []byte("http://a.example.org/page")
			a.Start(page, page, depth, 0, now)
			b.Start(page, page, depth, 0, now)
			first, n := map[string]int{}, 0
			for range rnd.IntN(60) {
				url := fmt.Sprintf("http://%c.example%d.org%s/%d", 'a'+rnd.IntN(4), rnd.IntN(4),
					[]string{"", ":81"}[rnd.IntN(2)], rnd.IntN(20)) +
					[]string{"", "", "?sid=1", "?a=1&sid=2", ".pdf", "/a/b"}[rnd.IntN(6)]
				noFollow := rnd.IntN(5) == 0
				if noFollow {
					a.NoFollow()
				} else {
					a.Add([]byte(url))
				}
				key := fmt.Sprint(url, noFollow)
				if of, ok := first[key]; ok {
					b.Repeat(of)
					continue
				}
				if first[key] = n; noFollow {
					b.NoFollow()
				} else {
					b.Add([]byte(url))
				}
				n++
			}
			var da, db account.Tx
			if err := plain.seen.SendLinks(a, &da); err != nil {
				t.Fatal(err)
			}
			if err := told.seen.SendLinks(b, &db); err != nil {
				t.Fatal(err)
			}
			var sa, sb account.Accounts
			sa.Apply(&da)
			sb.Apply(&db)
			if got, want := sb.Copy().Counters, sa.Copy().Counters; got != want {
				t.Fatalf("seed %d: counters: got %v, want %v", seed, got, want)
			}
			tuple := func(t drum.Tuple) string { return fmt.Sprintf("%x %q", t.Key, t.Aux) }
			if got, want := texts(b.Tuples, tuple), texts(a.Tuples, tuple); !slices.Equal(got, want) {
				t.Fatalf("seed %d: tuples: got %q, want %q", seed, got, want)
			}
			if !slices.Equal(a.Edges, b.Edges) {
				t.Fatalf("seed %d: edges: got %v, want %v", seed, b.Edges, a.Edges)
			}
		}
	}
}

func texts[T any](list []T, text func(T) string) (out []string) {
	for _, v := range list {
		out = append(out, text(v))
	}
	return out
}

// TestLinkBatchRecords: the records of a page must equal those that package weburl encodes one by one, and
// a batch must not allocate once its buffers have grown.
func TestLinkBatchRecords(t *testing.T) {
	c := linkStages(t, 1<<20)
	b := admit.NewBatch(c.links)
	now := time.Unix(1e9, 0)
	var urls [][]byte
	for i := range 100 {
		urls = append(urls, fmt.Appendf(nil, "https://www%d.example.org/dir/page-%d.html", i%12, i))
	}
	b.Start(urls[0], urls[0], 3, weburl.FlagRedirect, now)
	for i, url := range urls {
		if i%50 == 7 {
			b.AddRefresh(url)
		} else {
			b.Add(url)
		}
	}
	var tx account.Tx
	if err := c.seen.SendLinks(b, &tx); err != nil {
		t.Fatal(err)
	}
	if len(b.Tuples) != len(urls) {
		t.Fatalf("got %d tuples, want %d", len(b.Tuples), len(urls))
	}
	for i, url := range urls {
		rec := weburl.Record{URL: url, Depth: 3, Flags: weburl.FlagRedirect, Found: now.Unix()}
		rec.SetVia(urls[0], c.Hasher.URLKey(urls[0]))
		if i%50 == 7 {
			rec.Flags |= weburl.FlagRefresh
		}
		if want := rec.Append(nil); string(b.Tuples[i].Aux) != string(want) ||
			uint64(b.Tuples[i].Key) != c.Hasher.URLKey(url) {
			t.Errorf("%s: got key %x and record %q, want %q", url, b.Tuples[i].Key, b.Tuples[i].Aux, want)
		}
	}
	if n := testing.AllocsPerRun(20, func() {
		tx.Reset()
		b.Start(urls[0], urls[0], 3, 0, now)
		for i, url := range urls {
			b.Add(url)
			b.Repeat(i)
		}
		if err := c.seen.SendLinks(b, &tx); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("allocations of a page: got %v, want 0", n)
	}
}

var linkPagesDir = flag.String("links.pages", "",
	"directory of HTML files for BenchmarkLinkBatch (empty: generated pages)")

// linkPages returns pages of 90 links, as in documentation: a menu, fragments of the page itself, and some
// others.
func linkPages(b *testing.B) (pages [][]byte) {
	if *linkPagesDir != "" {
		names, err := filepath.Glob(filepath.Join(*linkPagesDir, "*.html"))
		if err != nil || len(names) == 0 {
			b.Fatalf("%d pages in %s: %v", len(names), *linkPagesDir, err)
		}
		for _, name := range names {
			page, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			pages = append(pages, page)
		}
		return pages
	}
	for i := range 500 {
		var page bytes.Buffer
		for j := range 30 {
			fmt.Fprintf(&page, "<a href='../menu/entry-%d.html'>x</a> <a href='#part-%d'>y</a> <a "+
				"href='library/page-%d.html#z'>z</a>\n", j%15, j, (i*31+j/3)%5000)
		}
		pages = append(pages, page.Bytes())
	}
	return pages
}

// BenchmarkLinkBatch measures the way of a page's links from the bytes to URLseen's buffers.
func BenchmarkLinkBatch(b *testing.B) {
	pages := linkPages(b)
	for _, cacheMiB := range []int64{1, 256} {
		b.Run(fmt.Sprintf("cache=%dMiB", cacheMiB), func(b *testing.B) {
			c := linkStages(b, cacheMiB<<20)
			batch, x := admit.NewBatch(c.links), parse.NewExtractor(parse.Options{}, weburl.Options{})
			links := int64(0)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				url := fmt.Appendf(nil, "http://www.example.org/dir/page-%d.html", i%len(pages))
				batch.Start(url, url, 1, 0, time.Unix(1e9, 0))
				counts, err := x.ExtractOnce(url, pages[i%len(pages)], "",
					func(url []byte, _ *parse.Link) { batch.Add(url) }, batch.Repeat)
				if err != nil {
					b.Fatal(err)
				}
				links += counts.Links
				var tx account.Tx
				if err := c.seen.SendLinks(batch, &tx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(links)/float64(b.N), "links/op")
		})
	}
}

// refreshPage adds n links. Those that fresh selects are targets of refreshes.
func refreshPage(b *admit.Batch, n int, fresh func(i int) bool) {
	b.Start(nil, nil, 1, 0, time.Unix(1e9, 0))
	for i := range n {
		url := fmt.Appendf(b.Rewriter.URL[:0], "http://www.example.org/%d", i)
		if fresh(i) {
			b.AddRefresh(url)
		} else {
			b.Add(url)
		}
	}
}

// TestRefreshesAreFlagged: a batch must flag the targets of refreshes, and only those, whichever links the
// cache knows.
func TestRefreshesAreFlagged(t *testing.T) {
	c := linkStages(t, 1<<20)
	b := admit.NewBatch(c.links)
	for _, page := range []struct {
		n     int
		fresh func(i int) bool
	}{{4, func(i int) bool { return i == 2 }}, {40, func(i int) bool { return i%3 != 0 }},
		{60, func(i int) bool { return true }}} {
		refreshPage(b, page.n, page.fresh)
		var tx account.Tx
		if err := c.seen.SendLinks(b, &tx); err != nil {
			t.Fatal(err)
		}
		for _, tuple := range b.Tuples {
			var rec weburl.Record
			var i int
			if err := rec.Decode(tuple.Aux); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscanf(string(rec.URL), "http://www.example.org/%d", &i); err != nil ||
				(rec.Flags == weburl.FlagRefresh) != page.fresh(i) {
				t.Errorf("%s has flags %d (%v)", rec.URL, rec.Flags, err)
			}
		}
	}
}

// BenchmarkRefreshes measures the records of a page with the maximum number of refreshes, and of other
// links to compare.
func BenchmarkRefreshes(b *testing.B) {
	for name, fresh := range map[string]bool{"links": false, "refreshes": true} {
		b.Run(name, func(b *testing.B) {
			batch := admit.NewBatch(linkStages(b, 1<<20).links)
			refreshPage(batch, 50_000, func(int) bool { return fresh })
			batch.Seen = make([]bool, len(batch.Keys))
			for b.Loop() {
				batch.Tuples = batch.Tuples[:0]
				batch.Code()
			}
		})
	}
}
