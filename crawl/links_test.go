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

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/parse"
	"drumbeat/star"
	"drumbeat/urlrule"
	"drumbeat/weburl"
)

// linkRing is as much of a ring as a linkBatch needs. URLseen hands out nothing: what a batch sends is in its tuples.
func linkRing(t testing.TB, cacheBytes int64) *ring {
	t.Helper()
	set := disk.Set{FS: disk.NewMem(1), Paths: []string{"/d"}}
	r := &ring{hasher: weburl.NewHasher(weburl.Secret{1}), suffixes: weburl.NewSuffixes(false)}
	r.opt = Options{Scope: ScopeAll, MaxDepth: -1}
	r.scope = newScope(ScopeAll, r.hasher.HostKey, nil)
	var err error
	r.urlSeen, err = drum.Open(drum.Options{Set: set, Name: "seen", Buckets: 1, Op: drum.CheckUpdate, Emit: func([]drum.Result) error { return nil }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.urlSeen.Close() })
	r.recentEdges = drum.NewRAMCache(1 << 20)
	t.Cleanup(r.recentEdges.Close)
	r.star, err = star.Open(star.Options{
		Set: set, Edges: drum.Options{Buckets: 1}, Indegree: drum.Options{Buckets: 1}, Recent: r.recentEdges,
		Place: func(*[star.LedgerBytes]byte, uint32) int64 { return 1 },
		Emit:  func([]star.Placed) error { return nil },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.star.Close() })
	r.names, err = drum.Open(drum.Options{Set: set, Name: nameNames, Buckets: 1, Op: drum.CheckUpdate, ValueBytes: -1, MaxValueBytes: maxNameBytes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.names.Close() })
	r.recentNames = drum.NewRAMCache(1 << 20)
	t.Cleanup(r.recentNames.Close)
	if cacheBytes > 0 {
		r.recent = drum.NewRAMCache(cacheBytes)
		t.Cleanup(r.recent.Close)
	}
	return r
}

