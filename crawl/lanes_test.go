package crawl

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/changes"
	"drumbeat/disk/memfs"
	"drumbeat/internal/hook"
	"drumbeat/internal/simweb"
)

// inOrder records pages in the order in which they are fetched.
type inOrder struct {
	fakeHook
	mu   sync.Mutex
	urls []string
}

func (h *inOrder) note(r *hook.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.urls = append(h.urls, r.URL)
}

// laneWeb is a web with deep trees, crawled with small budgets, so that the order of queues decides.
func laneWeb(t *testing.T) *simweb.Web {
	return smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.IPs = 10, 20, 1500, 20 })
}

func laneOptions(t *testing.T, web *simweb.Web, priority string) (Options, *inOrder) {
	opt := simOptions(t, web, memfs.New(*seedFlag))
	opt.Priority, opt.StockTarget, opt.QueuePages = priority, 20, Unlimited
	opt.BudgetDefault, opt.BudgetMax, opt.MaxTime = 15, 15, 100*time.Hour
	h := new(inOrder)
	h.answer = func(r *hook.Request) (*hook.Answer, hook.Outcome) {
		h.note(r)
		return yes()
	}
	opt.asker = h
	return opt, h
}

// TestPriorityDepth: a site has many pages two links from its root. Further seeds on the same site come later. Queues
// are first in, first out, so they wait behind all those pages; with lanes by depth they are among the next. Nothing is
// lost in either case.
func TestPriorityDepth(t *testing.T) {
	t.Parallel()
	const deep, late = 400, 20
	place := map[string]float64{} // mean place of the late seeds in the order of requests
	for _, priority := range []string{"", "depth"} {
		inBubble(t, func(t *testing.T) {
			w := &tinyWeb{serve: func(_, path string) answer {
				var links strings.Builder
				switch path {
				case "/robots.txt":
					return noRobots
				case "/":
					links.WriteString(`<a href="/list">`)
				case "/list":
					for i := range deep {
						fmt.Fprintf(&links, `<a href="/deep/%d">`, i)
					}
				}
				return answer{200, "", "<html>" + links.String()}
			}}
			opt := w.options(t, memfs.New(*seedFlag), "http://a.test/")
			opt.Priority, opt.StockTarget, opt.QueuePages, opt.BudgetDefault, opt.BudgetMax = priority, 20, Unlimited, 15, 15
			o := &operated{t: t, opt: opt}
			o.start()
			count := func() int {
				w.mu.Lock()
				defer w.mu.Unlock()
				return len(w.requests)
			}
			for count() < 60 {
				time.Sleep(10 * time.Millisecond)
			}
			var seeds []string
			for i := range late {
				seeds = append(seeds, fmt.Sprintf("http://a.test/late/%d", i))
			}
			o.make(changes.Change{Op: changes.OpSeeds, Seeds: seeds})
			o.end()
			n := map[string]int{}
			for i, r := range w.requests {
				n[r.path]++
				if strings.HasPrefix(r.path, "/late/") {
					place[priority] += float64(i) / late
				}
			}
			if len(n) != deep+late+3 || len(w.requests) != len(n) {
				t.Errorf("%d requests for %d URLs, want %d", len(w.requests), len(n), deep+late+3)
			}
			checkBalanced(t, opt.FS, opt.Dirs)
		})
	}
	t.Logf("mean place of the late seeds: %.0f, with priority %.0f", place[""], place["depth"])
	if place["depth"] > 250 || place[""] < 350 {
		t.Errorf("mean place of the late seeds is %.0f with priority, %.0f without", place["depth"], place[""])
	}
}

