package export_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simhash"
	"drumbeat/internal/tabular"
	"drumbeat/parse"
	"drumbeat/state/audit"
	"drumbeat/state/export"
)

// similarWeb returns a web of one host with pages of 300 words: a calendar whose pages differ in numbers, a
// mirror of one page, articles of which each has editions with a few other words, and a wiki whose pages share
// a third of their words.
func similarWeb() *testworld.Web {
	text := func(seed uint64, n int) []string {
		rng := rand.New(rand.NewPCG(seed, 7))
		words := make([]string, n)
		for i := range words {
			words[i] = "w" + strings.Trim(strconv.FormatUint(rng.Uint64N(20_000), 26), "0123456789") + "oe"
		}
		return words
	}
	page := func(words []string) testworld.Answer {
		return testworld.Answer{200, "", "<html><p>" + strings.Join(words, " ")}
	}
	return &testworld.Web{Serve: func(_, path string) testworld.Answer {
		if path == "/robots.txt" {
			return testworld.NoRobots
		}
		var n, edition int
		switch {
		case path == "/":
			var links strings.Builder
			for i := range 8 {
				fmt.Fprintf(&links, "<a href=/calendar/%d></a><a href=/mirror/%d></a><a href=/wiki/%d></a>", i, i, i)
				for e := range 4 {
					fmt.Fprintf(&links, "<a href=/article/%d/%d></a>", i, e)
				}
			}
			return testworld.Answer{200, "", "<html>" + links.String()}
		case sscan(path, "/calendar/%d", &n):
			return page(append(text(1, 300), fmt.Sprintf("2026-11-%02d", n)))
		case sscan(path, "/mirror/%d", &n):
			return page(text(2, 300))
		case sscan(path, "/wiki/%d", &n):
			return page(append(text(3, 100), text(uint64(1000+n), 200)...))
		case sscan(path, "/article/%d/%d", &n, &edition):
			words := text(uint64(100+n), 300)
			for i := range edition {
				words[50*i] = "edited"
			}
			return page(words)
		}
		return testworld.Answer{404, "", ""}
	}}
}

func sscan(s, form string, into ...any) bool {
	n, err := fmt.Sscanf(s, form, into...)
	return err == nil && n == len(into)
}

// hashesOf returns the simhashes of pages by URL, and checks them.
func hashesOf(t *testing.T, web *testworld.Web, rows []map[string]any) map[string]uint64 {
	t.Helper()
	hashes := map[string]uint64{}
	for _, r := range rows {
		url := r["url"].(string)
		var s simhash.Sketch
		parse.EachText([]byte(web.Serve("a.test", strings.TrimPrefix(url, "http://a.test")).Body), false, s.Add)
		want, _ := s.Sum()
		text, _ := r["simhash"].(string)
		got, err := strconv.ParseUint("0"+text, 16, 64)
		if err != nil || got != want {
			t.Errorf("%s: simhash %q, want %x", url, text, want)
		}
		if got != 0 {
			hashes[url] = got
		}
	}
	return hashes
}

// nearPairs compares each page with each. first has the representative of the pages with one hash, if there
// are several.
func nearPairs(hashes map[string]uint64, first map[uint64]string) map[[2]string]int {
	for url, h := range hashes {
		if first[h] == "" {
			first[h] = url // the only one
		}
	}
	want := map[[2]string]int{}
	for a, h := range hashes {
		for b, h2 := range hashes {
			d := simhash.Distance(h, h2)
			if d == 0 && b == first[h] && a != b || d > 0 && d <= 3 && first[h] == a && first[h2] == b {
				want[[2]string{min(a, b), max(a, b)}] = d
			}
		}
	}
	return want
}

// TestNearDuplicates: each stored page has the simhash of its body, and the export has the pairs that a
// comparison of each with each finds, among them no pages of a wiki with the same frame.
func TestNearDuplicates(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web := similarWeb()
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, web, fs, "http://a.test/")
		opt.Output.Store, opt.Output.Simhash = true, true
		crawltest.MustRun(t, t.Context(), opt)
		if rep, err := audit.Deep(audit.Options{FS: fs, Dirs: opt.Disk.Dirs, Out: opt.Disk.Out}); err != nil ||
			!rep.Balanced() || !rep.Output.StoredAll {
			t.Fatalf("audit: %v, %+v, %q", err, rep.Output, rep.Bad)
		}
		rows := func(kind export.Kind) []map[string]any {
			x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: kind, Format: tabular.JSONL,
				Target: "t-" + string(kind), TempDir: "tmp"}
			if _, err := export.Run(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			return testworld.ExportedRows(t, fs, x.Target)
		}
		hashes := hashesOf(t, web, rows(export.Pages))
		if len(hashes) != 8*7 {
			t.Errorf("%d pages with a hash, want 56", len(hashes))
		}
		// Pages with one hash have one representative.
		first := map[uint64]string{}
		got := map[[2]string]int{}
		var calendar, mirror, article, edited int
		for _, r := range rows(export.Near) {
			a, b := r["url"].(string), r["near_url"].(string)
			d := int(r["distance"].(float64))
			same := r["same_body"].(bool)
			if d == 0 {
				first[hashes[b]] = b
			}
			got[[2]string{min(a, b), max(a, b)}] = d
			if d != simhash.Distance(hashes[a], hashes[b]) || r["simhash"] != fmt.Sprintf("%016x", hashes[a]) ||
				r["near_simhash"] != fmt.Sprintf("%016x", hashes[b]) || same != strings.Contains(a, "/mirror/") {
				t.Errorf("row %v", r)
			}
			switch {
			case strings.Contains(a, "/wiki/") || strings.Contains(b, "/wiki/"):
				t.Errorf("row %v of different pages", r)
			case strings.Contains(a, "/calendar/"):
				calendar++
			case strings.Contains(a, "/mirror/"):
				mirror++
			case strings.Contains(a, "/article/"):
				if article++; d > 0 {
					edited++
				}
			}
		}
		want := nearPairs(hashes, first)
		if !maps.Equal(got, want) {
			t.Errorf("%d rows, want %d", len(got), len(want))
		}
		if calendar != 7 || mirror != 7 || edited < 8 {
			t.Errorf("%d rows of the calendar, %d of the mirror, want 7; %d of articles, %d of them similar",
				calendar, mirror, article, edited)
		}
	})
}
