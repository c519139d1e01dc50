package crawl

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/strategy"
	"drumbeat/disk/memfs"
	"drumbeat/internal/hook"
	"drumbeat/internal/pace"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// laneSite is a PLD with a root, two lists, and 40 hosts that have the pages of the lists. Its queues decide the order.
type laneSite struct {
	tinyWeb
	links map[string]string // of a page, by path
}

const laneHosts = 40

func newLaneSite() *laneSite {
	s := &laneSite{links: map[string]string{"/": `<a href="/list/bad"><a href="/list/good">`}}
	for _, list := range []string{"bad", "good"} {
		var links strings.Builder
		for i := range 5 * laneHosts {
			fmt.Fprintf(&links, `<a href="http://h%d.a.test/%s/%d">`, i%laneHosts, list, i)
		}
		s.links["/list/"+list] = links.String()
	}
	s.Serve = func(_, path string) answer {
		if path == "/robots.txt" {
			return noRobots
		}
		return answer{200, "", "<html>" + s.links[path]}
	}
	return s
}

// crawl crawls the site. act is called when about 20 pages are fetched.
func (s *laneSite) crawl(t *testing.T, change func(*Options), act func(o *operated)) {
	t.Helper()
	opt := tinyOptions(t, &s.tinyWeb, memfs.New(*seedFlag), "http://a.test/")
	opt.Order.StockTarget, opt.Budgets.QueuePages, opt.Budgets.Default, opt.Budgets.Max = 20, Unlimited, 15, 15
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin =
		time.Second, time.Second, 0, 0
	small(&opt)
	opt.Drum.Buckets = 1
	// The links of a list fill a bucket, so they are merged at once.
	opt.tests.tune = func(p *plan.Plan) { p.URLSeen.BucketBytes, p.Indegree.BucketBytes = 1<<10, 1<<10 }
	opt.Network.Rate = schedule(t, "10", pace.Pages)
	change(&opt)
	o := &operated{t: t, opt: opt}
	o.start()
	if o.err != nil {
		t.Fatal(o.err)
	}
	s.await(t, "", 20)
	if act != nil {
		act(o)
	}
	o.end()
	checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
}

// await waits until n pages with a prefix were requested.
func (s *laneSite) await(t *testing.T, prefix string, n int) {
	t.Helper()
	for began := time.Now(); s.pages(t, prefix) < n; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Hour {
			t.Fatalf("%d requests for %s in an hour, want %d", s.pages(t, prefix), prefix, n)
		}
	}
}

// pages returns the number of requests for pages with a prefix. None is requested twice.
func (s *laneSite) pages(t *testing.T, prefix string) (n int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	seen := map[string]bool{}
	for _, r := range s.Requests {
		if r.Path == "/robots.txt" || !strings.HasPrefix(r.Path, prefix) {
			continue
		}
		if n++; seen[r.Path] {
			t.Errorf("%s is fetched twice", r.Path)
		}
		seen[r.Path] = true
	}
	return n
}

// place returns the mean place of the pages with a prefix in the order of requests: of all, or of those with
// one of some prefixes.
func (s *laneSite) place(prefix string, among ...string) (mean float64) {
	n, at := 0., 0.
	for _, r := range s.Requests {
		of := func(prefix string) bool { return strings.HasPrefix(r.Path, prefix) }
		if r.Path == "/robots.txt" || len(among) > 0 && !slices.ContainsFunc(among, of) {
			continue
		}
		at++
		if of(prefix) {
			n++
			mean += at
		}
	}
	return mean / n
}

// TestPriorityDepth: seeds of a PLD come when it has many pages in the queues that are two links from its root. Queues
// are first in, first out, so they wait behind those pages; with lanes by depth they are in one of the next queues.
// Nothing is lost in either case.
func TestPriorityDepth(t *testing.T) {
	t.Parallel()
	place := map[string]float64{}
	for _, priority := range []string{"", "depth"} {
		inBubble(t, func(t *testing.T) {
			s := newLaneSite()
			s.crawl(t, func(o *Options) { o.Order.Priority = priority }, func(o *operated) {
				var seeds []string
				for i := range 20 {
					seeds = append(seeds, fmt.Sprintf("http://h%d.a.test/late/%d", i, i))
				}
				o.make(changes.Change{Op: changes.OpSeeds, Seeds: seeds})
			})
			if n := s.pages(t, ""); n != 3+10*laneHosts+20 {
				t.Errorf("%d pages, want %d", n, 3+10*laneHosts+20)
			}
			place[priority] = s.place("/late/")
		})
	}
	t.Logf("mean place of the late seeds: %.0f, with priority %.0f", place[""], place["depth"])
	if place[""] < 1.15*place["depth"] {
		t.Errorf("mean place of the late seeds is %.0f with priority, %.0f without", place["depth"], place[""])
	}
}