// TestLinkBatchRepeats: a link that is told to be another one's repeat does what it does when it is added again, whatever its
// fate, with the cache and without.
func TestLinkBatchRepeats(t *testing.T) {
	const seed = 5
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, cacheBytes := range []int64{0, 1 << 16} {
		plain, told := linkRing(t, cacheBytes), linkRing(t, cacheBytes)
		for _, r := range []*ring{plain, told} {
			r.opt.AllowedPort = func(port uint16) bool { return port != 81 }
			r.opt.LinkFilter = func(url []byte) bool { return !strings.HasSuffix(string(url), "7") }
			rules, err := urlrule.New(urlrule.Options{StripParams: []string{"sid"}, SkipExtensions: []string{"pdf"}, MaxPathDepth: 2})
			if err != nil {
				t.Fatal(err)
			}
			if cacheBytes > 0 {
				r.urlRules = *rules
			}
		}
		a, b := newLinkBatch(plain), newLinkBatch(told)
		for range 300 {
			depth := uint16(rnd.IntN(3))
			plain.opt.MaxDepth, told.opt.MaxDepth = 1, 1
			now, page := time.Unix(1e9, 0), []byte("http://a.example.org/page")
			a.start(page, page, depth, 0, now)
			b.start(page, page, depth, 0, now)
			first, n := map[string]int{}, 0
			for range rnd.IntN(60) {
				url := fmt.Sprintf("http://%c.example%d.org%s/%d", 'a'+rnd.IntN(4), rnd.IntN(4), []string{"", ":81"}[rnd.IntN(2)], rnd.IntN(20)) +
					[]string{"", "", "?sid=1", "?a=1&sid=2", ".pdf", "/a/b"}[rnd.IntN(6)]
				noFollow := rnd.IntN(5) == 0
				if noFollow {
					a.noFollow()
				} else {
					a.add([]byte(url))
				}
				key := fmt.Sprint(url, noFollow)
				if of, ok := first[key]; ok {
					b.repeat(of)
					continue
				}
				if first[key] = n; noFollow {
					b.noFollow()
				} else {
					b.add([]byte(url))
				}
				n++
			}
			var da, db delta
			if err := a.send(&da); err != nil {
				t.Fatal(err)
			}
			if err := b.send(&db); err != nil {
				t.Fatal(err)
			}
			if da.counts != db.counts {
				t.Fatalf("seed %d: counters: got %v, want %v", seed, db.counts, da.counts)
			}
			tuple := func(t drum.Tuple) string { return fmt.Sprintf("%x %q", t.Key, t.Aux) }
			if got, want := texts(b.tuples, tuple), texts(a.tuples, tuple); !slices.Equal(got, want) {
				t.Fatalf("seed %d: tuples: got %q, want %q", seed, got, want)
			}
			if !slices.Equal(a.edges, b.edges) {
				t.Fatalf("seed %d: edges: got %v, want %v", seed, b.edges, a.edges)
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

// TestLinkBatchRecords: the records of a page are those that package weburl codes one by one, and nothing is allocated once
// the buffers have grown.
func TestLinkBatchRecords(t *testing.T) {
	r := linkRing(t, 1<<20)
	b := newLinkBatch(r)
	now := time.Unix(1e9, 0)
	var urls [][]byte
	for i := range 100 {
		urls = append(urls, fmt.Appendf(nil, "https://www%d.example.org/dir/page-%d.html", i%12, i))
	}
	b.start(urls[0], urls[0], 3, weburl.FlagRedirect, now)
	for i, url := range urls {
		if i%50 == 7 {
			b.addRefresh(url)
		} else {
			b.add(url)
		}
	}
	var d delta
	if err := b.send(&d); err != nil {
		t.Fatal(err)
	}
	if len(b.tuples) != len(urls) {
		t.Fatalf("got %d tuples, want %d", len(b.tuples), len(urls))
	}
	for i, url := range urls {
		rec := weburl.Record{URL: url, Depth: 3, Flags: weburl.FlagRedirect, Found: now.Unix()}
		rec.SetVia(urls[0], r.hasher.URLKey(urls[0]))
		if i%50 == 7 {
			rec.Flags |= weburl.FlagRefresh
		}
		if want := rec.Append(nil); string(b.tuples[i].Aux) != string(want) || uint64(b.tuples[i].Key) != r.hasher.URLKey(url) {
			t.Errorf("%s: got key %x and record %q, want %q", url, b.tuples[i].Key, b.tuples[i].Aux, want)
		}
	}
	if n := testing.AllocsPerRun(20, func() {
		d.reset()
		b.start(urls[0], urls[0], 3, 0, now)
		for i, url := range urls {
			b.add(url)
			b.repeat(i)
		}
		if err := b.send(&d); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("allocations of a page: got %v, want 0", n)
	}
}

var linkPagesDir = flag.String("links.pages", "", "directory of HTML files for BenchmarkLinkBatch, instead of made ones")

// linkPages are pages of 90 links, as documentation has them: a menu, places on the page itself, and some others.
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
			fmt.Fprintf(&page, "<a href='../menu/entry-%d.html'>x</a> <a href='#part-%d'>y</a> <a href='library/page-%d.html#z'>z</a>\n",
				j%15, j, (i*31+j/3)%5000)
		}
		pages = append(pages, page.Bytes())
	}
	return pages
}

// BenchmarkLinkBatch takes the links of pages from the bytes to URLseen's buffers.
func BenchmarkLinkBatch(b *testing.B) {
	pages := linkPages(b)
	for _, cacheMiB := range []int64{1, 256} {
		b.Run(fmt.Sprintf("cache=%dMiB", cacheMiB), func(b *testing.B) {
			r := linkRing(b, cacheMiB<<20)
			batch, x := newLinkBatch(r), parse.NewExtractor(parse.Options{}, weburl.Options{})
			links := int64(0)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				url := fmt.Appendf(nil, "http://www.example.org/dir/page-%d.html", i%len(pages))
				batch.start(url, url, 1, 0, time.Unix(1e9, 0))
				counts, err := x.ExtractOnce(url, pages[i%len(pages)], "", func(url []byte, _ *parse.Link) { batch.add(url) }, batch.repeat)
				if err != nil {
					b.Fatal(err)
				}
				links += counts.Links
				var d delta
				if err := batch.send(&d); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(links)/float64(b.N), "links/op")
		})
	}
}

// refreshPage adds n links, of which those that fresh chooses are targets of refreshes.
func refreshPage(b *linkBatch, n int, fresh func(i int) bool) {
	b.start(nil, nil, 1, 0, time.Unix(1e9, 0))
	for i := range n {
		url := fmt.Appendf(b.rewriter.url[:0], "http://www.example.org/%d", i)
		if fresh(i) {
			b.addRefresh(url)
		} else {
			b.add(url)
		}
	}
}

// TestRefreshesAreFlagged: the targets of refreshes are told from other links, whichever of them the cache knows.
func TestRefreshesAreFlagged(t *testing.T) {
	r := linkRing(t, 1<<20)
	b := newLinkBatch(r)
	for _, page := range []struct {
		n     int
		fresh func(i int) bool
	}{{4, func(i int) bool { return i == 2 }}, {40, func(i int) bool { return i%3 != 0 }}, {60, func(i int) bool { return true }}} {
		refreshPage(b, page.n, page.fresh)
		var d delta
		if err := b.send(&d); err != nil {
			t.Fatal(err)
		}
		for _, tuple := range b.tuples {
			var rec weburl.Record
			var i int
			if err := rec.Decode(tuple.Aux); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscanf(string(rec.URL), "http://www.example.org/%d", &i); err != nil || (rec.Flags == weburl.FlagRefresh) != page.fresh(i) {
				t.Errorf("%s has flags %d (%v)", rec.URL, rec.Flags, err)
			}
		}
	}
}

// BenchmarkRefreshes codes the records of a page of as many refreshes as the parser finds: as fast as those of other links.
func BenchmarkRefreshes(b *testing.B) {
	for name, fresh := range map[string]bool{"links": false, "refreshes": true} {
		b.Run(name, func(b *testing.B) {
			batch := newLinkBatch(linkRing(b, 1<<20))
			refreshPage(batch, 50_000, func(int) bool { return fresh })
			batch.seen = make([]bool, len(batch.keys))
			for b.Loop() {
				batch.tuples = batch.tuples[:0]
				batch.code()
			}
		})
	}
}
