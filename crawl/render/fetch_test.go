package render_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/gate"
	room "drumbeat/crawl/render"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/render"
	"drumbeat/state"
)

// withBrowser has the pages below /r rendered by script.
func withBrowser(t *testing.T, opt *crawl.Options, script testworld.Script) {
	t.Helper()
	opt.Render = &crawl.RenderOptions{CacheBytes: 1 << 20, PageBytes: 1 << 20,
		Rules: testworld.RenderRules(t, opt.Disk.FS), Dial: func(context.Context, string) (room.Browser, error) {
			return testworld.NewBrowser(script), nil
		}}
}

// onePage returns options of a crawl of a page that is rendered by script, without delays.
func onePage(t *testing.T, w *testworld.Web,
	script func(ctx context.Context, p *render.Page, f render.Fetcher)) crawl.Options {
	t.Helper()
	opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/r")
	crawltest.AtOnce(&opt)
	withBrowser(t, &opt, func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error) {
		script(ctx, p, f)
		return &render.Result{HTML: p.Body, Base: p.URL}, ctx.Err()
	})
	return opt
}

// TestRenderPLDShare: the requests of rendered pages take no more of the connections than a PLD's share, and
// all are made.
func TestRenderPLDShare(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		var now, most atomic.Int64
		w := &testworld.Web{Serve: testworld.PagesOnly, Raw: func(_ net.Conn, host, path string) bool {
			if host == "a.test" || path == "/robots.txt" {
				return false
			}
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(10 * time.Second)
			now.Add(-1)
			return false
		}}
		opt := onePage(t, w, func(ctx context.Context, _ *render.Page, f render.Fetcher) {
			var wait sync.WaitGroup
			for i := range 6 {
				wait.Go(func() {
					if _, err := f.Fetch(ctx, fmt.Sprintf("http://h%d.cdn.test/x.js", i)); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
		})
		opt.Network.Connections = 8
		crawltest.MustRun(t, t.Context(), opt)
		if n := len(w.Pages("h")); most.Load() != 2 || n != 6 {
			t.Errorf("%d requests, up to %d at once to a PLD whose share is 2 of %d connections", n, most.Load(),
				opt.Network.Connections)
		}
	})
}

// TestRenderCancelled: a request that ends with its page says nothing about the host, which is asked again
// after its delay.
func TestRenderCancelled(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: testworld.PagesOnly, Raw: func(c net.Conn, _, path string) bool {
			if path == "/slow.js" {
				_, _ = io.Copy(io.Discard, c) // until the crawler closes it
			}
			return path == "/slow.js"
		}}
		var ended time.Time
		opt := onePage(t, w, func(ctx context.Context, _ *render.Page, f render.Fetcher) {
			page, cancel := context.WithTimeout(ctx, 5*time.Second)
			if _, err := f.Fetch(page, "http://cdn.test/slow.js"); err == nil {
				t.Error("an testworld.Answer")
			}
			cancel()
			ended = time.Now()
			if _, err := f.Fetch(ctx, "http://cdn.test/x.js"); err != nil {
				t.Error(err)
			}
		})
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 100*time.Millisecond, 100*time.Millisecond
		crawltest.MustRun(t, t.Context(), opt)
		if rs := w.Got("cdn.test", "/x.js"); len(rs) != 1 || rs[0].At.Sub(ended) >= gate.RobotsBackoff ||
			rs[0].At.Sub(ended) < opt.Politeness.HostDelay {
			t.Errorf("%d requests; the next came %v after a page ended", len(rs), rs[0].At.Sub(ended))
		}
	})
}

