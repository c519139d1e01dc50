package crawl

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"drumbeat/crawl/strategy"
	"drumbeat/disk/memfs"
	"drumbeat/internal/hook"
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
		tiny := &tinyWeb{serve: w.serve}
		opt := tiny.options(t, memfs.New(*seedFlag), w.url(0))
		opt.StockTarget, opt.QueuePages = 20, Unlimited
		opt.asker = &fakeHook{answer: func(r *hook.Request) (*hook.Answer, hook.Outcome) {
			a, outcome := yes()
			if i, ok := w.page(r.URL); ok && w.topic(i) == 0 {
				a.Score = 1
			}
			a.Scored = true
			return a, outcome
		}}
		set(&opt)
		mustRun(t, t.Context(), opt)
		for _, r := range tiny.requests {
			if i, ok := w.page(r.path); ok {
				order = append(order, i)
			}
		}
		checkBalanced(t, opt.FS, opt.Dirs)
	})
	if len(order) != w.pages {
		t.Errorf("%d requests for %d pages", len(order), w.pages)
	}
	return order
}

// TestFocused: of the first tenth of a focused crawl at least twice as many pages are on the subject as of one in breadth
// first; and none is lost.
func TestFocused(t *testing.T) {
	t.Parallel()
	w := &topicWeb{pages: 2000, hosts: 40, topics: 8, links: 6, same: 0.6}
	share := map[string]float64{}
	for _, name := range []string{strategy.BreadthFirst, strategy.Focused} {
		order := w.crawlTopics(t, func(o *Options) { o.Strategy = name })
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
// together; and pages of one host in the order in which they were found.
func TestBreadthFirst(t *testing.T) {
	t.Parallel()
	w := &topicWeb{pages: 1000, hosts: 1, links: 0, topics: 1}
	w.hosts = 5
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
		tiny := &tinyWeb{serve: serve}
		opt := tiny.options(t, memfs.New(*seedFlag), w.url(0))
		opt.Strategy, opt.StockTarget = strategy.BreadthFirst, 20
		mustRun(t, t.Context(), opt)
		last := make([]int, w.hosts) // of each host
		deepest := 0
		for _, r := range tiny.requests {
			i, ok := w.page(r.path)
			if !ok {
				continue
			}
			if depth := depthIn(i, perPage); depth < deepest-1 {
				t.Fatalf("page %d at depth %d comes after one at depth %d", i, depth, deepest)
			} else {
				deepest = max(deepest, depth)
			}
			if i < last[i%w.hosts] {
				t.Fatalf("host %d: page %d comes after page %d", i%w.hosts, i, last[i%w.hosts])
			}
			last[i%w.hosts] = i
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