// TestPriorityHook: the links of a page that the hook likes are fetched before those of another that was fetched first.
func TestPriorityHook(t *testing.T) {
	t.Parallel()
	place := map[string]float64{}
	for _, priority := range []string{"", "hook"} {
		inBubble(t, func(t *testing.T) {
			s := newLaneSite()
			s.crawl(t, func(o *Options) {
				o.Order.Priority = priority
				o.opened.asker = &fakeHook{answer: func(r *hook.Request) (*hook.Answer, hook.Outcome) {
					a, outcome := yes()
					if a.Scored = true; !strings.HasSuffix(r.URL, "/bad") {
						a.Score = 1
					}
					return a, outcome
				}}
			}, nil)
			if n := s.pages(t, ""); n != 3+10*laneHosts {
				t.Errorf("%d pages, want %d", n, 3+10*laneHosts)
			}
			place[priority] = s.place("/good/")
		})
	}
	t.Logf("mean place of the good pages: %.0f, with priority %.0f", place[""], place["hook"])
	if place[""] < 1.3*place["hook"] {
		t.Errorf("mean place of the good pages is %.0f with priority, %.0f without", place["hook"], place[""])
	}
}

// TestPrioritySitemap: the pages to which a sitemap gives a high priority are fetched before those with a low
// one that it names first.
func TestPrioritySitemap(t *testing.T) {
	t.Parallel()
	place := map[string]float64{}
	for _, priority := range []string{"", "sitemap"} {
		inBubble(t, func(t *testing.T) {
			s := newLaneSite()
			var list strings.Builder
			list.WriteString("<?xml version='1.0'?><urlset>")
			for _, of := range []struct {
				path     string
				priority float64
			}{{"bad", 0.1}, {"good", 0.9}} {
				for i := range 5 * laneHosts {
					fmt.Fprintf(&list, "<url><loc>http://a.test/%s/%d</loc><priority>%.1f</priority></url>", of.path,
						i, of.priority)
				}
			}
			list.WriteString("</urlset>")
			s.Serve = func(host, path string) answer {
				switch {
				case host == "a.test" && path == "/robots.txt":
					return answer{200, "Content-Type: text/plain\r\n", "Sitemap: http://a.test/map.xml\n"}
				case path == "/robots.txt":
					return noRobots
				case path == "/map.xml":
					return answer{200, "Content-Type: application/xml\r\n", list.String()}
				}
				return answer{200, "", "<html>x"}
			}
			s.crawl(t, func(o *Options) { // one host, because a sitemap names URLs of its own
				o.Order.Priority, o.Links.Sitemaps, o.Politeness.HostDelay, o.Politeness.HostDelayMin = priority, true,
					100*time.Millisecond, 100*time.Millisecond
			}, nil)
			if n := s.pages(t, ""); n != 2+10*laneHosts {
				t.Errorf("%d pages, want %d", n, 2+10*laneHosts)
			}
			place[priority] = s.place("/good/")
		})
	}
	t.Logf("mean place of the good pages: %.0f, with priority %.0f", place[""], place["sitemap"])
	if place[""] < 1.3*place["sitemap"] {
		t.Errorf("mean place of the good pages is %.0f with priority, %.0f without", place["sitemap"], place[""])
	}
}

// TestPriorityIndegree: the pages that a PLD with a large in-degree links to are fetched before those that one without
// links to.
func TestPriorityIndegree(t *testing.T) {
	notShort(t)
	t.Parallel()
	// PLDs: more than 100 make the budgets differ; pages of a chain that keeps the crawl going.
	const others, slow = 300, 100
	const poor, rich = "http://poor.test/list/bad", "http://rich.test/list/good"
	for _, lists := range [][]string{{poor, rich}, {rich, poor}} { // neither list is first by chance
		inBubble(t, func(t *testing.T) {
			s := newLaneSite()
			delete(s.links, "/")
			s.crawl(t, func(o *Options) {
				o.Order.Priority, o.Budgets.Max, o.Admission.Scope = "indegree", 1000, state.ScopeAll
				o.Admission.SeedLines = []string{"http://poor.test/first", "http://slow.test/slow/1"}
				for i := range others {
					path := fmt.Sprintf("/other/%d", i)
					s.links[path] = `<a href="http://rich.test/">`
					o.Admission.SeedLines = append(o.Admission.SeedLines, fmt.Sprintf("http://p%d.test%s", i, path))
				}
				for i := 1; i < slow; i++ {
					s.links[fmt.Sprintf("/slow/%d", i)] = fmt.Sprintf("<a href=/slow/%d>", i+1)
				}
			}, func(o *operated) {
				s.await(t, "/other/", others)
				time.Sleep(10 * time.Second) // BEAST moves to further queues, with the new budgets
				o.make(changes.Change{Op: changes.OpSeeds, Seeds: lists})
			})
			if n, want := s.pages(t, ""), others+1+slow+1+2+10*laneHosts; n != want {
				t.Errorf("%d pages, want %d", n, want)
			}
			place, middle := s.place("/good/", "/good/", "/bad/"), 5.*laneHosts
			t.Logf("mean place of the good pages: %.0f of %.0f", place, 2*middle)
			if place > 0.8*middle {
				t.Errorf("mean place of the good pages is %.0f, want under %.0f", place, 0.8*middle)
			}
		})
	}
}

