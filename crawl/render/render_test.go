package render_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/account"
	"drumbeat/crawl/crawltest"
	room "drumbeat/crawl/render"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/render"
	"drumbeat/state"
	"drumbeat/state/condition"
)

// TestRenderCrawlDelay: the Crawl-delay of a host that only scripts visit separates their requests, also
// after the host was forgotten, and if its rules came from another host.
func TestRenderCrawlDelay(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: func(host, path string) testworld.Answer {
			switch {
			case host == "a.test" && path == "/robots.txt":
				return testworld.NoRobots
			case path == "/robots.txt":
				return testworld.Answer{301, "Location: http://rules.test/cdn.txt\r\n", ""}
			case path == "/cdn.txt":
				return testworld.Answer{200, "", "User-agent: *\nCrawl-delay: 100"}
			case path == "/":
				return testworld.Answer{200, "", "<a href=r1>"}
			}
			return testworld.Answer{200, "", "<p>" + path}
		}}
		opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/")
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
		crawltest.MustRun(t, t.Context(), opt)
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

// TestRenderBrowserGone: without a browser the crawl fetches all pages, waits a while for it, and ends;
// pages that lose it are tried once more.
func TestRenderBrowserGone(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: func(_, path string) testworld.Answer {
			switch path {
			case "/robots.txt":
				return testworld.NoRobots
			case "/":
				return testworld.Answer{200, "", "<a href=r1></a><a href=r2></a><a href=p1></a><a href=p2>"}
			}
			return testworld.Answer{200, "", "<p>" + path}
		}}
		opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/")
		crawltest.AtOnce(&opt)
		withBrowser(t, &opt, nil)
		dials := 0
		opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
			if dials++; dials > 2 { // the third and later attempts find no browser
				return nil, errors.New("nobody listens")
			}
			return testworld.NewBrowser(func(context.Context, *render.Page, render.Fetcher) (*render.Result,
				error) {
				return nil, fmt.Errorf("killed: %w", render.ErrLost)
			}), nil
		}
		opt.Render.Tabs = 1
		began := time.Now()
		res := crawltest.MustRun(t, t.Context(), opt)
		c := res.Snapshot.Count
		if c(state.CountPages) != 5 || c(state.CountRenderFailed) != 2 || c(state.CountRendered) != 0 ||
			c(state.CountRenderLost) != 2 || res.Stop != crawl.StopDone {
			t.Errorf("pages %d, failed %d, rendered %d, lost %d, stop %q", c(state.CountPages),
				c(state.CountRenderFailed), c(state.CountRendered), c(state.CountRenderLost), res.Stop)
		}
		if took := time.Since(began); took < room.Patience || took > room.Patience+6*time.Minute ||
			dials < 5 || dials > 15 {
			t.Errorf("%d attempts to connect in %v", dials, took)
		}
		testworld.CheckBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}

// crashLoop crawls 15 pages to be rendered, and others, at a page a second, with a browser of the crawl that dies with
// each page until it was started as often as works says. It returns the result, the starts, and the condition of each
// second in which pages waited.
func crashLoop(t *testing.T, others, works int) (res *crawl.Result, starts int, list []condition.Condition) {
	var pages []string
	for i := range 15 {
		pages = append(pages, fmt.Sprintf("/r%d", i))
	}
	for i := range others {
		pages = append(pages, fmt.Sprintf("/p%d", i))
	}
	opt := crawltest.WebOptions(t, &testworld.Web{Serve: testworld.Linked(pages...)}, memfs.New(*testworld.Seed),
		"http://a.test/")
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
	withBrowser(t, &opt, nil)
	opt.Render.Launch, opt.Render.Tabs = &render.Launch{}, 1
	opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
		starts++
		alive := starts >= works
		return testworld.NewBrowser(func(_ context.Context, p *render.Page, _ render.Fetcher) (*render.Result, error) {
			if time.Sleep(3 * time.Second); !alive {
				return nil, fmt.Errorf("killed: %w", render.ErrLost)
			}
			return &render.Result{HTML: p.Body, Base: p.URL}, nil
		}), nil
	}
	opt.Observe.SnapshotEvery = time.Second
	opt.Observe.Snapshot = func(s *crawl.Snapshot) {
		if s.Browser.Waiting > 0 && !s.Stopping {
			list = append(list, condition.Of(s))
		}
	}
	return crawltest.MustRun(t, t.Context(), opt), starts, list
}

// ofBrowser reports whether a condition has a fault of the browser.
func ofBrowser(c *condition.Condition) bool {
	return slices.ContainsFunc(c.Problems, func(p condition.Problem) bool { return p.What == "browser" })
}

