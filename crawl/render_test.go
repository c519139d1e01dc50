package crawl

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/account"
	room "drumbeat/crawl/render"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/render"
	"drumbeat/internal/render/rendertest"
	"drumbeat/state"
	"drumbeat/warc"
)

// fakeBrowser is a browser in this process. script does what a page's scripts would do.
type fakeBrowser struct {
	script func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error)
	done   chan struct{}
	once   sync.Once
}

func (b *fakeBrowser) Render(ctx context.Context, p *render.Page, f render.Fetcher,
	_ *render.Limits) (*render.Result, error) {
	return b.script(ctx, p, f)
}
func (b *fakeBrowser) Done() <-chan struct{} { return b.done }
func (b *fakeBrowser) Product() string       { return "fake" }
func (b *fakeBrowser) Close()                { b.once.Do(func() { close(b.done) }) }

// renderRules writes the rules of a test, which tag all pages whose path begins with /r.
func renderRules(t *testing.T, fs disk.FS) []string {
	t.Helper()
	writeRules(t, fs, "rules", "+ regex ^http://[^/]+/r")
	return []string{"rules"}
}

// withBrowser has the pages below /r rendered by script.
func withBrowser(t *testing.T, opt *Options,
	script func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error)) {
	t.Helper()
	opt.Render = &RenderOptions{CacheBytes: 1 << 20, PageBytes: 1 << 20, Rules: renderRules(t, opt.Disk.FS),
		Dial: func(context.Context, string) (room.Browser, error) {
			return &fakeBrowser{script: script, done: make(chan struct{})}, nil
		}}
}

// rendered returns the rendered pages in the output by URL. It checks that each names the response of its page.
func rendered(t *testing.T, opt *Options) map[string][]string {
	t.Helper()
	found, responses := map[string][]string{}, map[string]string{}
	files, err := warc.Files(disk.Set{FS: opt.Disk.FS, Paths: opt.Disk.Dirs})
	if err != nil {
		t.Fatal(err)
	}
	var records []*warc.Record
	for _, name := range files {
		if err := warc.ReadFile(opt.Disk.FS, name, 1<<20, func(r *warc.Record) error {
			kept := *r
			kept.Block = slices.Clone(r.Block)
			kept.Fields = slices.Clone(r.Fields)
			records = append(records, &kept)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range records {
		if r.Type() == "response" || r.Type() == "revisit" {
			responses[r.Get("WARC-Record-ID")] = r.Get("WARC-Target-URI")
		}
	}
	for _, r := range records {
		if r.Type() != "resource" {
			continue
		}
		url := strings.TrimPrefix(r.Get("WARC-Target-URI"), warc.RenderedPrefix)
		if of := responses[r.Get("WARC-Concurrent-To")]; of != url ||
			r.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("rendered %s: of the response of %q, type %q", url, of, r.Get("Content-Type"))
		}
		found[url] = append(found[url], string(r.Block))
	}
	return found
}

// renderedWeb has pages to render, and what they ask for.
func renderedWeb() *insideWeb {
	w := &insideWeb{names: func(host string, _ int) []netip.Addr {
		if host == "inside.test" {
			return addrs("10.0.0.1")
		}
		return nil
	}}
	w.Serve = func(host, path string) answer {
		switch path {
		case "/robots.txt":
			return answer{200, "", "User-agent: *\nDisallow: /secret"}
		case "/":
			return answer{200, "", "<a href=r1></a><a href=r2></a><a href=r-nofollow></a><a href=plain>"}
		case "/r-nofollow":
			return answer{200, "X-Robots-Tag: nofollow\r\n", "<p>none"}
		case "/app.js":
			return answer{200, "", "script"}
		}
		return answer{200, "", "<p>page " + path + strings.Repeat(".", 300)}
	}
	return w
}

// TestRender: tagged pages are rendered after they were stored. What they request keeps to delays, robots.txt and
// address rules, and is neither stored nor a URL; what they made is stored, and its links are taken.
func TestRender(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := renderedWeb()
		opt := w.options(t, "http://a.test/")
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 10*time.Second, 10*time.Second
		opt.Output.ArchiveRobots, opt.Observe.Control = true, nil
		var mu sync.Mutex
		outcomes := map[string]string{}
		withBrowser(t, &opt, func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error) {
			for _, url := range []string{"http://a.test/app.js", "http://a.test/secret/1", "http://inside.test/x",
				"http://127.0.0.1/x", "http://a.test:81/x", "http://b.test/app.js", "http://a.test/api?" + p.URL} {
				resp, err := f.Fetch(ctx, url)
				mu.Lock()
				if outcomes[url] = fmt.Sprint(err); err == nil {
					outcomes[url] = fmt.Sprintf("%d %s", resp.Status, resp.Body)[:6]
				}
				mu.Unlock()
			}
			return &render.Result{HTML: []byte(`<html><a href="made">` + string(p.Body)), Base: p.URL,
				Went: []string{"/went"}}, nil
		})
		res := mustRun(t, t.Context(), opt)
		for url, want := range map[string]string{"http://a.test/app.js": "200 sc", "http://b.test/app.js": "200 sc",
			"http://a.test/api?http://a.test/r1": "200 <p"} {
			if outcomes[url] != want {
				t.Errorf("%s: %q, want %q", url, outcomes[url], want)
			}
		}
		for _, url := range []string{"http://a.test/secret/1", "http://inside.test/x", "http://127.0.0.1/x",
			"http://a.test:81/x"} {
			if !strings.Contains(outcomes[url], room.ErrRefused.Error()) {
				t.Errorf("%s: %q, want a refusal", url, outcomes[url])
			}
		}
		w.check(t)
		for path, want := range map[string]int{"/made": 1, "/went": 1, "/app.js": 1, "/secret/1": 0,
			"/plain": 1, "/r1": 1} {
			if got := w.Got("a.test", path); len(got) != want {
				t.Errorf("%d requests for %s, want %d", len(got), path, want)
			}
		}
		checkHostDelays(t, w, opt.Politeness.HostDelay)
		pages := rendered(t, &opt)
		if len(pages) != 3 || len(pages["http://a.test/r1"]) != 1 ||
			!strings.Contains(pages["http://a.test/r1"][0], "made\"><p>page /r1") {
			t.Errorf("rendered pages: %q", pages)
		}
		c := res.Snapshot.Count
		if c(state.CountRenderWanted) != 3 || c(state.CountRendered) != 3 || c(state.CountRenderedStored) != 3 ||
			c(state.CountRenderRefused) != 12 || c(state.CountPages) != 7 ||
			// Two pages that need a script at the same time both ask for it.
			c(state.CountRenderCached)+c(state.CountRenderRequests) != 9 || c(state.CountRenderRequests) < 5 ||
			c(state.CountRenderRequests) > 6 {
			t.Errorf("wanted %d, rendered %d, stored %d, cached %d, refused %d, requests %d, pages %d",
				c(state.CountRenderWanted), c(state.CountRendered), c(state.CountRenderedStored),
				c(state.CountRenderCached), c(state.CountRenderRefused), c(state.CountRenderRequests),
				c(state.CountPages))
		}
		if rep := deep(t, opt.Disk.FS, &opt); !rep.Balanced() || rep.Output.Rendered != 3 {
			t.Errorf("audit: %+v", rep)
		}
	})
}

