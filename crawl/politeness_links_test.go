package crawl

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/warc"
)

// crawlLinks crawls the scenario "links" and returns the number of requests for each path.
func crawlLinks(t *testing.T, set func(*Options)) (asked map[string]int, res *Result) {
	asked = map[string]int{}
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs = 2, 2, 4, 2
			o.Hostile = []string{"links"}
		})
		mem := memfs.New(*seedFlag)
		opt := simOptions(t, web, mem)
		client, err := fetch.New(fetch.Options{
			Dial: web.Dial, AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: ports.Of(8080),
			TLS: fetch.TLSOptions{Roots: web.CAPool()}, Limits: hostileLimits,
		})
		if err != nil {
			t.Fatal(err)
		}
		opt.Network.Fetcher, opt.Network.FetchLimits, opt.Admission.SeedLines, opt.Output.CrawlLog = client,
			hostileLimits, web.HostileSeeds(), state.LogAll
		set(&opt)
		res = mustRun(t, t.Context(), opt)
		if res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
		}
		checkBalanced(t, mem, opt.Disk.Dirs)
		for _, q := range web.Log().Snapshot().Requests {
			if _, path, ok := strings.Cut(q.URL, ".test"); ok {
				asked[strings.TrimPrefix(path, ":8080")]++
			}
		}
	})
	return asked, res
}

// TestLinksInEveryManner: a crawler that follows links in all their forms, on pages of all kinds, must
// request each target once. It must not request targets that the site asks crawlers to leave alone, or text
// that is no link.
func TestLinksInEveryManner(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Options)
		want []string // first segments of the requested targets
	}{
		{"default", func(*Options) {}, []string{"yes"}},
		{"ignore nofollow", func(o *Options) { o.Links.IgnoreNofollow = true }, []string{"yes", "nofollow"}},
		{"alternate", func(o *Options) { o.Links.Rels = parse.DefaultRels | parse.RelAlternate },
			[]string{"yes", "alternate"}},
		{"assets", func(o *Options) { o.Links.Assets = true }, []string{"yes", "asset"}},
		{"forms", func(o *Options) { o.Links.Forms = true }, []string{"yes", "form"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked, res := crawlLinks(t, test.set)
			targets := simweb.LinkTargets()
			if len(targets) < 70 {
				t.Fatalf("only %d targets: %q", len(targets), targets)
			}
			for _, path := range targets {
				want := 0
				if slices.Contains(test.want, strings.Split(path, "/")[1]) {
					want = 1
				}
				if asked[path] != want {
					t.Errorf("%s was requested %d times, want %d", path, asked[path], want)
				}
			}
			held := int64(0)
			if !slices.Contains(test.want, "nofollow") {
				held = 11 // includes /both, whose other link is followed
			}
			if n := res.Snapshot.Count(state.CountLinksNoFollow); n != held {
				t.Errorf("nofollow excluded %d links, want %d", n, held)
			}
			if n := res.Snapshot.Count(state.CountSniffed); n != 5 {
				t.Errorf("recognised %d pages by their bytes, want 5", n)
			}
			if n := res.Snapshot.Count(state.CountNoIndex); n != 3 {
				t.Errorf("%d pages ask not to be indexed, want 3", n)
			}
		})
	}
}

// rawPages makes w answer with whole responses, by path. It adds their Content-Length.
func rawPages(w *tinyWeb, pages map[string][2]string) {
	w.Serve = pagesOnly
	w.Raw = func(c net.Conn, _, path string) bool {
		p, ok := pages[path]
		if ok {
			_, _ = fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", p[0], len(p[1]), p[1])
		}
		return ok
	}
}

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
	inBubble(t, func(t *testing.T) {
		var w tinyWeb
		rawPages(&w, pages)
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, &w, fs, "http://keep.test/")
		atOnce(&opt)
		opt.Limits.Linger = 0
		mustRun(t, t.Context(), opt)
		for _, r := range w.Pages("keep.test") {
			if _, ok := want[r.Path]; !ok {
				t.Errorf("%s was requested", r.Path)
			}
		}
		set := disk.Set{FS: fs, Paths: opt.Disk.Dirs}
		stored, logged := map[string]string{}, map[string]string{}
		files, err := warc.Files(set)
		for _, name := range files {
			err = errors.Join(err, warc.ReadFile(fs, name, 1<<30, func(r *warc.Record) error {
				if r.Type() == "metadata" {
					stored[strings.TrimPrefix(r.Get("WARC-Target-URI"), "http://keep.test")] = metadataIn(r)
				}
				return nil
			}))
		}
		note := func(e *crawllog.Entry) error {
			logged[strings.TrimPrefix(e.URL, "http://keep.test")] = metadataOf(e)
			return nil
		}
		m, _, merr := state.ReadManifest(set)
		st, serr := state.Part[crawllog.State](m, state.NameCrawlLog)
		err = errors.Join(err, merr, serr, crawllog.Walk(crawllog.Options{Set: set, Prefix: "crawl"}, st, note))
		names, nerr := crawllog.Files(set, "crawl")
		for _, name := range names {
			err = errors.Join(err, crawllog.ReadFile(fs, name, note))
		}
		if err = errors.Join(err, nerr); err != nil {
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

// TestAssetDepth: with --follow assets the crawl must fetch the assets of the deepest pages and up to three levels
// of imports below them, and must not follow the links of an embedded page.
func TestAssetDepth(t *testing.T) {
	const html, css = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n"
	pages := map[string][2]string{
		"/": {html,
			"<a href=/deep><link rel=stylesheet href=/1.css><object data=/embedded><img src=//cdn.test/i.png>"},
		"/1.css": {css, "@import '2.css'"}, "/2.css": {css, "@import '3.css'; a{b:url(3.png)}"},
		"/3.css": {css, "a{b:url(4.png)}"}, "/embedded": {html, "<a href=/deeper><img src=/in.png>"},
	}
	inBubble(t, func(t *testing.T) {
		var w tinyWeb
		rawPages(&w, pages)
		opt := tinyOptions(t, &w, memfs.New(*seedFlag), "http://depth.test/")
		atOnce(&opt)
		opt.Limits.Linger, opt.Links.Assets, opt.Limits.MaxDepth = 0, true, 0
		res := mustRun(t, t.Context(), opt)
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
