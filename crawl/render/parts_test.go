package render_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/render"
	"drumbeat/state"
	"drumbeat/warc"
)

// typed answers requests with the type of their path's extension. Pages are those of serve; "" is a 404.
func typed(serve func(host, path string) string) *testworld.Web {
	w := &testworld.Web{Serve: testworld.PagesOnly}
	w.Raw = func(c net.Conn, host, path string) bool {
		name, _, _ := strings.Cut(path, "?")
		mime, head := "text/html", "200 OK"
		for ext, t := range map[string]string{".css": "text/css", ".png": "image/png", ".webp": "image/webp",
			".woff2": "font/woff2", ".js": "text/javascript", ".json": "application/json", ".txt": "text/plain"} {
			if strings.HasSuffix(name, ext) {
				mime = t
			}
		}
		body := serve(host, path)
		if to, ok := strings.CutPrefix(body, "-> "); ok {
			head, body = "302 Found\r\nLocation: "+to, ""
		} else if body == "" {
			head = "404 Not Found"
		}
		const form = "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
		_, _ = fmt.Fprintf(c, form, head, mime, len(body), body)
		return true
	}
	return w
}

// responses counts the response records of the output by URL, and those that are marked as of scripts.
func responses(t *testing.T, opt *crawl.Options) (all, scripts map[string]int) {
	t.Helper()
	all, scripts = map[string]int{}, map[string]int{}
	testworld.EachRecord(t, opt.Disk.FS, opt.Disk.Dirs, func(r *warc.Record) {
		if r.Type() != "response" {
			return
		}
		all[r.Get("WARC-Target-URI")]++
		if r.Get("WARC-Resource-Type") == warc.KindScript {
			scripts[r.Get("WARC-Target-URI")]++
		}
	})
	return all, scripts
}

// partsOf crawls a page at http://a.test/r, in the scope of its host, whose requests are named, and whose scripts make
// dom of it.
func partsOf(t *testing.T, w *testworld.Web, dom string, resources, requests []string,
	change func(*crawl.Options)) (*crawl.Options, *crawl.Result) {
	t.Helper()
	opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/r")
	crawltest.AtOnce(&opt)
	opt.Admission.Scope = state.ScopeHost
	withBrowser(t, &opt, func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error) {
		for _, url := range requests {
			if _, err := f.Fetch(ctx, url); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
		return &render.Result{HTML: []byte(dom), Base: p.URL, Resources: resources}, nil
	})
	if change != nil {
		change(&opt)
	}
	res := crawltest.MustRun(t, t.Context(), opt)
	if rep := testworld.Deep(t, opt.Disk.FS, opt.Disk.Dirs); !rep.Balanced() {
		t.Errorf("audit: %+v", rep)
	}
	return &opt, res
}

// partsSite serves the parts of a page on several hosts.
func partsSite() *testworld.Web {
	return typed(func(host, path string) string {
		switch {
		case path == "/robots.txt":
			return map[string]string{"closed.test": "User-agent: *\nDisallow: /"}[host]
		case path == "/r":
			return "<p>page"
		case path == "/r9":
			return "<a href=/further>further</a><img src=/further.png>"
		case path == "/s.css":
			return "@import url(http://cdn.test/more.css); p { background: url(/back.png) }"
		case path == "/more.css":
			return "@font-face { src: url(http://fonts.test/f.woff2) }"
		case path == "/moved.png":
			return "-> http://store.test/target.png"
		case path == "/big.png":
			return strings.Repeat("x", 100_000)
		case strings.HasPrefix(path, "/loop.css"):
			return "@import url(/loop.css?" + path[len("/loop.css"):] + "x);"
		}
		return host + path
	})
}

