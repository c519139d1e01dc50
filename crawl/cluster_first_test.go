package crawl

import (
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// TestClusterFirstPage: three new nodes that start together fetch a page within seconds, also where the rules
// of half of the hosts are behind a redirect to another host. If one is missing, the others rest for the time
// that safety needs, three beats of 10 s, and their URLs then wait for nothing else.
func TestClusterFirstPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		redirect float64
		late     time.Duration // of the last node
		most     time.Duration // until a page is fetched
	}{
		{"together", 0, 0, 5 * time.Second},
		{"redirects", 0.5, 0, 5 * time.Second},
		{"one late", 0.5, 50 * time.Second, 35 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				web := smallWeb(t, func(o *simweb.Options) {
					o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost, o.Robots.ServerError = 20, 40, 100, c.redirect, 0
				})
				var first atomic.Int64 // when a page had been fetched
				begun := time.Now()
				cl := newCluster(t, web, 3, mem.Faults{Delay: 5 * time.Millisecond}, func(node int, o *Options) {
					o.Observe.SnapshotEvery = 500 * time.Millisecond
					o.Observe.Snapshot = func(s *Snapshot) {
						if s.Count(state.CountPages) > 0 {
							first.CompareAndSwap(0, int64(time.Since(begun)))
						}
					}
				})
				defer cl.close()
				cl.wait = func(node int) {
					if node == 2 {
						account.Sleep(t.Context(), c.late)
					}
				}
				cl.check(cl.run(t.Context()))
				took := time.Duration(first.Load())
				t.Logf("first page after %v", took)
				if took == 0 || took > c.most {
					t.Errorf("first page after %v; want at most %v", took, c.most)
				}
			})
		})
	}
}
