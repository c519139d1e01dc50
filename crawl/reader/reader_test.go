package reader_test

import (
	"slices"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// TestAssetDepth: with --follow assets the crawl must fetch the assets of the deepest pages and up to three
// levels of imports below them, and must not follow the links of an embedded page.
func TestAssetDepth(t *testing.T) {
	const html, css = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n"
	pages := map[string][2]string{
		"/": {html,
			"<a href=/deep><link rel=stylesheet href=/1.css><object data=/embedded><img src=//cdn.test/i.png>"},
		"/1.css": {css, "@import '2.css'"}, "/2.css": {css, "@import '3.css'; a{b:url(3.png)}"},
		"/3.css": {css, "a{b:url(4.png)}"}, "/embedded": {html, "<a href=/deeper><img src=/in.png>"},
	}
	testworld.InBubble(t, func(t *testing.T) {
		w := new(testworld.Web)
		w.RawPages(pages)
		opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://depth.test/")
		crawltest.AtOnce(&opt)
		opt.Limits.Linger, opt.Links.Assets, opt.Limits.MaxDepth = 0, true, 0
		res := crawltest.MustRun(t, t.Context(), opt)
		var got []string
		for _, r := range w.Pages("") {
			got = append(got, r.Host+r.Path)
		}
		slices.Sort(got)
		want := []string{"cdn.test/i.png", "depth.test/", "depth.test/1.css", "depth.test/2.css", "depth.test/3.css",
			"depth.test/3.png", "depth.test/embedded", "depth.test/in.png"}
		if !slices.Equal(got, want) {
			t.Errorf("requested %q, want %q", got, want)
		}
		if n := res.Snapshot.Count(state.CountEdges); n != 0 {
			t.Errorf("%d edges from images", n)
		}
	})
}
