package crawl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/strategy"
	"drumbeat/disk/memfs"
	"drumbeat/internal/hook"
	"drumbeat/internal/pace"
)

// topicWeb has pages on one of several subjects; the links of a page lead to pages on its own subject with a stated
// probability, else to any page.
type topicWeb struct {
	pages, hosts, topics, links int
	same                        float64
}

func (w *topicWeb) url(i int) string { return fmt.Sprintf("http://h%d.test/%d", i%w.hosts, i) }

// topic returns the subject of a page; 0 is that of interest.
func (w *topicWeb) topic(i int) int { return rand.New(rand.NewPCG(uint64(i), 1)).IntN(w.topics) }

// page returns the page of a URL's path.
func (w *topicWeb) page(path string) (i int, ok bool) {
	_, err := fmt.Sscanf(path[strings.LastIndexByte(path, '/')+1:], "%d", &i)
	return i, err == nil
}

func (w *topicWeb) serve(_, path string) answer {
	i, ok := w.page(path)
	if !ok {
		return noRobots
	}
	r := rand.New(rand.NewPCG(uint64(i), 2))
	body := fmt.Sprintf("<html><a href=%s>", w.url((i+1)%w.pages)) // all pages can be reached
	for range w.links {
		to := r.IntN(w.pages)
		for r.Float64() < w.same && w.topic(to) != w.topic(i) {
			to = r.IntN(w.pages)
		}
		body += fmt.Sprintf("<a href=%s>", w.url(to))
	}
	return answer{200, "", body}
}