// TestRenderParts: the images, style sheets and fonts of a rendered page are fetched wherever they are, once, and so is
// what the style sheets refer to. What scripts received is stored as it came. So each request of the page has a record.
func TestRenderParts(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := partsSite()
		dom := `<link rel=stylesheet href=http://cdn.test/s.css>
<img src=dom.png srcset="wide.png 2x, data:image/png;base64,x 3x"><script src=http://cdn.test/app.js></script>
<img src=http://closed.test/i.png><img src=http://10.0.0.1/i.png><video src=v.mp4 poster=http://img.test/poster.png>
<source src=v2.mp4></video><picture><source srcset=http://img.test/wide.webp></picture><img src=http://other.test/r9>
<iframe src=http://frames.test/f></iframe><a href=http://other.test/page>other</a>`
		opt, res := partsOf(t, w, dom,
			[]string{"http://cdn.test/s.css", "http://cdn.test/moved.png", "http://a.test/big.png"},
			[]string{"http://cdn.test/app.js", "http://api.test/data.json?1", "http://cdn.test/app.js",
				"http://api.test/note.txt"},
			func(opt *crawl.Options) { opt.Network.FetchLimits.BodyBytes = 50_000 })
		all, scripts := responses(t, opt)
		want := []string{"http://a.test/big.png", "http://a.test/dom.png", "http://a.test/r", "http://a.test/wide.png",
			"http://api.test/data.json?1", "http://api.test/note.txt", "http://cdn.test/app.js",
			"http://cdn.test/back.png", "http://cdn.test/more.css", "http://cdn.test/moved.png",
			"http://cdn.test/s.css",
			"http://fonts.test/f.woff2", "http://img.test/poster.png", "http://img.test/wide.webp",
			"http://other.test/r9", "http://store.test/target.png"}
		for _, url := range want {
			if all[url] != 1 {
				t.Errorf("%s has %d records", url, all[url])
			}
			delete(all, url)
		}
		if len(all) > 0 || len(scripts) != 3 {
			t.Errorf("further records: %v; of scripts: %v", all, scripts)
		}
		for _, host := range []string{"frames.test", "10.0.0.1"} {
			if got := w.Got(host, ""); len(got) > 0 {
				t.Errorf("requests to %s: %v", host, got)
			}
		}
		// An image that turns out to be a page out of scope is not rendered, and its links keep to the scope.
		if got := w.Got("other.test", ""); len(got) != 2 || res.Snapshot.Count(state.CountRenderWanted) != 1 {
			t.Errorf("requests to other.test: %v; %d pages to render", got, res.Snapshot.Count(state.CountRenderWanted))
		}
		if got := w.Got("closed.test", "/i.png"); len(got) > 0 {
			t.Errorf("robots.txt was ignored: %v", got)
		}
		c := res.Snapshot.Count
		if c(state.CountRenderAnswers) != 3 || c(state.CountRenderParts) != 10 || c(state.CountPages) != 2 {
			t.Errorf("%d answers, %d parts, %d pages", c(state.CountRenderAnswers), c(state.CountRenderParts),
				c(state.CountPages))
		}
	})
}

// TestRenderPartsBounds: a page has at most so many parts, those that its browser requested first; style sheets that
// import one another without end come to one; and without parts, nothing is fetched or stored that was not before.
func TestRenderPartsBounds(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := partsSite()
		var dom strings.Builder
		for i := range 100_000 {
			fmt.Fprintf(&dom, "<img src=%d.png>", i)
		}
		opt, res := partsOf(t, w, dom.String(), []string{"http://cdn.test/loop.css"}, nil, func(opt *crawl.Options) {
			opt.Render.Resources = 5
		})
		all, _ := responses(t, opt)
		loops, images := len(w.Got("cdn.test", "")), len(w.Got("a.test", ""))
		if c := res.Snapshot.Count; c(state.CountRenderParts) != 5 || c(state.CountRenderPartsCut) < 40_000 ||
			images != 2+4 || all["http://a.test/3.png"] != 1 || loops < 5 || loops > 12 {
			t.Errorf("%d parts, %d more; %d requests to a.test, %d to cdn.test: %v", c(state.CountRenderParts),
				c(state.CountRenderPartsCut), images, loops, all)
		}
		w = partsSite()
		opt, res = partsOf(t, w, "<img src=1.png>", []string{"http://cdn.test/s.css"},
			[]string{"http://cdn.test/app.js"}, func(opt *crawl.Options) {
				opt.Render.Resources = crawl.NoRenderResources
			})
		all, _ = responses(t, opt)
		if len(all) != 1 || res.Snapshot.Count(state.CountRenderParts) != 0 || len(w.Got("", "/s.css")) > 0 {
			t.Errorf("without parts: %v", all)
		}
	})
}

