package crawl

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	room "drumbeat/crawl/node"
	"drumbeat/internal/pace"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// TestClusterShares: the shares of a number of pages add up to it, and those of a rate to the rate.
func TestClusterShares(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seedFlag, 1))
	for range 20 {
		weights := make([]float64, 1+rng.IntN(40))
		for i := range weights {
			weights[i] = 0.1 + rng.Float64()
		}
		table, err := cluster.NewTable(weights)
		must(t, err)
		for _, n := range []int64{1, 7, int64(rng.IntN(1 << 40)), math.MaxInt64} {
			sum, rate, left := int64(0), 0.0, 0.0
			for node := range weights {
				c := &Cluster{Node: node, Table: table}
				before, own := room.SlotsBefore(table, node)
				part := room.PageShare(n, before, own)
				if want := float64(n) * float64(own) / cluster.Slots; math.Abs(float64(part)-want) > 1+want/1e9 {
					t.Fatalf("node %d of %v: %d of %d pages, want %.0f", node, weights, part, n, want)
				}
				sum += part
				rate += (&Options{Cluster: c}).rateOf(pace.Plain(pace.Pages, 80), 0).Max()
				if c.Abandoned = []int{0}; node > 0 {
					left += (&Options{Cluster: c}).rateOf(pace.Plain(pace.Pages, 80), 0).Max()
				}
			}
			if sum != n || math.Abs(rate-80) > 1e-6 || len(weights) > 1 && math.Abs(left-80) > 1e-6 {
				t.Errorf("%v: %d of %d pages, a rate of %v of 80, %v without node 0", weights, sum, n, rate, left)
			}
		}
		if len(weights) < 2 || table.Share(0) < 2 {
			continue
		}
		slots, rate := half(table, 0, 1), 0.0 // they move: the giver has the next table
		next, err := table.Give(slots)
		must(t, err)
		for node := range weights {
			c, coming := &Cluster{Node: node, Table: table}, 0
			if node == 0 {
				c.Table = next
			} else if node == 1 {
				coming = len(slots)
			}
			rate += (&Options{Cluster: c}).rateOf(pace.Plain(pace.Pages, 80), coming).Max()
		}
		if math.Abs(rate-80) > 1e-6 {
			t.Errorf("%v: a rate of %v of 80 while slots move", weights, rate)
		}
	}
}

// pages returns how many pages each node has fetched by its last checkpoint, and their sum.
func (c *testCluster) pages() (by []int64, sum int64) {
	c.t.Helper()
	for node := range c.options {
		o := &c.options[node]
		_, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
		if err != nil {
			c.t.Fatal(err)
		}
		by = append(by, m.Accounts.Counters[state.CountPages])
		sum += by[node]
	}
	return by, sum
}

// TestClusterPages: nodes stop at a limit of pages that holds for all of them together, whatever part of the
// web each owns. A larger limit lets them continue.
func TestClusterPages(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 5, 20, 1200)
		c := newCluster(t, web, 4, mem.Faults{Delay: 10 * time.Millisecond},
			func(_ int, o *Options) { o.Limits.MaxPages = 400 })
		defer c.close()
		for _, limit := range []int64{400, 600} {
			for node := range c.options {
				c.options[node].Limits.MaxPages = limit
				c.options[node].Cluster.Reconfigure = true
			}
			results := c.run(t.Context())
			by, sum := c.pages()
			t.Logf("pages %v, %v", by, results[0].Snapshot.Elapsed)
			most := int64(0)
			for node, r := range results {
				if r.Stop != StopPages {
					t.Errorf("node %d: %s", node, r.Stop)
				}
				most = max(most, by[node])
				checkBalanced(t, c.options[node].Disk.FS, c.options[node].Disk.Dirs)
			}
			if sum != limit || most < limit*3/10 {
				t.Errorf("%v pages, want %d, and one node with more than its share", by, limit)
			}
		}
		for node := range c.options {
			c.options[node].Limits.MaxPages = 1 << 40
		}
		c.check(c.run(t.Context())) // more than there are
	})
}

// TestClusterPagesCuts: the limit of pages is never exceeded and always reached, while nodes are killed and
// the broker loses messages and values.
func TestClusterPagesCuts(t *testing.T) {
	notShort(t)
	t.Parallel()
	var kills int
	for seed := *seedFlag; seed < *seedFlag+longOr[uint64](100, 4); seed++ {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0x70616765))
			web := cutWeb(t, seed, func(o *simweb.Options) { o.PLDs, o.Pages = 8, 300 })
			limit := int64(60 + rng.IntN(60))
			nodes := 2 + int(seed%3)
			c := newCluster(t, web, nodes, mem.Faults{Delay: 100 * time.Millisecond, Lose: 0.05, Double: 0.1,
				NoAck: 0.05}, func(_ int, o *Options) {
				small(o)
				o.Limits.MaxPages = limit
			})
			defer c.close()
			c.stop = StopPages
			stop := c.chaos()
			c.lives(atRandom(rng, 4), &kills)
			events := stop()
			for node := range c.options {
				checkDeep(t, &c.options[node])
			}
			if by, sum := c.pages(); sum != limit {
				t.Errorf("pages %v, want %d", by, limit)
			}
			if t.Failed() {
				t.Fatalf("seed %d: %v %v", seed, events, c.net.Counts())
			}
		})
	}
	t.Logf("%d cuts", kills)
}
