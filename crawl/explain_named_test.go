package crawl

import (
	"strings"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/explain"
)

// TestExplainNames: the PLDs that link to one have their names, also those whose names wait for a merge.
func TestExplainNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(host, path string) answer {
			if path == "/robots.txt" {
				return noRobots
			}
			return answer{200, "", "<html><a href=http://b.test/>b</a><a href=http://c.test/>c</a>"}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/")
		mustRun(t, t.Context(), opt)
		x, err := explain.NewExplainer(explain.Options{FS: opt.FS, Dirs: opt.Dirs})
		if err != nil {
			t.Fatal(err)
		}
		reports, err := x.Sites([]string{"b.test"})
		if err != nil {
			t.Fatal(err)
		}
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
		inBubble(t, func(t *testing.T) {
			w := &tinyWeb{Serve: func(_, path string) answer {
				if path == "/robots.txt" {
					return noRobots
				}
				return answer{200, "", "<html><meta name=robots content=noarchive>a page"}
			}}
			opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/")
			opt.Store, opt.NoArchive, opt.CrawlLog = true, state.ArchiveDrop, log
			mustRun(t, t.Context(), opt)
			x, err := explain.NewExplainer(explain.Options{FS: opt.FS, Dirs: opt.Dirs})
			if err != nil {
				t.Fatal(err)
			}
			reports, err := x.URLs([]string{"http://a.test/"})
			if err != nil {
				t.Fatal(err)
			}
			if why := strings.Join(reports[0].Why, "\n"); !strings.Contains(why, "its response is not stored: the page asks for that") {
				t.Errorf("%v: %s", log, why)
			}
		})
	}
}
