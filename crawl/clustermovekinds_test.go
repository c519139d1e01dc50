package crawl

import (
	"context"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
)

// TestClusterMoveRecrawl: slots of a crawl that visits pages again move while the nodes are stopped, there and back.
// The nodes visit each page again in time.
func TestClusterMoveRecrawl(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 15, 30, 300)
		c, fs := movable(t, web, 2, recrawling.change)
		defer c.close()
		run := func(until time.Duration) {
			t.Helper()
			for i := range c.options {
				c.options[i].Limits.MaxTime = until
			}
			for node, r := range c.run(t.Context()) {
				if r.Stop != StopTime {
					t.Errorf("node %d: %s", node, r.Stop)
				}
			}
			c.reopen()
		}
		run(10 * time.Minute)
		c.moved(fs, 0, cluster.Slots-1, 0, 1)
		run(35 * time.Minute)
		c.moved(fs, cluster.Slots/4, cluster.Slots-1, -1, 0)
		run(visitFor)
		c.checkRecrawl(new(cutTimes))
		c.auditedTogether(fs)
	})
}

// TestClusterMoveLanes: slots of a crawl with several lanes move while the nodes are stopped. Each URL is fetched once.
func TestClusterMoveLanes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 15, 30, 600)
		c, fs := movable(t, web, 2, byDepth.change)
		defer c.close()
		c.stopNodeAfter(0, 60)
		c.moved(fs, 0, cluster.Slots-1, 0, 1)
		if c.furtherLanes(fs, 1) == 0 {
			t.Error("all URLs of BEAST's lanes are in lane 0 at the node that has got them")
		}
		c.stopNodeAfter(1, 60)
		c.moved(fs, cluster.Slots/4, cluster.Slots-1, -1, 0)
		c.check(c.run(t.Context()))
		c.auditedTogether(fs)
	})
}

// TestClusterMoveEnqueued is TestGiveEnqueued while the nodes are stopped.
func TestClusterMoveEnqueued(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost = 15, 30, 600, 0
			o.CrawlDelay, o.Page.ServerError = 0, 0
		})
		control := new(Control)
		c, fs := movable(t, web, 2, func(o *Options) {
			o.Politeness.HostDelay, o.Politeness.HostDelayMin = 20*time.Second, 20*time.Second
		})
		defer c.close()
		c.options[0].Observe.Control = control
		ctx, cancel := context.WithCancel(t.Context())
		var urls, again []string
		var at time.Time
		var done sync.WaitGroup
		done.Go(func() {
			c.fetchedAll(ctx, 200)
			at = time.Now()
			urls, again = enqueueSome(ctx, c, control)
			cancel()
		})
		c.run(ctx)
		done.Wait()
		c.reopen()
		c.moved(fs, 0, cluster.Slots-1, 0, 1)
		c.checkEnqueued(c.run(t.Context()), again)
		c.checkFirst(append(urls, again...), at)
		c.auditedTogether(fs)
	})
}

// furtherLanes counts the URLs in lanes other than the first that wait in STAR of a node.
func (c *testCluster) furtherLanes(fs disk.FS, node int) (n int) {
	c.t.Helper()
	set, st := lastPart[star.State](c.t, fs, c.options[node].Disk.Dirs, state.NameStar)
	_, name := star.Stores(state.NameStar)
	_, err := drum.ScanState(set, name, st.Indegree.Waiting(), drum.Scan{Tuple: func(t drum.Tuple) error {
		if t.Op&drum.Check != 0 && len(t.Value) == 2 && t.Value[1] > 0 {
			n++
		}
		return nil
	}})
	must(c.t, err)
	return n
}