// crawlTopics crawls the web and returns the pages in the order of the requests.
func (w *topicWeb) crawlTopics(t *testing.T, set func(*Options)) (order []int) {
	inBubble(t, func(t *testing.T) {
		tiny := &tinyWeb{Serve: w.serve}
		opt := tinyOptions(t, tiny, memfs.New(*seedFlag), w.url(0))
		opt.Order.StockTarget, opt.Budgets.QueuePages, opt.Politeness.HostDelay, opt.Limits.MaxTime = 10, Unlimited,
			time.Second, 100*time.Hour
		opt.Network.Rate = schedule(t, "5", pace.Pages) // passes are quick beside it, as in a large crawl
		opt.opened.asker = &fakeHook{answer: func(r *hook.Request) (*hook.Answer, hook.Outcome) {
			a, outcome := yes()
			if i, ok := w.page(r.URL); ok && w.topic(i) == 0 {
				a.Score = 1
			}
			a.Scored = true
			return a, outcome
		}}
		set(&opt)
		mustRun(t, t.Context(), opt)
		for _, r := range tiny.Requests {
			if i, ok := w.page(r.Path); ok {
				order = append(order, i)
			}
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
	if len(order) != w.pages {
		t.Errorf("%d requests for %d pages", len(order), w.pages)
	}
	return order
}

// TestFocused: of the first tenth of a focused crawl at least twice as many pages are on the subject as of
// one in breadth first; and none is lost.
func TestFocused(t *testing.T) {
	notShort(t)
	t.Parallel()
	w := &topicWeb{pages: 3000, hosts: 60, topics: 16, links: 4, same: 0.9}
	share := map[string]float64{}
	for _, name := range []string{strategy.BreadthFirst, strategy.Focused} {
		order := w.crawlTopics(t, func(o *Options) { o.Order.Strategy = name })
		first := order[:len(order)/10]
		for _, i := range first {
			if w.topic(i) == 0 {
				share[name] += 1 / float64(len(first))
			}
		}
	}
	t.Logf("share of pages on the subject in the first tenth: %v", share)
	if share[strategy.Focused] < 2*share[strategy.BreadthFirst] {
		t.Errorf("share of pages on the subject in the first tenth: %v, want twice as many", share)
	}
}

// TestBreadthFirst: pages are fetched in the order of their distance from the seed, but for those that are under way
// together.
func TestBreadthFirst(t *testing.T) {
	t.Parallel()
	w := &topicWeb{pages: 1000, hosts: 5, topics: 1}
	const perPage = 10
	serve := func(_, path string) answer { // page i links to the pages 10i+1 ... 10i+10
		i, ok := w.page(path)
		if !ok {
			return noRobots
		}
		body := "<html>"
		for j := perPage*i + 1; j <= perPage*(i+1) && j < w.pages; j++ {
			body += fmt.Sprintf("<a href=%s>", w.url(j))
		}
		return answer{200, "", body}
	}
	inBubble(t, func(t *testing.T) {
		tiny := &tinyWeb{Serve: serve}
		opt := tinyOptions(t, tiny, memfs.New(*seedFlag), w.url(0))
		opt.Order.Strategy, opt.Order.StockTarget = strategy.BreadthFirst, 20
		mustRun(t, t.Context(), opt)
		deepest := 0
		for _, r := range tiny.Requests {
			i, ok := w.page(r.Path)
			if !ok {
				continue
			}
			if depth := depthIn(i, perPage); depth < deepest-1 {
				t.Fatalf("page %d at depth %d comes after one at depth %d", i, depth, deepest)
			} else {
				deepest = max(deepest, depth)
			}
		}
	})
}

// depthIn returns the depth of node i of a tree with n children a node, numbered by levels.
func depthIn(i, n int) (depth int) {
	for ; i > 0; i = (i - 1) / n {
		depth++
	}
	return depth
}

// TestBestFirst: PLDs to which many others link come before those with one link. Pages of hub PLDs are linked
// from all others, and there are many pages of both kinds at all times. How early depends on whether the
// first check of their URLs comes before or after the first merge of edges, so the test takes the median of
// three crawls.
func TestBestFirst(t *testing.T) {
	notShort(t)
	t.Parallel()
	const plds, hubs, pages = 40, 4, 25
	serve := func(host, path string) answer {
		var p, i int
		if _, err := fmt.Sscanf(host+path, "h%d.test/%d", &p, &i); err != nil {
			return noRobots
		}
		body := fmt.Sprintf("<html><a href=http://h%d.test/0>", (p+1)%plds)
		for j := 2*i + 1; j <= 2*i+2 && j < pages; j++ { // a tree in each PLD
			body += fmt.Sprintf("<a href=/%d>", j)
		}
		for h := range hubs {
			body += fmt.Sprintf("<a href=http://h%d.test/0>", h)
		}
		return answer{200, "", body}
	}
	var places [3]float64 // mean place of the hubs' pages
	for i := range places {
		inBubble(t, func(t *testing.T) {
			tiny := &tinyWeb{Serve: serve}
			var seeds []string
			for p := range plds {
				seeds = append(seeds, fmt.Sprintf("http://h%d.test/0", p))
			}
			opt := tinyOptions(t, tiny, memfs.New(*seedFlag), seeds...)
			opt.Order.Strategy, opt.Order.StockTarget, opt.Politeness.HostDelay, opt.Limits.MaxTime =
				strategy.BestFirst, 10, time.Millisecond, 100*time.Hour
			opt.Network.Rate = schedule(t, "5", pace.Pages)
			mustRun(t, t.Context(), opt)
			n := 0
			for _, r := range tiny.Requests {
				var p int
				if _, err := fmt.Sscanf(r.Host, "h%d.test", &p); err != nil || r.Path == "/robots.txt" {
					continue
				}
				if n++; p < hubs {
					places[i] += float64(n) / (hubs * pages)
				}
			}
			if n != plds*pages {
				t.Errorf("%d requests for %d pages", n, plds*pages)
			}
			checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
		})
	}
	t.Logf("mean place of the hubs' pages: %v", places)
	slices.Sort(places[:])
	if inNoOrder := plds * pages / 2.; places[1] > 0.7*inNoOrder {
		t.Errorf("mean place of the hubs' pages: %v, in no order it would be %v", places, inNoOrder)
	}
}

// TestSiteBySite: with one site at once, a site has nearly all of its pages fetched before the one after the
// next begins.
func TestSiteBySite(t *testing.T) {
	t.Parallel()
	const sites, pages = 6, 40
	serve := func(host, path string) answer {
		var s, i int
		if _, err := fmt.Sscanf(host+path, "h%d.test/%d", &s, &i); err != nil {
			return noRobots
		}
		body := "<html>"
		for j := 2*i + 1; j <= 2*i+2 && j < pages; j++ {
			body += fmt.Sprintf("<a href=/%d>", j)
		}
		return answer{200, "", body + fmt.Sprintf("<a href=http://h%d.test/%d>", (s+1)%sites, i)}
	}
	inBubble(t, func(t *testing.T) {
		tiny := &tinyWeb{Serve: serve}
		var seeds []string
		for s := range sites {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/0", s))
		}
		opt := tinyOptions(t, tiny, memfs.New(*seedFlag), seeds...)
		opt.Order.Strategy, opt.Order.SitesAtOnce, opt.Order.StockTarget, opt.Politeness.HostDelay =
			strategy.SiteBySite, 1, 4, time.Second
		opt.Limits.MaxTime = 100 * time.Hour
		mustRun(t, t.Context(), opt)
		got, open, most := map[string]int{}, map[string]bool{}, 0
		for _, r := range tiny.Requests {
			if r.Path == "/robots.txt" {
				continue
			}
			open[r.Host] = true
			if got[r.Host]++; got[r.Host] >= pages*9/10 {
				delete(open, r.Host)
			}
			most = max(most, len(open))
		}
		for host, n := range got {
			if n != pages {
				t.Errorf("%s: %d requests for %d pages", host, n, pages)
			}
		}
		if len(got) != sites || most > 2 {
			t.Errorf("%d sites; up to %d at once were begun and not nearly finished", len(got), most)
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}

// TestSnapshot: the seeds and the targets of their redirects are fetched, and no links.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		tiny := &tinyWeb{Serve: func(_, path string) answer {
			switch path {
			case "/robots.txt":
				return noRobots
			case "/moved":
				return answer{301, "Location: /target\r\n", ""}
			}
			return answer{200, "", "<html><a href=/link><a href=http://other.test/>"}
		}}
		opt := tinyOptions(t, tiny, memfs.New(*seedFlag), "http://a.test/", "http://a.test/moved", "http://b.test/x")
		opt.Order.Strategy = strategy.Snapshot
		mustRun(t, t.Context(), opt)
		var got []string
		for _, r := range tiny.Requests {
			if r.Path != "/robots.txt" {
				got = append(got, r.Host+r.Path)
			}
		}
		slices.Sort(got)
		if want := []string{"a.test/", "a.test/moved", "a.test/target", "b.test/x"}; !slices.Equal(got, want) {
			t.Errorf("requests for %v, want %v", got, want)
		}
	})
}