// checkHostDelays: requests to a host keep its delay, also those of the browser.
func checkHostDelays(t *testing.T, w *insideWeb, delay time.Duration) {
	t.Helper()
	for _, host := range []string{"a.test", "b.test"} {
		var last time.Time
		for _, r := range w.Got(host, "") {
			if gap := r.At.Sub(last); !last.IsZero() && gap < delay {
				t.Errorf("%s%s came %v after the last request", r.Host, r.Path, gap)
			}
			last = r.At
		}
	}
}

// TestRenderCrawlDelay: the Crawl-delay of a host that only scripts visit separates their requests, also after the
// host was forgotten, and if its rules came from another host.
func TestRenderCrawlDelay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(host, path string) answer {
			switch {
			case host == "a.test" && path == "/robots.txt":
				return noRobots
			case path == "/robots.txt":
				return answer{301, "Location: http://rules.test/cdn.txt\r\n", ""}
			case path == "/cdn.txt":
				return answer{200, "", "User-agent: *\nCrawl-delay: 100"}
			case path == "/":
				return answer{200, "", "<a href=r1>"}
			}
			return answer{200, "", "<p>" + path}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/")
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 10*time.Second, 10*time.Second
		withBrowser(t, &opt, func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error) {
			for i := range 4 {
				if _, err := f.Fetch(ctx, fmt.Sprintf("http://cdn.test/%d.js", i)); err != nil {
					t.Error(err)
				}
				if i == 1 {
					account.Sleep(ctx, time.Hour)
				}
			}
			return &render.Result{HTML: []byte("<p>"), Base: p.URL}, nil
		})
		mustRun(t, t.Context(), opt)
		var last time.Time
		n := 0
		for _, r := range w.Got("cdn.test", "") {
			if strings.HasSuffix(r.Path, ".js") {
				if gap := r.At.Sub(last); n > 0 && gap < 100*time.Second {
					t.Errorf("%s came %v after the last request", r.Path, gap)
				}
				last = r.At
				n++
			}
		}
		if n != 4 {
			t.Errorf("%d requests of scripts, want 4", n)
		}
	})
}

