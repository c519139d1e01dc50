package crawl

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	room "drumbeat/crawl/render"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/render"
	"drumbeat/internal/render/rendertest"
	"drumbeat/state"
)

// withBrowser has the pages below /r rendered by script.
func withBrowser(t *testing.T, opt *Options, script testworld.Script) {
	t.Helper()
	opt.Render = &RenderOptions{CacheBytes: 1 << 20, PageBytes: 1 << 20, Rules: testworld.RenderRules(t, opt.Disk.FS),
		Dial: func(context.Context, string) (room.Browser, error) {
			return testworld.NewBrowser(script), nil
		}}
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
// address rules, and is no URL of the crawl; what they made is stored, and its links are taken.
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
		pages := testworld.Rendered(t, opt.Disk.FS, opt.Disk.Dirs)
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
		Rules: testworld.RenderRules(t, opt.Disk.FS), Tabs: 1}
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
	pages := testworld.Rendered(t, opt.Disk.FS, opt.Disk.Dirs)
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
