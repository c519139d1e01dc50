package seen_test

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
	"drumbeat/crawl/roomtest"
	"drumbeat/drum"
	"drumbeat/internal/ports"
	"drumbeat/internal/scope"
	"drumbeat/internal/urlrule"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/weburl"
)

// links opens the room of a new crawl.
func links(t testing.TB, cacheBytes int64) *room { return open(roomtest.New(t, 100), cacheBytes, nil) }

// TestLinkBatchRepeats: marking a link as the repeat of another must have the same effect as adding it
// again, whatever its verdict, with and without the cache.
func TestLinkBatchRepeats(t *testing.T) {
	const seed = 5
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, cacheBytes := range []int64{0, 1 << 16} {
		plain, told := links(t, cacheBytes), links(t, cacheBytes)
		for _, c := range []*room{plain, told} {
			c.Links.Ports = ports.New(ports.Range{First: 1, Last: 80}, ports.Range{First: 82, Last: 65535})
			c.Links.LinkFilter = func(url []byte) bool { return !strings.HasSuffix(string(url), "7") }
			rules, err := urlrule.New(urlrule.Options{StripParams: []string{"sid"}, SkipExtensions: []string{"pdf"},
				MaxPathDepth: 2})
			must(t, err)
			if cacheBytes > 0 {
				c.Links.URLRules = *rules
			}
		}
		a, b := admit.NewBatch(plain.Links), admit.NewBatch(told.Links)
		for range 300 {
			depth := uint16(rnd.IntN(3))
			plain.Links.MaxDepth, told.Links.MaxDepth = 1, 1
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
			must(t, plain.stage.SendLinks(a, &da))
			must(t, told.stage.SendLinks(b, &db))
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
	c := links(t, 1<<20)
	b := admit.NewBatch(c.Links)
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
	must(t, c.stage.SendLinks(b, &tx))
	if len(b.Tuples) != len(urls) {
		t.Fatalf("got %d tuples, want %d", len(b.Tuples), len(urls))
	}
	for i, url := range urls {
		rec := weburl.Record{URL: url, Depth: 3, Flags: weburl.FlagRedirect, Found: now.Unix()}
		rec.SetVia(urls[0], c.Saved.Hasher.URLKey(urls[0]))
		if i%50 == 7 {
			rec.Flags |= weburl.FlagRefresh
		}
		if want := rec.Append(nil); string(b.Tuples[i].Aux) != string(want) ||
			uint64(b.Tuples[i].Key) != c.Saved.Hasher.URLKey(url) {
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
		must(t, c.stage.SendLinks(b, &tx))
	}); n != 0 {
		t.Errorf("allocations of a page: got %v, want 0", n)
	}
}

// TestLinkBatchNames: a page must send the name of each host and PLD of its links once. Of a link that
// isn't admitted it sends only the name of the PLD, if an edge names that.
func TestLinkBatchNames(t *testing.T) {
	c := links(t, 1<<16)
	c.Links.Ports = ports.New(ports.Range{First: 1, Last: 8079}, ports.Range{First: 8081, Last: 65535})
	b := admit.NewBatch(c.Links)
	send := func(page string, links ...string) (names []string) {
		b.Start([]byte(page), []byte(page), 1, 0, time.Unix(1e9, 0))
		for _, l := range links {
			b.Add([]byte(l))
		}
		for _, tu := range b.Names.Tuples {
			pld, host, err := state.CheckName(c.Saved.Hasher, tu.Key, tu.Value)
			if err != nil {
				t.Error(err)
			}
			names = append(names, string(pld)+" "+string(host))
		}
		must(t, c.stage.SendLinks(b, new(account.Tx)))
		return names
	}
	got := send("http://www.a.example/", "http://x.b.co.uk/1", "http://x.b.co.uk/2", "http://b.co.uk/",
		"http://c.test.:8080/", "http://192.0.2.1/", "http://d.test./")
	want := []string{"b.co.uk ", "b.co.uk x.b.co.uk", "b.co.uk ", "b.co.uk b.co.uk", "c.test ", "192.0.2.1 ",
		"192.0.2.1 192.0.2.1", "d.test ", "d.test d.test"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n, _ := c.stage.Names.Pending(); n != 8 {
		t.Errorf("sent %d names, want 8", n)
	}
	send("http://c.test/", "http://x.b.co.uk/3", "http://d.test/")
	if n, _ := c.stage.Names.Pending(); n != 8 {
		t.Errorf("%d names after a page with the same hosts, want 8", n)
	}
}

// TestLinksWithRulesAllocateNothing: rules and a blacklist must add no allocations per link. The test has
// no regular expressions, since package regexp keeps its machines in a pool that the race detector empties.
func TestLinksWithRulesAllocateNothing(t *testing.T) {
	c := links(t, 1<<20)
	parse := func(list scope.List, text string) *scope.Set {
		s, err := scope.Parse(list, c.Saved.Suffixes, scope.Source{Name: "f", Text: []byte(text)})
		must(t, err)
		return s
	}
	c.Rules.Rules.Store(parse(scope.Rules,
		"- host a.test\n+ surt (test,b,)/x\n- prefix http://c.test/y\n- pld d.test\ndefault +\n"))
	c.Rules.Blacklist.Store(parse(scope.Blacklist, "- host e.test\n- net 192.0.2.0/24\n"))
	b := admit.NewBatch(c.Links)
	var found [][]byte
	for _, host := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		for _, path := range []string{"", "x", "y", "z.zip"} {
			found = append(found, []byte("http://"+host+".test/"+path))
		}
	}
	page := []byte("http://page.test/")
	if got := testing.AllocsPerRun(100, func() {
		b.Start(page, page, 1, 0, time.Unix(1e9, 0))
		for _, l := range found {
			b.Add(l)
		}
	}); got > 0 {
		t.Errorf("%v allocations for %d links", got, len(found))
	}
	if rules, blocked := b.Counts[state.CountLinksRules],
		b.Counts[state.CountLinksBlocked]; rules != 4+1+4 || blocked != 4 {
		t.Errorf("%d links excluded by rules, %d blocked; want 9 and 4", rules, blocked)
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
			must(b, err)
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
			c := links(b, cacheMiB<<20)
			batch, x := admit.NewBatch(c.Links), parse.NewExtractor(parse.Options{}, weburl.Options{})
			links := int64(0)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				url := fmt.Appendf(nil, "http://www.example.org/dir/page-%d.html", i%len(pages))
				batch.Start(url, url, 1, 0, time.Unix(1e9, 0))
				counts, err := x.ExtractOnce(url, pages[i%len(pages)], "",
					func(url []byte, _ *parse.Link) { batch.Add(url) }, batch.Repeat)
				must(b, err)
				links += counts.Links
				var tx account.Tx
				must(b, c.stage.SendLinks(batch, &tx))
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
	c := links(t, 1<<20)
	b := admit.NewBatch(c.Links)
	for _, page := range []struct {
		n     int
		fresh func(i int) bool
	}{{4, func(i int) bool { return i == 2 }}, {40, func(i int) bool { return i%3 != 0 }},
		{60, func(i int) bool { return true }}} {
		refreshPage(b, page.n, page.fresh)
		var tx account.Tx
		must(t, c.stage.SendLinks(b, &tx))
		for _, tuple := range b.Tuples {
			var rec weburl.Record
			var i int
			must(t, rec.Decode(tuple.Aux))
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
			batch := admit.NewBatch(links(b, 1<<20).Links)
			refreshPage(batch, 50_000, func(int) bool { return fresh })
			batch.Seen = make([]bool, len(batch.Keys))
			for b.Loop() {
				batch.Tuples = batch.Tuples[:0]
				batch.Code()
			}
		})
	}
}
