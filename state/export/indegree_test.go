package export_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// TestExportLinkCounts: the edges of PLDs have the number of links, those of pages stored as revisits included. Links
// that the crawl did not take are counted where an edge exists; a pair that has only such links is named in a note.
func TestExportLinkCounts(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web := &testworld.Web{Serve: func(host, path string) testworld.Answer {
			switch {
			case path == "/robots.txt":
				return testworld.NoRobots
			case host == "a.test" && path == "/":
				return testworld.Answer{200, "", "<html><a href=/x>x</a><a href=/y>y</a><a " +
					"href=http://b.test/>b</a><a href=http://w.b.test/>b</a>" +
					"<a href=http://b.test/ rel=nofollow>b</a><a href=http://c.test/ rel=nofollow>c</a><a " +
					"href=/moved>m</a>"}
			case path == "/moved":
				return testworld.Answer{301, "Location: http://b.test/\r\n", ""}
			case path == "/x", path == "/y": // equal bodies
				return testworld.Answer{200, "", "<html><a href=http://d.test/>d</a>" + strings.Repeat("text ", 100)}
			}
			return testworld.Answer{200, "", "<html>" + host}
		}}
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, web, fs, "http://a.test/")
		opt.Output.Store = true
		crawltest.MustRun(t, t.Context(), opt)
		for _, counted := range []bool{false, true} {
			x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.PLDEdges, Format: tabular.JSONL,
				CountLinks: counted, Target: "edges", TempDir: "tmp"} // the second replaces the first
			rep, err := export.Run(t.Context(), x)
			must(t, err)
			got := map[string]any{}
			for _, r := range testworld.ExportedRows(t, fs, x.Target) {
				got[fmt.Sprint(r["from_pld"], " ", r["to_pld"])] = r["links"]
			}
			want, notes := map[string]any{"a.test b.test": nil, "a.test d.test": nil}, []string(nil)
			if counted {
				want["a.test b.test"], want["a.test d.test"] = 4.0, 2.0
				notes = []string{"1 pair of PLDs has links but no edge: the crawl did not follow these links"}
			}
			if !maps.Equal(got, want) || !slices.Equal(rep.Notes, notes) {
				t.Errorf("counted %v: got %v, want %v; notes %q", counted, got, want, rep.Notes)
			}
		}
	})
}