// TestRenderBrowserGone: without a browser the crawl fetches all pages, waits a while for it, and ends; pages that
// lose it are tried once more.
func TestRenderBrowserGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			switch path {
			case "/robots.txt":
				return noRobots
			case "/":
				return answer{200, "", "<a href=r1></a><a href=r2></a><a href=p1></a><a href=p2>"}
			}
			return answer{200, "", "<p>" + path}
		}}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/")
		atOnce(&opt)
		withBrowser(t, &opt, nil)
		dials := 0
		opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
			if dials++; dials > 2 { // the third and later attempts find no browser
				return nil, errors.New("nobody listens")
			}
			return &fakeBrowser{done: make(chan struct{}),
				script: func(context.Context, *render.Page, render.Fetcher) (*render.Result, error) {
					return nil, fmt.Errorf("killed: %w", render.ErrLost)
				}}, nil
		}
		opt.Render.Tabs = 1
		began := time.Now()
		res := mustRun(t, t.Context(), opt)
		c := res.Snapshot.Count
		if c(state.CountPages) != 5 || c(state.CountRenderFailed) != 2 || c(state.CountRendered) != 0 ||
			c(state.CountRenderLost) != 2 || res.Stop != StopDone {
			t.Errorf("pages %d, failed %d, rendered %d, lost %d, stop %q", c(state.CountPages),
				c(state.CountRenderFailed), c(state.CountRendered), c(state.CountRenderLost), res.Stop)
		}
		if took := time.Since(began); took < room.Patience || took > room.Patience+6*time.Minute ||
			dials < 5 || dials > 15 {
			t.Errorf("%d attempts to connect in %v", dials, took)
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}

// TestRenderOutlivesCrashes: power cuts at any time lose no page to be rendered and store none twice.
func TestRenderOutlivesCrashes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(_, path string) answer {
			switch path {
			case "/robots.txt":
				return noRobots
			case "/":
				links := ""
				for i := range 30 {
					links += fmt.Sprintf("<a href=r%d></a>", i)
				}
				return answer{200, "", links}
			}
			return answer{200, "", "<p>" + path}
		}}
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, fs, "http://a.test/")
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = time.Second, time.Second, 0, 0
		opt.Disk.CheckpointEvery = 5 * time.Second
		crashes := 0
		for run := 0; ; run++ {
			opt.Disk.FS = fs
			if run == 0 {
				renderRules(t, fs)
			}
			if run < 12 {
				fs.CrashAfter(60 + 25*run)
			}
			opt.Render = &RenderOptions{CacheBytes: 1 << 20, PageBytes: 1 << 20, Rules: []string{"rules"}, Tabs: 3,
				Dial: func(context.Context, string) (room.Browser, error) {
					return &fakeBrowser{done: make(chan struct{}),
						script: func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error) {
							if !account.Sleep(ctx, 4*time.Second) {
								return nil, ctx.Err()
							}
							return &render.Result{HTML: []byte("<a href=/made" + p.URL[len("http://a.test/"):] + ">"),
								Base: p.URL}, nil
						}}, nil
				}}
			_, err := Run(t.Context(), opt)
			if err == nil || errors.Is(err, state.ErrFinished) { // finished: just before the last power cut
				break
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatal(err)
			}
			crashes++
			fs = fs.Crash()
		}
		pages := rendered(t, &opt)
		for i := range 30 {
			if n := len(pages[fmt.Sprintf("http://a.test/r%d", i)]); n != 1 {
				t.Errorf("r%d is stored %d times as rendered", i, n)
			}
			if len(w.Got("a.test", fmt.Sprintf("/mader%d", i))) == 0 {
				t.Errorf("the link of r%d was not fetched", i)
			}
		}
		if rep := deep(t, fs, &opt); !rep.Balanced() || crashes < 5 {
			t.Errorf("%d crashes, audit: %+v", crashes, rep)
		}
	})
}

