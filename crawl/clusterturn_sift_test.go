package crawl

import (
	"context"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/simweb"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// TestSiftPaused: a giver is paused, and gets another budget function, while it looks through its queues for URLs of
// the slots that have left. It fetches none of them all the same: the taker gets them.
func TestSiftPaused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages = 12, 24, 1200
			o.Robots.RedirectHost = 0
		})
		var once sync.Once
		sifting := make(chan struct{})
		c := newCluster(t, web, 2, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
			o.Observe.Control = &Control{}
			o.Budgets.QueuesMax, o.Budgets.Default, o.Budgets.Max, o.Budgets.QueuePages = 8, 2, 6, Unlimited
			o.Order.StockTarget, o.tests.siftLot = 12, 1
			o.tests.hook = func(place string) {
				if place == "sift" {
					once.Do(func() { close(sifting) })
					time.Sleep(300 * time.Millisecond)
				}
			}
		})
		defer c.close()
		before := c.options[0].Cluster.Table
		next, err := before.Give(0, half(before, 0, 1))
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		early := map[string]bool{} // requests before the slots left
		var changing sync.WaitGroup
		changing.Go(func() {
			if !c.fetchedAll(ctx, 100) {
				t.Error("no 100 requests")
				return
			}
			c.change(ctx, cluster.ChangeGive, before, next, 0)
			<-sifting
			for url := range c.web.Log().Snapshot().Fetches {
				early[url] = true
			}
			c.makeSoon(ctx, 0, changes.Change{Op: changes.OpPause})
			c.makeSoon(ctx, 0, changes.Change{Op: changes.OpFunction, Function: &changes.Function{Name: "equal",
				Default: 33, Max: 33}})
			account.Sleep(ctx, time.Minute)
			c.makeSoon(ctx, 0, changes.Change{Op: changes.OpResume})
			if !c.settled(ctx, 1) {
				t.Error("the nodes have not taken the table")
			}
		})
		results := c.run(t.Context())
		changing.Wait()
		for i := range c.options {
			c.options[i].Cluster.Table = next
		}
		c.check(results)
		for i := range c.options {
			checkDeep(t, &c.options[i])
		}
		c.conserved()
		c.checkLate(0, early, next)
	})
}

// makeSoon makes a change of the operator at a node, which may be between two runs.
func (c *testCluster) makeSoon(ctx context.Context, node int, change changes.Change) {
	c.t.Helper()
	change.Who = "test"
	for {
		_, err := c.options[node].Observe.Control.Make(ctx, change)
		if err == nil {
			return
		}
		if !account.Sleep(ctx, 20*time.Millisecond) {
			c.t.Error(err)
			return
		}
	}
}

// checkLate checks that a node has fetched nothing but early of slots that it does not own by a table.
func (c *testCluster) checkLate(node int, early map[string]bool, table *cluster.Table) {
	c.t.Helper()
	fs, late := c.options[node].Disk.FS, 0
	files, err := crawllog.Files(disk.Set{FS: fs, Paths: c.options[node].Disk.Dirs}, "crawl")
	must(c.t, err)
	for _, f := range files {
		must(c.t, crawllog.ReadFile(fs, f, func(e *crawllog.Entry) error {
			if e.Status != 0 && !early[e.URL] && table.OwnerOf(weburl.SlotOf(e.Key)) != node {
				late++
			}
			return nil
		}))
	}
	if late > 0 {
		c.t.Errorf("node %d has fetched %d URLs of slots that had left it", node, late)
	}
}