// TestRenderReuse: an testworld.Answer is used again for the same request only: not if it varies by what is
// not known, and not with other cookies.
func TestRenderReuse(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		headers := map[string]string{"/plain.js": "", "/coding.js": "Vary: accept-encoding\r\n",
			"/cookie.js": "Vary: Accept-Encoding, Cookie\r\n", "/any.js": "Vary: *\r\n",
			"/two.js":    "Vary: Accept-Encoding\r\nVary: Origin\r\n",
			"/secret.js": "Cache-Control: private, No-Store\r\n"}
		w := &testworld.Web{Serve: func(host, path string) testworld.Answer {
			a := testworld.PagesOnly(host, path)
			a.Header = headers[path]
			if path == "/login" {
				a.Header = "Set-Cookie: user=1\r\n"
			}
			return a
		}}
		opt := onePage(t, w, func(ctx context.Context, _ *render.Page, f render.Fetcher) {
			for range 2 {
				for path := range headers {
					if _, err := f.Fetch(ctx, "http://cdn.test"+path); err != nil {
						t.Error(err)
					}
				}
			}
			for _, path := range []string{"/own.js", "/own.js", "/login", "/own.js", "/own.js"} {
				if _, err := f.Fetch(ctx, "http://own.test"+path); err != nil {
					t.Error(err)
				}
			}
		})
		if err := disk.WriteFileAtomic(opt.Disk.FS, "sites.toml",
			[]byte("[[site]]\nhost = \"own.test\"\ncookies = true\ninsecure = true\nlinks = \"any\"\n")); err != nil {
			t.Fatal(err)
		}
		opt.Admission.Sites = "sites.toml"
		crawltest.MustRun(t, t.Context(), opt)
		for path, want := range map[string]int{"/plain.js": 1, "/coding.js": 1, "/cookie.js": 2, "/any.js": 2,
			"/two.js": 2, "/secret.js": 2, "/own.js": 2} {
			if got := len(w.Got("", path)); got != want {
				t.Errorf("%d requests for %s, want %d", got, path, want)
			}
		}
	})
}

// TestRenderStop: a stop waits for no page that hangs: the connection ends first, and the page is rendered in
// the next run.
func TestRenderStop(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: testworld.PagesOnly}
		ctx, stop := context.WithCancel(t.Context())
		var stopped time.Time
		opt := onePage(t, w, nil)
		var hangs *testworld.Browser
		hangs = testworld.NewBrowser(func(context.Context, *render.Page, render.Fetcher) (*render.Result, error) {
			time.Sleep(time.Minute)
			stopped = time.Now()
			stop()
			<-hangs.Done() // as a page that cannot be closed
			return nil, render.ErrLost
		})
		opt.Render.Dial = func(context.Context, string) (room.Browser, error) { return hangs, nil }
		res := crawltest.MustRun(t, ctx, opt)
		if took := time.Since(stopped); res.Stop != crawl.StopCancelled || took > time.Second {
			t.Errorf("stop %q after %v", res.Stop, took)
		}
		opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
			return testworld.NewBrowser(func(_ context.Context, p *render.Page, _ render.Fetcher) (*render.Result,
				error) {
				return &render.Result{HTML: p.Body, Base: p.URL}, nil
			}), nil
		}
		crawltest.MustRun(t, t.Context(), opt)
		if pages := testworld.Rendered(t, opt.Disk.FS, opt.Disk.Dirs); len(pages["http://a.test/r"]) != 1 {
			t.Errorf("rendered %q", pages)
		}
	})
}

// TestRenderPatience: the crawl waits for its browser once it has nothing else to do, however long that was
// gone before.
func TestRenderPatience(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: testworld.Linked("/r", "/1", "/2", "/3", "/4", "/5")}
		opt := onePage(t, w, nil)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Limits.Linger = time.Minute, time.Minute, time.Second
		opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
			return nil, errors.New("nobody listens")
		}
		res := crawltest.MustRun(t, t.Context(), opt)
		rs := w.Got("", "")
		if took := time.Since(rs[len(rs)-1].At); len(rs) != 7 || took < room.Patience ||
			took > room.Patience+5*time.Minute || res.Snapshot.Count(state.CountRenderFailed) != 1 {
			t.Errorf("%d requests, the end came %v after the last one; %d pages not rendered", len(rs), took,
				res.Snapshot.Count(state.CountRenderFailed))
		}
	})
}