// TestRenderChromium crawls with Chromium: a link made by a script is fetched, and the requests of scripts keep to the
// host's delay and to robots.txt. A browser that is killed comes back, and the crawl continues.
func TestRenderChromium(t *testing.T) {
	c := rendertest.Start(t, os.Getenv("CHROMIUM"), "0", render.Flags())
	w := &tinyWeb{Serve: func(_, path string) answer {
		switch path {
		case "/robots.txt":
			return answer{200, "", "User-agent: *\nDisallow: /secret"}
		case "/":
			return answer{200, "", "<a href=r1></a><a href=r2>"}
		case "/r1", "/r2":
			return answer{200, "", "<!DOCTYPE html><p>page<script src=/app.js></script>"}
		case "/app.js":
			return answer{200, "",
				`fetch("/data").then(r => r.text()).then(t => document.body.insertAdjacentHTML("beforeend", t));
fetch("/secret/data").catch(() => document.body.append("refused"));
fetch("http://10.0.0.1/inside").catch(() => document.body.append("no way in"));`}
		case "/data":
			return answer{200, "", "<a href=/made>made</a>"}
		}
		return answer{200, "", "<p>" + path}
	}}
	opt := tinyOptions(t, w, memfs.New(*seedFlag), "http://a.test/")
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin =
		300*time.Millisecond, 300*time.Millisecond, 0, 0
	opt.Limits.Linger, opt.Identity.UserAgent = time.Second, "drumbeat/test"
	opt.Network.AllowedAddr = netip.MustParsePrefix("127.0.0.0/8").Contains
	opt.Render = &RenderOptions{CacheBytes: 1 << 20, PageBytes: 1 << 20, Endpoint: c.URL,
		Rules: renderRules(t, opt.Disk.FS), Tabs: 1}
	var kill sync.Once
	opt.tests.hook = func(place string) {
		if place == "rendering" {
			kill.Do(func() {
				c.Kill()
				rendertest.Start(t, os.Getenv("CHROMIUM"), strings.TrimPrefix(c.URL, "ws://127.0.0.1:"), render.Flags())
			})
		}
	}
	res := mustRun(t, t.Context(), opt)
	pages := rendered(t, &opt)
	for _, url := range []string{"http://a.test/r1", "http://a.test/r2"} {
		dom := strings.Join(pages[url], "|")
		for _, want := range []string{`<a href="/made">made</a>`, "refused", "no way in"} {
			if !strings.Contains(dom, want) {
				t.Errorf("the DOM of %s lacks %q: %s", url, want, dom)
			}
		}
	}
	for path, want := range map[string]int{"/made": 1, "/secret/data": 0, "/app.js": 1, "/data": 1} {
		if got := len(w.Got("", path)); got != want {
			t.Errorf("%d requests for %s, want %d", got, path, want)
		}
	}
	var last time.Time
	for _, r := range w.Got("a.test", "") {
		if gap := r.At.Sub(last); !last.IsZero() && gap < opt.Politeness.HostDelay {
			t.Errorf("%s came %v after the last request", r.Path, gap)
		}
		last = r.At
	}
	if n := res.Snapshot.Count(state.CountRenderLost); n < 1 {
		t.Errorf("the browser was lost %d times", n)
	}
	if rep := deep(t, opt.Disk.FS, &opt); !rep.Balanced() {
		t.Errorf("audit: %+v", rep)
	}
}

// TestRenderWaits: pages that wait for the browser outlive a stop, a run without --render, and damage. Repair saves
// what can be read.
func TestRenderWaits(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			w := &tinyWeb{Serve: func(_, path string) answer {
				switch path {
				case "/robots.txt":
					return noRobots
				case "/":
					return linked("r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9")("", "")
				}
				noise := make([]byte, 40_000)
				_, _ = rand.NewChaCha8([32]byte([]byte(path + strings.Repeat("x", 32))[:32])).Read(noise)
				return answer{200, "", "<p>" + base64.StdEncoding.EncodeToString(noise)}
			}}
			fs := memfs.New(*seedFlag)
			opt := tinyOptions(t, w, fs, "http://a.test/")
			atOnce(&opt)
			opt.Limits.MaxTime, opt.Limits.RAMBytes = time.Minute, 256<<20
			withBrowser(t, &opt, nil)
			opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
				return nil, errors.New("nobody listens")
			}
			mustRun(t, t.Context(), opt)
			if rep := deep(t, fs, &opt); !rep.Balanced() {
				t.Errorf("audit: %+v", rep)
			}
			if damaged {
				files := crawlFiles(t, fs, &opt,
					func(path string) bool { return strings.Contains(path, "/state/render/") })
				if len(files) == 0 {
					t.Fatal("the queue is in no file")
				}
				f, err := fs.Open(files[0])
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte("damage"), 8192); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				if rep := deep(t, fs, &opt); !rep.Damaged[state.NameRender] {
					t.Errorf("the audit does not see the damage: %+v", rep)
				}
				if rep, err := repairOf(t, fs, &opt, nil); err != nil {
					t.Fatalf("repair: %v, %+v", err, rep)
				}
			}
			opt.Limits.MaxTime = 2 * time.Minute
			seen := 0
			opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
				return &fakeBrowser{done: make(chan struct{}),
					script: func(_ context.Context, p *render.Page, _ render.Fetcher) (*render.Result, error) {
						seen++
						return &render.Result{HTML: p.Body, Base: p.URL}, nil
					}}, nil
			}
			opt.Render.Tabs = 1
			mustRun(t, t.Context(), opt)
			if n := len(rendered(t, &opt)); n != seen || !damaged && n != 10 || damaged && (n == 0 || n > 9) {
				t.Errorf("damaged %v: %d pages rendered, %d stored", damaged, seen, n)
			}
			if rep := deep(t, fs, &opt); !rep.Balanced() {
				t.Errorf("audit: %+v", rep)
			}
		})
	}
}