// TestPriorityChanges: the operator switches the strategy of a crawl with lanes while it runs; queued URLs
// are placed again, and the crawl fetches what an undisturbed one does, over a restart that takes the lanes
// from the manifest. A crawl with one lane refuses.
func TestPriorityChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var logged strings.Builder
		o := operating(t, smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages = 5, 20, 1200 }),
			memfs.New(*seedFlag), func(o *Options) {
				o.Budgets.Default, o.Budgets.Max, o.Budgets.QueuePages, o.Order.StockTarget, o.Budgets.QueuesMax = 6,
					10, Unlimited, 50, 16
				o.Order.Lanes, o.Observe.Log = 3, slog.New(slog.NewTextHandler(&logged, nil))
			})
		o.await(300)
		lanes := func() (n [3]int64) {
			s, err := o.opt.Observe.Control.Structures()
			must(t, err)
			for i, lane := range s.Lanes {
				n[i] = lane.CurrentRecords + lane.SpreadRecords + lane.OverBudgetRecords
			}
			return n
		}
		if n := lanes(); n[0] == 0 || n[1] != 0 || n[2] != 0 {
			t.Errorf("without a strategy the lanes have %v URLs", n)
		}
		o.make(changes.Change{Op: changes.OpPriority,
			Priority: &changes.Priority{Name: "depth", Weights: []uint32{5, 2, 1}}})
		var most [3]int64 // the crawl continues and may empty a lane, so the lanes are read each second
		for i := 0; i < 60 && (most[1] == 0 || most[2] == 0); i++ {
			time.Sleep(time.Second)
			for i, n := range lanes() {
				most[i] = max(most[i], n)
			}
		}
		if most[1] == 0 || most[2] == 0 {
			t.Errorf("in the minute after the change the lanes have at most %v URLs", most)
		}
		if !strings.Contains(logged.String(), "placing queued URLs again") {
			t.Errorf("the log has no count of the URLs that move:\n%s", logged.String())
		}
		for _, bad := range []changes.Priority{{Name: "best"}, {Name: "hook"}, {Name: "depth", Weights: []uint32{1}}} {
			if _, err := o.opt.Observe.Control.Make(t.Context(),
				changes.Change{Op: changes.OpPriority, Priority: &bad}); !changes.IsRefused(err) {
				t.Errorf("priority %+v: %v", bad, err)
			}
		}
		o.stop()
		o.end()
		o.opt.Order.Lanes = 0
		o.start()
		o.make(changes.Change{Op: changes.OpPriority})
		o.end()
		checkFetched(t, o.web, &o.opt)
		checkBalanced(t, o.opt.Disk.FS, o.opt.Disk.Dirs)
		o.opt.Order.Lanes = 2
		if _, err := Run(t.Context(), o.opt); err == nil ||
			!strings.Contains(err.Error(), "--priority lanes) was 3, is 2") {
			t.Errorf("another number of lanes: %v", err)
		}
	})
	inBubble(t, testOneLane)
}

// testOneLane: a crawl with one lane refuses a strategy.
func testOneLane(t *testing.T) {
	o := operating(t, smallWeb(t, nil), memfs.New(*seedFlag), func(*Options) {})
	o.await(20)
	if _, err := o.opt.Observe.Control.Make(t.Context(), changes.Change{Op: changes.OpPriority,
		Priority: &changes.Priority{Name: "depth"}}); !changes.IsRefused(err) ||
		!strings.Contains(err.Error(), "one lane") {
		t.Errorf("with one lane: %v", err)
	}
	o.stop()
	o.end()
	o.opt.Order.Priority = "depth"
	if _, err := Run(t.Context(), o.opt); err == nil || !strings.Contains(err.Error(), "this one has 1") {
		t.Errorf("a later run with priority: %v", err)
	}
}

func TestMostLanes(t *testing.T) {
	for _, n := range []int{beast.MaxLanes, star.MaxLanes} {
		if n != strategy.MaxLanes {
			t.Errorf("at most %d lanes; BEAST or STAR has %d", strategy.MaxLanes, n)
		}
	}
}
