package crawl

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
)

// hostDelay is a change of the operator, which a node does not give; 0: it is gone.
func hostDelay(delay float64) changes.Change {
	if delay == 0 {
		return changes.Change{Op: changes.OpHostNormal, Host: "www.site0.test"}
	}
	return changes.Change{Op: changes.OpHostDelay, Host: "www.site0.test", Delay: delay}
}

func soon(*testCluster, context.Context) bool { return true }

// whenHas waits until a node has the first table after the change.
func whenHas(node int) func(c *testCluster, ctx context.Context) bool {
	return func(c *testCluster, ctx context.Context) bool { return c.has(ctx, node, 1) }
}

// TestGiveUpDuringGive: a node that gives slots, or gets them, is lost for good in the middle of the change, and has no
// backup. Once the others have given it up, they continue, with or without the change, and end.
func TestGiveUpDuringGive(t *testing.T) {
	notShort(t)
	t.Parallel()
	for name, w := range map[string]struct {
		givers []int
		taker  int
		until  func(c *testCluster, ctx context.Context) bool // the moment of the loss
		held   bool                                           // node 1 cannot give before it gives up node 2
	}{
		"giver, at once":                    {[]int{2}, 0, soon, false},
		"giver, when it has given":          {[]int{2}, 0, whenHas(2), false},
		"taker, at once":                    {[]int{0}, 2, soon, false},
		"taker, when it is given":           {[]int{0}, 2, whenHas(0), false},
		"giver, when another one has given": {[]int{0, 2}, 1, whenHas(0), false},
		"taker, when a giver has given":     {[]int{0, 1}, 2, whenHas(0), false},
		"taker, when one giver cannot":      {[]int{0, 1}, 2, whenHas(0), true},
		"taker of two, at once":             {[]int{0, 1}, 2, soon, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				control := new(Control)
				c := giveUpCluster(t, func(o *Options) {
					siftsSlowly(o, 300*time.Millisecond)
					if o.Cluster.Node == 1 && w.held {
						o.Observe.Control = control
					}
				}, func(c *testCluster) {
					before := c.options[0].Cluster.Table
					to := map[int]int{}
					for _, giver := range w.givers {
						to = both(to, half(before, giver, w.taker))
					}
					next, err := before.Give(to)
					must(t, err)
					if c.fetchedAll(ctx, 200) {
						if w.held {
							_, err := control.Make(ctx, hostDelay(9))
							must(t, err)
						}
						c.change(ctx, cluster.ChangeGive, before, next, 0)
						w.until(c, ctx)
					}
				})
				defer c.close()
				if w.held {
					j, err := changes.Open(c.options[1].Disk.FS, c.options[1].Disk.Dirs[0]+"/"+state.ChangesName, 0)
					must(t, err)
					_, err = j.Append(hostDelay(0), time.Now())
					must(t, errors.Join(err, j.Close()))
				}
				c.together(20*time.Hour, func(node int, o *Options) {
					if node < 2 {
						o.Cluster.Abandoned, o.Cluster.Reconfigure = []int{2}, true
					}
				}, func(node int, res *Result, err error) {
					if node < 2 && (err != nil || res.Stop != StopDone) {
						t.Errorf("node %d: %v, %v", node, err, res)
					}
				})
				for node := range 2 {
					checkDeep(t, &c.options[node])
				}
			})
		})
	}
}

// has waits until the mark of a node has a table.
func (c *testCluster) has(ctx context.Context, node, moves int) bool {
	for account.Sleep(ctx, 10*time.Millisecond) {
		v, err := c.engines[0].Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
		if err == nil && cluster.MarkMoves(v.Data) >= moves {
			return true
		}
	}
	return false
}

// TestEraseDuringGive: a node refuses to erase pages while slots are to move, since a URL on its way would be missed.
func TestEraseDuringGive(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		_, c := controlled(t, 2, 12)
		defer c.close()
		before, next := c.halfGiven(0, 1)
		control := c.options[1].Observe.Control
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() {
			if res, err := Run(ctx, c.options[1]); err != nil || res.Stop != StopCancelled {
				t.Errorf("%v, %v", err, res)
			}
		})
		<-control.Started()
		ask := &erase.Ask{Who: "eve", Reason: "a test", Source: erase.Source{Hosts: []string{"www.site0.test"}}}
		c.change(ctx, cluster.ChangeGive, before, next, 0) // node 0 does not run, so nothing moves
		refused := false
		for !refused && account.Sleep(ctx, 100*time.Millisecond) {
			_, err := control.Erase(ctx, ask)
			refused = changes.IsRefused(err) && strings.Contains(err.Error(), "slots move to this node")
			if err != nil && !refused {
				t.Error(err)
			}
		}
		if !refused {
			t.Error("the node erases pages")
		}
		cancel()
	})
}

// TestEraseAfterGive: a request to erase pages that waits while slots move here is refused when the run ends for them,
// and carried out as soon as the table is that of the node.
func TestEraseAfterGive(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		_, c := controlled(t, 2, 12)
		defer c.close()
		before, next := c.halfGiven(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		control := c.options[1].Observe.Control
		var running sync.WaitGroup
		running.Go(func() {
			<-control.Started()
			ask := &erase.Ask{Who: "eve", Reason: "a test", Later: true,
				Source: erase.Source{Hosts: []string{"www.site0.test"}}}
			if _, err := control.Erase(ctx, ask); err != nil {
				t.Error(err)
			}
			if !c.fetchedAll(ctx, 100) {
				t.Error("no 100 pages")
			}
			c.change(ctx, cluster.ChangeGive, before, next, 0)
		})
		results := c.run(t.Context())
		running.Wait()
		if n := results[1].Snapshot.Runs; n != 3 { // with the table before, to erase, and after that
			t.Errorf("node 1 had %d runs", n)
		}
		records, err := erase.RecordsOf(c.options[1].Disk.FS, c.options[1].Disk.Dirs)
		if must(t, err); len(records) != 1 {
			t.Errorf("%d requests were carried out", len(records))
		}
	})
}