// TestPriorityHook: pages on which the hook puts a high score have their links fetched first.
func TestPriorityHook(t *testing.T) {
	t.Parallel()
	good := func(url string) bool { return len(url)%2 == 0 }
	share := map[string]float64{}
	for _, priority := range []string{"", "hook"} {
		inBubble(t, func(t *testing.T) {
			web := laneWeb(t)
			opt, h := laneOptions(t, web, priority)
			from := map[string]bool{} // pages with a link on a good page
			h.wants = hook.Wants{Links: true}
			h.answer = func(r *hook.Request) (*hook.Answer, hook.Outcome) {
				h.note(r)
				h.mu.Lock()
				for _, l := range r.Links {
					if _, known := from[l]; !known {
						from[l] = good(r.URL)
					}
				}
				h.mu.Unlock()
				a, outcome := yes()
				if a.Scored = true; good(r.URL) {
					a.Score = 1
				}
				return a, outcome
			}
			mustRun(t, t.Context(), opt)
			checkFetched(t, web, &opt)
			first := h.urls[:len(h.urls)/5]
			n := len(slices.DeleteFunc(slices.Clone(first), func(u string) bool { return !from[u] }))
			share[priority] = float64(n) / float64(len(first))
		})
	}
	t.Logf("URLs from good pages in the first fifth: %.2f, with priority %.2f", share[""], share["hook"])
	if share["hook"] < 1.2*share[""] {
		t.Errorf("the first fifth has %.2f URLs from good pages with priority, %.2f without", share["hook"], share[""])
	}
}

// TestPriorityChanges: the operator switches the strategy of a crawl with lanes while it runs; queued URLs are placed
// anew, and the crawl fetches what an undisturbed one does, over a restart that takes the lanes from the manifest. A
// crawl with one lane refuses.
func TestPriorityChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var logged strings.Builder
		o := operate(t, smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages = 5, 20, 1200 }), memfs.New(*seedFlag), func(o *Options) {
			o.BudgetDefault, o.BudgetMax, o.QueuePages, o.StockTarget, o.QueuesMax = 6, 10, Unlimited, 50, 16
			o.Lanes, o.Log = 3, slog.New(slog.NewTextHandler(&logged, nil))
		})
		o.await(300)
		lanes := func() (n [3]int64) {
			s, err := o.opt.Control.Structures()
			if err != nil {
				t.Fatal(err)
			}
			for i, lane := range s.Lanes {
				n[i] = lane.CurrentRecords + lane.SpreadRecords + lane.FailedRecords
			}
			return n
		}
		if n := lanes(); n[0] == 0 || n[1] != 0 || n[2] != 0 {
			t.Errorf("without a strategy the lanes have %v URLs", n)
		}
		o.make(changes.Change{Op: changes.OpPriority, Priority: &changes.Priority{Name: "depth", Weights: []uint32{5, 2, 1}}})
		time.Sleep(30 * time.Second)
		if n := lanes(); n[1] == 0 || n[2] == 0 {
			t.Errorf("half a minute after the change the lanes have %v URLs", n)
		}
		if !strings.Contains(logged.String(), "queued URLs are placed anew") {
			t.Errorf("the log has no count of the URLs that move:\n%s", logged.String())
		}
		for _, bad := range []changes.Priority{{Name: "best"}, {Name: "hook"}, {Name: "depth", Weights: []uint32{1}}} {
			if _, err := o.opt.Control.Make(t.Context(), changes.Change{Op: changes.OpPriority, Priority: &bad}); !changes.IsRefused(err) {
				t.Errorf("priority %+v: %v", bad, err)
			}
		}
		o.stop()
		o.end()
		o.opt.Lanes = 0
		o.start()
		o.make(changes.Change{Op: changes.OpPriority})
		o.end()
		checkFetched(t, o.web, &o.opt)
		checkBalanced(t, o.opt.FS, o.opt.Dirs)
		o.opt.Lanes = 2
		if _, err := Run(t.Context(), o.opt); err == nil || !strings.Contains(err.Error(), "--lanes) was 3, is 2") {
			t.Errorf("another number of lanes: %v", err)
		}
	})
	inBubble(t, func(t *testing.T) {
		o := operate(t, smallWeb(t, nil), memfs.New(*seedFlag), func(*Options) {})
		o.await(20)
		if _, err := o.opt.Control.Make(t.Context(), changes.Change{Op: changes.OpPriority, Priority: &changes.Priority{Name: "depth"}}); !changes.IsRefused(err) ||
			!strings.Contains(err.Error(), "one lane") {
			t.Errorf("with one lane: %v", err)
		}
		o.stop()
		o.end()
		o.opt.Priority = "depth"
		if _, err := Run(t.Context(), o.opt); err == nil || !strings.Contains(err.Error(), "this one has 1") {
			t.Errorf("a later run with priority: %v", err)
		}
	})
}