// TestRenderPartsRules: the operator's rules and blacklist hold for parts out of scope, and a page that asks not to
// follow its links has none.
func TestRenderPartsRules(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := partsSite()
		const dom = "<img src=http://no.test/1.png><img src=http://never.test/1.png>" +
			"<img src=http://yes.test/1.png>"
		opt, _ := partsOf(t, w, dom, nil, nil, func(opt *crawl.Options) {
			for name, text := range map[string]string{"admit": "- host no.test\n", "black": "- host never.test\n"} {
				if err := disk.WriteFileAtomic(opt.Disk.FS, name, []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			opt.Admission.Rules, opt.Admission.Blacklist = []string{"admit"}, []string{"black"}
		})
		all, _ := responses(t, opt)
		if len(all) != 2 || all["http://yes.test/1.png"] != 1 {
			t.Errorf("stored %v", all)
		}
		w = partsSite()
		opt, _ = partsOf(t, w, "<meta name=robots content=nofollow><img src=1.png>", nil, nil, nil)
		if all, _ = responses(t, opt); len(all) != 1 {
			t.Errorf("nofollow in the DOM: stored %v", all)
		}
	})
}

// crashing crawls the pages r0, r1, … of a.test through power cuts, until a run ends. script renders them.
func crashing(t *testing.T, w *testworld.Web, script testworld.Script) (opt *crawl.Options, crashes int) {
	t.Helper()
	fs := memfs.New(*testworld.Seed)
	o := crawltest.WebOptions(t, w, fs, "http://a.test/")
	crawltest.AtOnce(&o)
	o.Disk.CheckpointEvery, o.Admission.Scope = 2*time.Second, state.ScopeHost
	o.Politeness.HostDelay, o.Politeness.HostDelayMin = 500*time.Millisecond, 500*time.Millisecond
	for run := 0; ; run++ {
		o.Disk.FS = fs
		withBrowser(t, &o, script)
		if run < 10 {
			fs.CrashAfter(60 + 12*run)
		}
		_, err := crawl.Run(t.Context(), o)
		if err == nil || errors.Is(err, state.ErrFinished) { // finished: just before the last power cut
			return &o, crashes
		}
		if !errors.Is(err, disk.ErrCrashed) {
			t.Fatal(err)
		}
		crashes++
		fs = fs.Crash()
	}
}

// TestRenderPartsCrashes: power cuts between a page and its parts lose none, and store nothing twice.
func TestRenderPartsCrashes(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		const pages = 8
		w := typed(func(_, path string) string {
			switch path {
			case "/robots.txt":
				return ""
			case "/":
				links := ""
				for i := range pages {
					links += fmt.Sprintf("<a href=r%d></a>", i)
				}
				return links
			}
			return "<p>" + path
		})
		opt, crashes := crashing(t, w, func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result,
			error) {
			n := p.URL[len("http://a.test/r"):]
			for _, url := range []string{"http://cdn.test/app.js", "http://a.test/data.json?" + n} {
				if _, err := f.Fetch(ctx, url); err != nil {
					return nil, err
				}
			}
			return &render.Result{HTML: []byte("<img src=http://img.test/" + n + ".png>"), Base: p.URL,
				Resources: []string{"http://cdn.test/s.css"}}, nil
		})
		all, _ := responses(t, opt)
		want := []string{"http://a.test/", "http://cdn.test/s.css"}
		for i := range pages {
			want = append(want, fmt.Sprintf("http://a.test/r%d", i), fmt.Sprintf("http://img.test/%d.png", i),
				fmt.Sprintf("http://a.test/data.json?%d", i))
		}
		for _, url := range want {
			if all[url] != 1 {
				t.Errorf("%s has %d records", url, all[url])
			}
			delete(all, url)
		}
		// A script is stored again for the first page that asks for it after a crash.
		if n := all["http://cdn.test/app.js"]; n < 1 || n > crashes+1 || len(all) != 1 || crashes < 4 {
			t.Errorf("%d crashes, app.js has %d records, further %v", crashes, n, all)
		}
		rendered := testworld.Rendered(t, opt.Disk.FS, opt.Disk.Dirs)
		if rep := testworld.Deep(t, opt.Disk.FS, opt.Disk.Dirs); !rep.Balanced() || len(rendered) != pages {
			t.Errorf("%d pages rendered, audit: %+v", len(rendered), rep)
		}
	})
}
