package crawl

import (
	"slices"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/simweb"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// leadsTo returns the URLs that a page of the web links or redirects to.
func leadsTo(t *testing.T, web *simweb.Web, url string) (to []string) {
	t.Helper()
	page, _ := web.Page(url)
	x := parse.NewExtractor(parse.Options{}, weburl.Options{})
	body := page.Body
	if page.Location != "" {
		body = []byte("<a href='" + page.Location + "'>moved</a>")
	}
	if _, err := x.ExtractOnce([]byte(url), body, "text/html",
		func(url []byte, _ *parse.Link) { to = append(to, string(url)) }, func(int) {}); err != nil {
		t.Fatal(err)
	}
	return to
}

// metaVias returns the referrers in the metadata records of the output.
func metaVias(t *testing.T, fs disk.FS, dirs []string) map[string]string {
	t.Helper()
	vias := map[string]string{}
	eachRecord(t, fs, dirs, func(rec *warc.Record) {
		if rec.Type() == "metadata" {
			_, via, _ := strings.Cut("\r\n"+string(rec.Block), "\r\nvia: ")
			via, _, _ = strings.Cut(via, "\r\n")
			vias[rec.Get("WARC-Target-URI")] = via
		}
	})
	return vias
}

// TestVia: crawl log, metadata and explain must name the page on which the crawl found each URL first. That
// page must link or redirect to the URL. This includes URLs that answered 404.
func TestVia(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, func(o *simweb.Options) { o.Pages = 300 })
		mustRun(t, t.Context(), opt)
		vias := metaVias(t, fs, opt.Disk.Dirs)
		set := disk.Set{FS: fs, Paths: opt.Disk.Dirs}
		files, err := crawllog.Files(set, "crawl")
		must(t, err)
		secret, err := (&state.Saved{Set: set}).OpenSecret(nil)
		must(t, err)
		hasher := weburl.NewHasher(secret)
		missing, lines := "", 0
		links := map[string][]string{}
		for _, f := range files {
			if err := crawllog.ReadFile(fs, f, func(e *crawllog.Entry) error {
				lines++
				if e.Key != hasher.URLKey([]byte(e.URL)) {
					t.Errorf("%s has the key %x", e.URL, e.Key)
				}
				if e.Via == "" && e.Depth > 0 || e.Parent != 0 {
					t.Errorf("%s, depth %d: via %q, parent %x", e.URL, e.Depth, e.Via, e.Parent)
				}
				if e.Status != 0 && vias[e.URL] != e.Via {
					t.Errorf("%s: via %q in the log, %q in the metadata", e.URL, e.Via, vias[e.URL])
				}
				if e.Via == "" {
					return nil
				}
				if links[e.Via] == nil {
					links[e.Via] = leadsTo(t, web, e.Via)
				}
				if !slices.Contains(links[e.Via], e.URL) {
					t.Errorf("%s isn't linked from %s", e.URL, e.Via)
				}
				if e.Status == 404 {
					missing = e.URL
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if lines < 300 || missing == "" {
			t.Fatalf("%d lines, 404: %q", lines, missing)
		}
		x := explainer(t, fs, opt.Disk.Dirs)
		reports, err := x.URLs([]string{missing})
		if err != nil || reports[0].Ended == nil || reports[0].Record == nil ||
			reports[0].Record.ParentURL != vias[missing] || vias[missing] == "" {
			t.Errorf("%s, via %q: got %+v, %v", missing, vias[missing], reports[0], err)
		}
	})
}
