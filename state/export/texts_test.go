package export_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/human"
	"drumbeat/internal/revisit"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/export"
	"drumbeat/state/extract"
)

// clustersOf returns the paths of the pages that are kept of similarWeb, and of the copies, with those that are kept.
func clustersOf(near bool, mirror string) (kept map[string]bool, copies map[string]string) {
	kept, copies = map[string]bool{"/": true}, map[string]string{}
	add := func(path, first string) {
		if path == first {
			kept[path] = true
		} else {
			copies[path] = first
		}
	}
	for i := range 8 {
		add(fmt.Sprintf("/mirror/%d", i), mirror)
		page := fmt.Sprintf("/wiki/%d", i)
		add(page, page)
		page = fmt.Sprintf("/calendar/%d", i)
		if add(page, page); near && i > 0 {
			delete(kept, page)
			copies[page] = "/calendar/0"
		}
		for e := range 4 {
			page = fmt.Sprintf("/article/%d/%d", i, e)
			if add(page, page); near && e > 0 {
				delete(kept, page)
				copies[page] = fmt.Sprintf("/article/%d/0", i)
			}
		}
	}
	return kept, copies
}

// TestTexts: of the similar pages of a web one of each cluster is kept, the one with the shortest and least URL of
// those with a body; the others are listed with it. Pages that share a frame are no copies.
func TestTexts(t *testing.T) {
	for _, seen := range []state.ContentSeen{state.ContentRecord, state.ContentOff} {
		t.Run(string(seen), func(t *testing.T) { testTexts(t, seen) })
	}
}

func testTexts(t *testing.T, seen state.ContentSeen) {
	testworld.InBubble(t, func(t *testing.T) {
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, similarWeb(), fs, "http://a.test/")
		opt.Output.Store = true
		opt.Output.ContentSeen = seen
		crawltest.MustRun(t, t.Context(), opt)
		for _, dedup := range []export.Dedup{export.DedupExact, export.DedupNear} {
			x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Out: opt.Disk.Out, Kind: export.Texts,
				Format: tabular.JSONL, Dedup: dedup, Target: "t-" + string(dedup), TempDir: "tmp",
				Fields: []extract.Field{extract.Text, extract.MinHash}, PartBytes: 4 << 10}
			rep, err := export.Run(t.Context(), x)
			if err != nil || rep.Rows != 1+8*7 || len(rep.Notes) != 1 {
				t.Errorf("%s: %v, %+v", dedup, err, rep)
			}
			path := func(url any) string { return strings.TrimPrefix(url.(string), "http://a.test") }
			got := map[string]bool{}
			kept := testworld.ExportedRows(t, fs, x.Target+"/kept")
			for _, r := range kept {
				if got[path(r["url"])] = true; r["text"] == nil || r["minhash"] == nil && path(r["url"]) != "/" {
					t.Errorf("row %v", r)
				}
			}
			mirror := "/mirror/0"
			for i := 7; i >= 0 && seen == state.ContentRecord; i-- { // the one that was stored: others are revisits
				if path := fmt.Sprintf("/mirror/%d", i); got[path] {
					mirror = path
				}
			}
			want, copies := clustersOf(dedup == export.DedupNear, mirror)
			if !maps.Equal(got, want) {
				t.Errorf("%s: kept %q, want %q", dedup, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
			other := map[string]string{}
			for _, r := range testworld.ExportedRows(t, fs, x.Target+"/duplicates") {
				url := path(r["url"])
				if other[url] = path(r["kept_url"]); r["same_text"] != strings.HasPrefix(url, "/mirror/") ||
					r["similarity"].(float64) < 0.8 || !strings.HasPrefix(url, "/article/") && r["similarity"] != 1.0 {
					t.Errorf("row %v", r)
				}
			}
			if !maps.Equal(other, copies) {
				t.Errorf("%s: copies %v, want %v", dedup, other, copies)
			}
			again, err := export.Run(t.Context(), x)
			if err != nil || !again.Complete || again.Kept != rep.Rows {
				t.Errorf("%s: again: %v, %+v", dedup, err, again)
			}
			// A run that loses its last parts makes them again.
			files, err := fs.List(x.Target + "/kept")
			if err != nil || len(files) < 5 {
				t.Fatalf("%q, %v", files, err)
			}
			slices.Sort(files)
			lost := x.Target + "/kept/" + files[len(files)-1]
			if err := fs.Remove(lost); err != nil {
				t.Fatal(err)
			}
			if again, err = export.Run(t.Context(), x); err != nil || again.Complete {
				t.Errorf("%s: without %s: %v, %+v", dedup, lost, err, again)
			}
			if rows := testworld.ExportedRows(t, fs, x.Target+"/kept"); fmt.Sprint(rows) != fmt.Sprint(kept) {
				t.Errorf("%s: other rows without %s", dedup, lost)
			}
		}
	})
}

// TestTextsSimilarity: near copies of a similarity of 1 are those with equal signatures.
func TestTextsSimilarity(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, similarWeb(), fs, "http://a.test/")
		opt.Output.Store = true
		crawltest.MustRun(t, t.Context(), opt)
		kept := func(dedup export.Dedup, least float64) []map[string]any {
			x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Texts, Format: tabular.JSONL, Dedup: dedup,
				Similarity: least, Target: "texts", TempDir: "tmp", Fields: []extract.Field{extract.MinHash}}
			_, err := export.Run(t.Context(), x) // it replaces the table that has other copies
			must(t, err)
			return testworld.ExportedRows(t, fs, "texts/kept")
		}
		texts, signatures := kept(export.DedupExact, 0), map[string]bool{}
		for _, r := range texts {
			signatures[fmt.Sprint(r["minhash"])] = true
		}
		near, equal := kept(export.DedupNear, 0), kept(export.DedupNear, 1)
		if len(equal) != len(signatures) || len(near) >= len(equal) || len(equal) >= len(texts) {
			t.Errorf("%d texts with %d signatures; %d are kept with a similarity of 1, %d without", len(texts),
				len(signatures), len(equal), len(near))
		}
	})
}

// TestTextsOfVisits: visits that found a kept page unchanged are no copies, neither in the table nor in its sum.
func TestTextsOfVisits(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, similarWeb(), fs, "http://a.test/")
		opt.Output.Store = true
		opt.Recrawl = &revisit.Policy{Kind: revisit.Uniform, Least: day, Longest: day, Default: day, Gone: 9}
		opt.Limits.MaxTime = 36 * time.Hour
		crawltest.MustRun(t, t.Context(), opt)
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Texts, Format: tabular.JSONL,
			Dedup: export.DedupExact, Target: "texts", TempDir: "tmp"}
		rep, err := export.Run(t.Context(), x)
		must(t, err)
		rows := testworld.ExportedRows(t, fs, "texts/duplicates")
		want := human.Counted(int64(len(rows)), "copy is listed", "copies are listed")
		// The seven other mirrors, at both visits.
		if len(rows) != 14 || len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], want) {
			t.Errorf("%d rows, notes %q, want %s", len(rows), rep.Notes, want)
		}
	})
}
