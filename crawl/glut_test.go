package crawl

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// besideGood is a web of one good host whose pages its budget admits in many lots, and of two bad ones: vast
// has 20 times its number of pages, and an hour of Crawl-delay, and slow answers each request after 2 s, so
// that a request is always under way.
type besideGood struct {
	tinyWeb
	pages, vast int // of the good host, and links to vast on each of its first 20 pages
}

func newBesideGood(pages, vast int) *besideGood {
	w := &besideGood{pages: pages, vast: vast}
	w.Serve = func(host, path string) answer {
		switch {
		case path == "/robots.txt" && host == "vast.test":
			return answer{200, "", "User-agent: *\nCrawl-delay: 3600\n"}
		case path == "/robots.txt":
			return noRobots
		case host != "good.test":
			return answer{200, "", "<html>x"}
		}
		var n int
		_, _ = fmt.Sscanf(path, "/%d", &n)
		var b strings.Builder
		for i := 4*n + 1; i <= 4*n+4 && i < w.pages; i++ {
			fmt.Fprintf(&b, "<a href=/%d>x</a>", i)
		}
		if n < 20 {
			for i := range w.vast {
				fmt.Fprintf(&b, "<a href=http://vast.test/%d>x</a>", w.vast*n+i)
			}
			for i := range 50 {
				fmt.Fprintf(&b, "<a href=http://slow.test/%d>x</a>", 50*n+i)
			}
		}
		return answer{200, "", b.String()}
	}
	w.Raw = func(_ net.Conn, host, _ string) bool {
		if host == "slow.test" {
			time.Sleep(2 * time.Second)
		}
		return false
	}
	return w
}

// smallBudgets returns the options of a crawl of w without delays of its own.
func (w *besideGood) smallBudgets(t *testing.T, fs *memfs.FS) Options {
	opt := tinyOptions(t, &w.tinyWeb, fs, "http://good.test/0")
	atOnce(&opt)
	opt.Output.Store, opt.Output.CrawlLog, opt.Network.Connections = false, state.LogOff, 20
	opt.Budgets.Default, opt.Budgets.Max, opt.Budgets.QueuePages = 10, 10, Unlimited
	return opt
}

// TestGlutSlowsNoOther: while a slow host always has a request under way, and QF is full of URLs of a host that can be
// sent only one in minutes, the URLs of a good host must not wait for it, whose budget admits a few at a time. The
// others stay in QF, instead of waiting in the calendar for weeks.
func TestGlutSlowsNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newBesideGood(3000, 4000)
		opt := w.smallBudgets(t, memfs.New(*seedFlag))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		var took time.Duration
		go func() {
			for ctx.Err() == nil && len(w.tinyWeb.Pages("good")) < w.pages {
				account.Sleep(ctx, 100*time.Millisecond)
			}
			took = time.Since(began)
			cancel()
		}()
		res := mustRun(t, ctx, opt)
		t.Logf("%d pages of the good host in %v; deferred %v, in QF %d", len(w.tinyWeb.Pages("good")), took,
			res.Snapshot.Deferred, res.Snapshot.Places[state.PlaceOverBudget])
		if took > 3*time.Second {
			t.Errorf("%d pages of the good host took %v, want at most 3s", w.pages, took)
		}
		if n := res.Snapshot.Deferred[state.ReasonHostBacklog.String()]; n > 2000 {
			t.Errorf("%d URLs wait for their hosts, want few: the rest stays in QF", n)
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
		time.Sleep(2 * time.Second) // the last request of slow ends
	})
}

// TestGlutOutlivesCuts: power cuts and kills lose no URL that a scan leaves in QF, and double none.
func TestGlutOutlivesCuts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(*seedFlag), 41))
		for range longOr(30, 3) {
			w, fs, cuts := newBesideGood(2000, 200), memfs.New(rng.Uint64()), 0
			for done := false; !done; {
				opt := w.smallBudgets(t, fs)
				opt.Disk.CheckpointEvery, opt.Output.Store, opt.Output.CrawlLog = 50*time.Millisecond,
					true, state.LogAll
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if done = cuts == 10; !done {
					fs.CrashAfter(20 + rng.IntN(300))
				}
				_, err := Run(ctx, opt)
				time.Sleep(2 * time.Second) // the last request of slow ends
				cancel()
				switch {
				case done && err != nil:
					t.Fatal(err)
				case err == nil: // it had to wait for slow
					fs.CrashAfter(0)
				case rng.IntN(2) == 0:
					fs = fs.Kill()
				default:
					fs = fs.Crash()
				}
				cuts++
			}
			opt := w.smallBudgets(t, fs)
			rep := deep(t, fs, &opt)
			if !rep.Balanced() || rep.Keys.NotSeen+rep.Keys.Twice+rep.Keys.Nowhere > 0 {
				t.Errorf("after cuts: %+v", rep)
			}
			good := map[string]bool{}
			for _, r := range w.tinyWeb.Pages("good") {
				good[r.Path] = true
			}
			if len(good) != w.pages {
				t.Errorf("%d of %d good pages fetched", len(good), w.pages)
			}
		}
	})
}
