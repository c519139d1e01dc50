package crawl

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/strategy"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// hostTrees is a web of hosts whose page i links to their own pages perPage*i+1 and on, and to the first pages of the
// two hosts after it. So all pages of a host are found in the order of their numbers.
type hostTrees struct{ hosts, pages, perPage int }

func (w *hostTrees) serve(host, path string) answer {
	var h, i int
	if _, err := fmt.Sscanf(host+path, "h%d.test/%d", &h, &i); err != nil {
		return noRobots
	}
	body := "<html>"
	for j := w.perPage*i + 1; j <= w.perPage*(i+1) && j < w.pages; j++ {
		body += fmt.Sprintf("<a href=/%d>", j)
	}
	for next := 2*h + 1; i == 0 && next <= 2*h+2 && next < w.hosts; next++ {
		body += fmt.Sprintf("<a href=http://h%d.test/0>", next)
	}
	return answer{200, "", body}
}

// orderOf is what a crawl did with a web: for each host its pages in the order of their requests, and when each was
// requested; and when URLseen emitted new URLs.
type orderOf struct {
	pages map[string][]int
	at    map[string]map[int]time.Time
	emits []time.Time // different times, ascending
}

// crawl crawls the web breadth first.
func (w *hostTrees) crawl(t *testing.T, dirs []string) *orderOf {
	o := &orderOf{pages: map[string][]int{}, at: map[string]map[int]time.Time{}}
	inBubble(t, func(t *testing.T) {
		tiny := &tinyWeb{Serve: w.serve}
		opt := tinyOptions(t, tiny, memfs.New(*seedFlag), "http://h0.test/0")
		opt.Order.Strategy, opt.Politeness.HostDelay, opt.Disk.Dirs = strategy.BreadthFirst, time.Second, dirs
		var mu sync.Mutex
		opt.tests.hook = func(place string) {
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now(); place == "urlseen" && (len(o.emits) == 0 || now.After(o.emits[len(o.emits)-1])) {
				o.emits = append(o.emits, now)
			}
		}
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Count(state.CountDeferrals); n > 0 {
			t.Errorf("%d URLs were deferred, which changes the order", n)
		}
		for _, r := range tiny.Requests {
			var i int
			if _, err := fmt.Sscanf(r.Path, "/%d", &i); err == nil {
				o.pages[r.Host] = append(o.pages[r.Host], i)
				if o.at[r.Host] == nil {
					o.at[r.Host] = map[int]time.Time{}
				}
				o.at[r.Host][i] = r.At
			}
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
	n := 0
	for _, pages := range o.pages {
		n += len(pages)
	}
	if n != w.hosts*w.pages {
		t.Errorf("%d requests for %d pages", n, w.hosts*w.pages)
	}
	return o
}

// found returns when a page other than 0 was found: when the page that links to it was requested, as answers
// take no time.
func (o *orderOf) found(w *hostTrees, host string, page int) time.Time {
	return o.at[host][(page-1)/w.perPage]
}

// passesBetween returns at how many times URLseen emitted URLs from a time on and before another.
func (o *orderOf) passesBetween(from, to time.Time) (n int) {
	for _, at := range o.emits {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// TestOrderWithinHost holds the statement of docs/how-it-works/architecture.md, "The order within a host"
// (Polybot, section 3.5), by the server's log: a crawl breadth first with one directory requests the URLs of
// a host in the order in which it found them. With several directories it does so for URLs of different
// passes of URLseen: if two passes emitted URLs between the times at which two URLs were found, one of them
// emitted the earlier URL.
func TestOrderWithinHost(t *testing.T) {
	t.Parallel()
	w := &hostTrees{hosts: 7, pages: 60, perPage: 5}
	one := w.crawl(t, []string{"d0"})
	for host, pages := range one.pages {
		if !slices.IsSorted(pages) {
			t.Errorf("one directory: %s: requests for %v", host, pages)
		}
	}
	several := w.crawl(t, []string{"d0", "d1", "d2"})
	ordered, swapped := 0, 0
	for host, pages := range several.pages {
		for k, later := range pages {
			for _, page := range pages[k+1:] { // requested after later
				if later < page || page == 0 {
					continue
				}
				swapped++
				if n := several.passesBetween(several.found(w, host, page), several.found(w, host, later)); n >= 2 {
					t.Errorf("three directories: %s: page %d was requested before page %d, which was found "+
						"%d passes earlier", host, later, page, n)
				}
			}
			for _, page := range pages[:k] {
				if page > 0 && page < later &&
					several.passesBetween(several.found(w, host, page), several.found(w, host, later)) >= 2 {
					ordered++
				}
			}
		}
	}
	t.Logf("three directories: %d pairs of different passes in order, %d pairs of the same one swapped",
		ordered, swapped)
	if ordered < 100 || swapped == 0 {
		t.Errorf("three directories: %d pairs of different passes, and %d swapped ones: the test shows nothing",
			ordered, swapped)
	}
}
