package crawl

import (
	"maps"
	"math"
	"testing"

	"drumbeat/cluster/mem"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/explain"
)

// nodeBudgets are the budgets of a cluster.
type nodeBudgets struct {
	plds   int
	raised int       // PLDs with more than the default
	ranks  int       // of all nodes
	most   []float64 // by node, the largest budget
}

func (c *testCluster) budgets() *nodeBudgets {
	c.t.Helper()
	all := &nodeBudgets{}
	for node := range c.options {
		o := &c.options[node]
		set, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
		must(c.t, err)
		st, err := state.Part[star.State](m, state.NameStar)
		must(c.t, err)
		b, ok, err := explain.BudgetsOf(m.Run, &changes.Settings{})
		if err != nil || !ok {
			c.t.Fatal(ok, err)
		}
		of, err := star.BudgetsOf(set, st, b)
		if err != nil {
			c.t.Fatal(err)
		}
		most, ranks := uint32(0), 0
		if err := star.WalkPLDs(set, state.NameStar, st, func(pld uint64, p star.PLD) error {
			now := of(pld, &p)
			all.plds++
			most, ranks = max(most, now.Nominal), now.Ranks
			if now.Nominal > b.Default {
				all.raised++
			}
			return nil
		}); err != nil {
			c.t.Fatal(err)
		}
		all.most, all.ranks = append(all.most, float64(most)), all.ranks+ranks
	}
	return all
}

// TestClusterBudgets: four nodes have the edges that one node has, so in-degrees agree, once the last ones
// are merged. They give as large budgets to as many PLDs. The number of PLDs of a node with the share p of V
// varies by √((1-p)/(pV)), and the largest budgets with it; ranks are whole, so each node may have one less.
// How much the budget of a single PLD may deviate is in TestBudgetsOfShares of package star, with more ranks.
func TestClusterBudgets(t *testing.T) {
	notShort(t)
	t.Parallel()
	var one *nodeBudgets
	var edges map[star.Edge]bool
	for _, nodes := range []int{1, 4} {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.PLDs, o.Hosts, o.Pages, o.PageBytes, o.LinksPerPage, o.Robots.ServerError = 1000, 1000,
					2000, 300, 20, 0
			})
			c := newCluster(t, web, nodes, mem.Faults{}, nil)
			defer c.close()
			c.check(c.run(t.Context()))
			got := c.budgets()
			t.Logf("%d nodes: %d PLDs, %d ranks, %d PLDs with more than the default budget, largest budgets %v",
				nodes, got.plds, got.ranks, got.raised, got.most)
			if one == nil {
				one, edges = got, c.edges()
				return
			}
			if !maps.Equal(c.edges(), edges) || got.plds != one.plds {
				t.Errorf("%d nodes have other edges than one", nodes)
			}
			if got.ranks > one.ranks || got.ranks <= one.ranks-nodes || got.raised < 1 {
				t.Errorf("%d nodes have %d ranks together, one has %d", nodes, got.ranks, one.ranks)
			}
			p := 1 / float64(nodes)
			bound := 4.5 * math.Sqrt((1-p)/(p*float64(one.plds)))
			for node, most := range got.most {
				if math.Abs(most/one.most[0]-1) > bound {
					t.Errorf("node %d: the largest budget is %v, that of one node alone %v, want it within %.2f", node,
						most, one.most[0], bound)
				}
			}
		})
	}
}
