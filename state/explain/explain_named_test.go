package explain_test

import (
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/explain"
)

// TestExplainNames: the PLDs that link to one have their names, also those whose names wait for a merge.
func TestExplainNames(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: func(host, path string) testworld.Answer {
			if path == "/robots.txt" {
				return testworld.NoRobots
			}
			return testworld.Answer{200, "", "<html><a href=http://b.test/>b</a><a href=http://c.test/>c</a>"}
		}}
		opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/")
		crawltest.MustRun(t, t.Context(), opt)
		x, err := explain.NewExplainer(explain.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs})
		must(t, err)
		reports, err := x.Sites([]string{"b.test"})
		must(t, err)
		names := map[string]bool{}
		for _, l := range reports[0].Linking {
			names[l.PLD] = true
		}
		if len(names) != 2 || !names["a.test"] || !names["c.test"] {
			t.Errorf("b.test is linked by %v", names)
		}
	})
}

// TestExplainNotStored: of a page that is left out of the output, explain says so, whether or not the log has a line.
func TestExplainNotStored(t *testing.T) {
	for _, log := range []state.LogLevel{state.LogAll, state.LogErrors} {
		testworld.InBubble(t, func(t *testing.T) {
			w := &testworld.Web{Serve: func(_, path string) testworld.Answer {
				if path == "/robots.txt" {
					return testworld.NoRobots
				}
				return testworld.Answer{200, "", "<html><meta name=robots content=noarchive>a page"}
			}}
			opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/")
			opt.Output.Store, opt.Output.NoArchive, opt.Output.CrawlLog = true, state.ArchiveDrop, log
			crawltest.MustRun(t, t.Context(), opt)
			x, err := explain.NewExplainer(explain.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs})
			must(t, err)
			reports, err := x.URLs([]string{"http://a.test/"})
			must(t, err)
			if why := strings.Join(reports[0].Why, "\n"); !strings.Contains(why,
				"its response is not stored, because the page asks for that") {
				t.Errorf("%v: %s", log, why)
			}
		})
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