// TestRenderCrashLoop: a browser that dies with each page is started MostLosses times. Until a page is rendered, the
// condition has the fault, and says at last that the browser is not started again.
func TestRenderCrashLoop(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		res, starts, list := crashLoop(t, 1200, 1000)
		c := res.Snapshot.Count
		if starts != room.MostLosses || c(state.CountRendered) != 0 || c(state.CountRenderFailed) != 15 ||
			c(state.CountRenderLost) != room.MostLosses || res.Stop != crawl.StopDone {
			t.Errorf("%d starts, rendered %d, failed %d, lost %d, stop %q", starts, c(state.CountRendered),
				c(state.CountRenderFailed), c(state.CountRenderLost), res.Stop)
		}
		begun := slices.IndexFunc(list, func(c condition.Condition) bool { return ofBrowser(&c) })
		if begun < 0 {
			t.Fatal("the condition never has the fault")
		}
		for i := range list[begun:] {
			if c := &list[begun+i]; !ofBrowser(c) || c.Level == condition.OK {
				t.Errorf("%d s after the fault: %s %s", i, c.State, c.Text)
			}
		}
		want := fmt.Sprintf("is not started again after %d attempts and has rendered none", room.MostLosses)
		if last := list[len(list)-1]; !strings.Contains(fmt.Sprint(last.Problems), want) {
			t.Errorf("at last: %+v", last.Problems)
		}
	})
}

// TestRenderCrashLoopEnds: a browser that works at last renders the pages that are left, and the fault ends with the
// first of them.
func TestRenderCrashLoopEnds(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		res, starts, list := crashLoop(t, 0, 6)
		c := res.Snapshot.Count
		failed := c(state.CountRenderFailed)
		if starts != 6 || failed > 2 || c(state.CountRendered) != 15-failed { // a page fails by two of five losses
			t.Errorf("%d starts, rendered %d, failed %d", starts, c(state.CountRendered), failed)
		}
		changes, was := 0, false
		for i := range list {
			if is := ofBrowser(&list[i]); is != was {
				changes, was = changes+1, is
			}
		}
		if changes != 2 || was {
			t.Errorf("the fault came and went %d times: %v", changes, list)
		}
	})
}

// TestRenderOutlivesCrashes: power cuts at any time lose no page to be rendered and store none twice.
func TestRenderOutlivesCrashes(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: func(_, path string) testworld.Answer {
			switch path {
			case "/robots.txt":
				return testworld.NoRobots
			case "/":
				links := ""
				for i := range 30 {
					links += fmt.Sprintf("<a href=r%d></a>", i)
				}
				return testworld.Answer{200, "", links}
			}
			return testworld.Answer{200, "", "<p>" + path}
		}}
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, w, fs, "http://a.test/")
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = time.Second, time.Second, 0, 0
		opt.Disk.CheckpointEvery = 5 * time.Second
		crashes := 0
		for run := 0; ; run++ {
			opt.Disk.FS = fs
			withBrowser(t, &opt, func(ctx context.Context, p *render.Page, _ render.Fetcher) (*render.Result, error) {
				if !account.Sleep(ctx, 4*time.Second) {
					return nil, ctx.Err()
				}
				made := "<a href=/made" + p.URL[len("http://a.test/"):] + ">"
				return &render.Result{HTML: []byte(made), Base: p.URL}, nil
			})
			opt.Render.Tabs = 3
			if run < 12 {
				fs.CrashAfter(60 + 25*run)
			}
			_, err := crawl.Run(t.Context(), opt)
			if err == nil || errors.Is(err, state.ErrFinished) { // finished: just before the last power cut
				break
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatal(err)
			}
			crashes++
			fs = fs.Crash()
		}
		pages := testworld.Rendered(t, opt.Disk.FS, opt.Disk.Dirs)
		for i := range 30 {
			if n := len(pages[fmt.Sprintf("http://a.test/r%d", i)]); n != 1 {
				t.Errorf("r%d is stored %d times as rendered", i, n)
			}
			if len(w.Got("a.test", fmt.Sprintf("/mader%d", i))) == 0 {
				t.Errorf("the link of r%d was not fetched", i)
			}
		}
		if rep := testworld.Deep(t, fs, opt.Disk.Dirs); !rep.Balanced() || crashes < 5 {
			t.Errorf("%d crashes, audit: %+v", crashes, rep)
		}
	})
}

