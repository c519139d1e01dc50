package crawl

import (
	"context"
	"math"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/internal/simweb"
)

// falseMarks are marks of node 1 of three that cannot be true, or that must not make others drop or believe anything.
var falseMarks = map[string]func(m *cluster.Mark){
	"more taken than was sent": func(m *cluster.Mark) {
		for i := range m.Taken {
			m.Taken[i].Number += 1000
		}
	},
	"more records than were sent": func(m *cluster.Mark) {
		for i := range m.Taken {
			m.Taken[i].Totals.Links.N += 1000
		}
	},
	"differ from those":  func(m *cluster.Mark) { m.Taken[0].Totals.Links.Lo++ },
	"more dropped":       func(m *cluster.Mark) { m.Gone[0] += 1000 },
	"another life":       func(m *cluster.Mark) { m.Incarnation++ },
	"another table":      func(m *cluster.Mark) { m.Table++ },
	"moved slots":        func(m *cluster.Mark) { m.Moves, m.Table = m.Moves+1, m.Table+1 },
	"all given up":       func(m *cluster.Mark) { m.Abandoned = []int{0, 2} },
	"a late checkpoint":  func(m *cluster.Mark) { m.Checkpoint = math.MaxUint64 },
	"an old checkpoint":  func(m *cluster.Mark) { m.Checkpoint = 0 },
	"a late round":       func(m *cluster.Mark) { m.Round = 1 << 62 },
	"negative records":   func(m *cluster.Mark) { m.Out[0] = -1 },
	"too few nodes":      func(m *cluster.Mark) { m.Taken = m.Taken[:2] },
	"the mark of a node": func(m *cluster.Mark) { m.Node = 0 },
}

// TestClusterForgedMark: one false mark of a node, of whatever kind, is refused, counted and told. All nodes
// end as without it, and nothing is lost.
func TestClusterForgedMark(t *testing.T) {
	t.Parallel()
	for name, forge := range falseMarks {
		if testing.Short() && name != "more taken than was sent" && name != "a late checkpoint" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				web := smallWeb(t, func(o *simweb.Options) {
					o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost, o.Robots.ServerError = 12, 24, 300, 0, 0
				})
				c := newCluster(t, web, 3, mem.Faults{Delay: 5 * time.Millisecond},
					func(_ int, o *Options) { o.Disk.CheckpointEvery = 10 * time.Second })
				defer c.close()
				forged := make(chan bool, 1)
				go func() { forged <- forgeMark(t.Context(), c, forge) }()
				results := c.run(t.Context())
				if !<-forged {
					t.Fatal("no mark was forged")
				}
				c.check(results)
				refused := int64(0)
				for _, node := range []int{0, 2} {
					for _, p := range results[node].Snapshot.Cluster.Pairs {
						refused += p.RefusedMarks
					}
				}
				if refused == 0 {
					t.Error("no node has refused a mark")
				}
			})
		})
	}
}

// forgeMark changes the mark of node 1 once, when it has taken something of node 0 and dropped something for it.
func forgeMark(ctx context.Context, c *testCluster, forge func(m *cluster.Mark)) bool {
	e := c.engines[2]
	for account.Sleep(ctx, 100*time.Millisecond) {
		m, err := cluster.ReadMark(ctx, e, 1, 3)
		if err != nil || m == nil || m.Taken[0].Number == 0 {
			continue
		}
		forge(m)
		data, err := m.Encode()
		if err == nil {
			_, err = e.Put(ctx, cluster.BucketCrawl, cluster.MarkKey(1), data)
		}
		return err == nil
	}
	return false
}
