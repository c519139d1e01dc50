package export_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// listed is a line of a list, with the verdict that the truth demands.
type listed struct {
	url      string
	deadline time.Time
	want     export.Verdict
}

// listOf makes a list of the URLs that a site answered first at these times, and of others.
func listOf(first map[string]time.Time) (lines []listed) {
	for url, at := range first {
		lines = append(lines, listed{url, time.Time{}, export.Met}, listed{url, at.Add(time.Hour), export.Met},
			listed{url, at.Add(-time.Hour), export.Late})
	}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)
	return append(lines, listed{"http://a.test/unknown", time.Time{}, export.Missed},
		listed{"http://a.test/unknown", past, export.Missed}, listed{"http://a.test/unknown", future, export.Open},
		listed{"https://unknown.test/", time.Time{}, export.Missed}, listed{"http://[", time.Time{}, export.Missed})
}

func (l *listed) key() string { return fmt.Sprint(l.url, " ", l.deadline.Unix(), " ", l.want) }

// TestCoverage: the verdict about each URL of a list agrees with what the site answered and when, before and after
// deadlines, and each miss has its reason. An export of the state has the same places.
func TestCoverage(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		crawltest.MustRun(t, t.Context(), opt)
		first := map[string]time.Time{} // answers that are no failures
		for _, s := range web.served {
			if _, has := first[s.url]; !has && s.code < 500 {
				first[s.url] = s.at.Truncate(time.Second)
			}
		}
		lines, got, places := listOf(first), map[string]int{}, map[string]string{}
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, TempDir: "tmp", RAMBytes: 1}
		list := func(fn func(string, time.Time) error) error {
			for _, l := range lines {
				if err := fn(strings.TrimPrefix(l.url, "https://"), l.deadline); err != nil {
					return err
				}
			}
			return nil
		}
		rep, err := export.Coverage(t.Context(), x, list, func(c *export.Covered) error {
			l := listed{c.URL, c.Deadline.Truncate(time.Second), c.Verdict}
			got[l.key()]++
			places[c.URL] = c.Place
			answered := c.Verdict == export.Met || c.Verdict == export.Late
			switch at, known := first[c.URL]; {
			case known != answered, known != (c.Place != ""), known && c.Status == 0,
				known && c.Answered.Sub(at).Abs() > time.Minute, (c.Fault != "") != (c.URL == "http://["):
				t.Errorf("%+v, first answer %v", c, at)
			}
			return nil
		})
		must(t, err)
		for _, l := range lines {
			l.deadline = l.deadline.Truncate(time.Second)
			if n := got[l.key()]; n != 1 {
				t.Errorf("%+v: %d times", l, n)
			}
		}
		if len(got) != len(lines) || len(rep.Notes) > 0 || len(first) != 14 {
			t.Errorf("%d answers for %d lines of %d URLs; notes %q", len(got), len(lines), len(first), rep.Notes)
		}
		stop := errors.New("stop")
		_, err = export.Coverage(t.Context(), x, list, func(*export.Covered) error { return stop })
		if !errors.Is(err, stop) {
			t.Errorf("an error of the caller: %v", err)
		}
		x.Kind, x.Format, x.Target = export.URLs, tabular.JSONL, "state"
		_, err = export.Run(t.Context(), x)
		must(t, err)
		for _, r := range testworld.ExportedRows(t, fs, "state") {
			if url := r["url"].(string); places[url] != r["place"] {
				t.Errorf("%s is in %q, and in %q by export state", url, places[url], r["place"])
			}
		}
	})
}