// TestRenderWaits: pages that wait for the browser outlive a stop, a run without --render, and damage.
// Repair saves what can be read.
func TestRenderWaits(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		testworld.InBubble(t, func(t *testing.T) {
			w := &testworld.Web{Serve: func(_, path string) testworld.Answer {
				switch path {
				case "/robots.txt":
					return testworld.NoRobots
				case "/":
					return testworld.Linked("r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9")("", "")
				}
				noise := make([]byte, 40_000)
				_, _ = rand.NewChaCha8([32]byte([]byte(path + strings.Repeat("x", 32))[:32])).Read(noise)
				return testworld.Answer{200, "", "<p>" + base64.StdEncoding.EncodeToString(noise)}
			}}
			fs := memfs.New(*testworld.Seed)
			opt := crawltest.WebOptions(t, w, fs, "http://a.test/")
			crawltest.AtOnce(&opt)
			opt.Limits.MaxTime, opt.Limits.RAMBytes = time.Minute, 256<<20
			withBrowser(t, &opt, nil)
			opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
				return nil, errors.New("nobody listens")
			}
			crawltest.MustRun(t, t.Context(), opt)
			if rep := testworld.Deep(t, fs, opt.Disk.Dirs); !rep.Balanced() {
				t.Errorf("audit: %+v", rep)
			}
			if damaged {
				files := testworld.StateFiles(t, fs, opt.Disk.Dirs,
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
				if rep := testworld.Deep(t, fs, opt.Disk.Dirs); !rep.Damaged[state.NameRender] {
					t.Errorf("the audit does not see the damage: %+v", rep)
				}
				if rep, err := testworld.Repair(t, fs, opt.Disk.Dirs, nil); err != nil {
					t.Fatalf("repair: %v, %+v", err, rep)
				}
			}
			opt.Limits.MaxTime = 2 * time.Minute
			seen := 0
			opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
				return testworld.NewBrowser(func(_ context.Context, p *render.Page, _ render.Fetcher) (*render.Result,
					error) {
					seen++
					return &render.Result{HTML: p.Body, Base: p.URL}, nil
				}), nil
			}
			opt.Render.Tabs = 1
			crawltest.MustRun(t, t.Context(), opt)
			n := len(testworld.Rendered(t, opt.Disk.FS, opt.Disk.Dirs))
			if n != seen || !damaged && n != 10 || damaged && (n == 0 || n > 9) {
				t.Errorf("damaged %v: %d pages rendered, %d stored", damaged, seen, n)
			}
			if rep := testworld.Deep(t, fs, opt.Disk.Dirs); !rep.Balanced() {
				t.Errorf("audit: %+v", rep)
			}
		})
	}
}

// TestRenderEveryPage: without rules each page is rendered. A browser that always ends is started again after longer
// and longer waits, and one that was well for long at once.
func TestRenderEveryPage(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := &testworld.Web{Serve: func(_, path string) testworld.Answer {
			switch path {
			case "/robots.txt":
				return testworld.NoRobots
			case "/":
				return testworld.Answer{200, "", "<a href=p1></a><a href=p2></a><a href=p3></a><a href=p4>"}
			}
			return testworld.Answer{200, "", "<p>" + path}
		}}
		opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/")
		crawltest.AtOnce(&opt)
		withBrowser(t, &opt, nil)
		opt.Render.Rules, opt.Render.Tabs = nil, 1
		var dialed []time.Duration
		began := time.Now()
		pages := 0
		opt.Render.Dial = func(context.Context, string) (room.Browser, error) {
			dialed = append(dialed, time.Since(began))
			return testworld.NewBrowser(func(ctx context.Context, p *render.Page, _ render.Fetcher) (*render.Result,
				error) {
				pages++
				if pages == 5 {
					account.Sleep(ctx, 2*time.Minute)
				}
				if pages <= 5 {
					return nil, fmt.Errorf("killed: %w", render.ErrLost)
				}
				return &render.Result{HTML: p.Body, Base: p.URL}, nil
			}), nil
		}
		c := crawltest.MustRun(t, t.Context(), opt).Snapshot.Count
		if c(state.CountRendered)+c(state.CountRenderFailed) != 5 || c(state.CountRenderLost) != 5 || len(dialed) != 6 {
			t.Fatalf("rendered %d, failed %d, lost %d; connected at %v", c(state.CountRendered),
				c(state.CountRenderFailed), c(state.CountRenderLost), dialed)
		}
		for i, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
			if gap := dialed[i+1] - dialed[i]; gap < least || gap > least+2*time.Second {
				t.Errorf("connected at %v: attempt %d waits %v, want about %v", dialed, i+1, gap, least)
			}
		}
		if gap := dialed[5] - dialed[4]; gap > 2*time.Minute+3*time.Second {
			t.Errorf("after two minutes in which the browser was well, the wait ends after %v", gap)
		}
	})
}
