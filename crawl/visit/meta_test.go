package visit_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/crawllog"
	"drumbeat/state"
	"drumbeat/warc"
)

// TestPageMetadataIsKept: the output and the crawl log must have the metadata of each response, whether the
// crawl follows it or not.
func TestPageMetadataIsKept(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	pages := map[string][2]string{
		"/": {ok, "<base href=/b/><link rel=canonical href=c#x><link rel=canonical href=d><meta name=robots " +
			"content='NOINDEX,follow'>" +
			"<meta http-equiv=refresh content='0;url=/pdf'><a href=/moved><a href=/both>"},
		"/pdf": {"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nX-Robots-Tag: none\r\nLink: " +
			"</canon>;rel=canonical\r\n", "%PDF"},
		"/moved": {"HTTP/1.1 301 Moved\r\nX-Robots-Tag: drumbeat: nofollow\r\nLocation: /away\r\n", ""},
		"/both": {ok + "Refresh: 3;/fresh\r\nLink: <http://other.test/>;rel=canonical\r\nX-Robots-Tag: otherbot: " +
			"none\r\n", "<meta name=robots content=nofollow>"},
		"/b/c": {ok, "<link rel=canonical href='mailto:x'>"},
	}
	want := map[string]string{
		"/":      "robots=noindex canonical=http://keep.test/b/c refresh=http://keep.test/pdf",
		"/pdf":   "robots=noindex, nofollow canonical=http://keep.test/canon",
		"/moved": "robots=nofollow redirect=http://keep.test/away",
		"/both":  "robots=nofollow canonical=http://other.test/ refresh=http://keep.test/fresh",
		"/b/c":   "", "/b/d": "",
	}
	testworld.InBubble(t, func(t *testing.T) {
		w := new(testworld.Web)
		w.RawPages(pages)
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, w, fs, "http://keep.test/")
		crawltest.AtOnce(&opt)
		opt.Limits.Linger = 0
		crawltest.MustRun(t, t.Context(), opt)
		for _, r := range w.Pages("keep.test") {
			if _, ok := want[r.Path]; !ok {
				t.Errorf("%s was requested", r.Path)
			}
		}
		set := disk.Set{FS: fs, Paths: opt.Disk.Dirs}
		stored, logged := map[string]string{}, map[string]string{}
		testworld.EachRecord(t, fs, opt.Disk.Dirs, func(r *warc.Record) {
			if r.Type() == "metadata" {
				stored[strings.TrimPrefix(r.Get("WARC-Target-URI"), "http://keep.test")] = metadataIn(r)
			}
		})
		note := func(e *crawllog.Entry) error {
			logged[strings.TrimPrefix(e.URL, "http://keep.test")] = metadataOf(e)
			return nil
		}
		m, _, err := state.ReadManifest(set)
		st, serr := state.Part[crawllog.State](m, state.NameCrawlLog)
		_, lerr := crawllog.Scan(crawllog.Options{Set: set, Prefix: "crawl"}, st, note,
			func(err error) error { return err })
		if err = errors.Join(err, serr, lerr); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(stored, want) {
			t.Errorf("stored: got %q\nwant %q", stored, want)
		}
		if !maps.Equal(logged, want) {
			t.Errorf("logged: got %q\nwant %q", logged, want)
		}
	})
}

// metadataIn joins the metadata of a page in a record.
func metadataIn(r *warc.Record) string {
	var said []string
	for line := range strings.SplitSeq(string(r.Block), "\r\n") {
		if name, value, _ := strings.Cut(line,
			": "); slices.Contains([]string{"robots", "canonical", "refresh", "redirect"}, name) {
			said = append(said, name+"="+value)
		}
	}
	return strings.Join(said, " ")
}

// metadataOf joins the metadata of a page.
func metadataOf(e *crawllog.Entry) string {
	var said []string
	for _, f := range [][2]string{{"robots", e.Robots}, {"canonical", e.Canonical}, {"refresh", e.Refresh},
		{"redirect", e.Redirect}} {
		if f[1] != "" {
			said = append(said, f[0]+"="+f[1])
		}
	}
	return strings.Join(said, " ")
}
