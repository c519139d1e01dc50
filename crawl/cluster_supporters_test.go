package crawl

import (
	"context"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// supportersCluster crawls with budgets by supporters. Hosts without robots.txt keep it waiting for linger after the
// last page, so that a computation has all edges.
func supportersCluster(t *testing.T, seed uint64, nodes int, faults mem.Faults, linger time.Duration) *testCluster {
	web := smallWeb(t, func(o *simweb.Options) {
		o.Seed, o.PLDs, o.Hosts, o.Pages, o.PageBytes, o.LinksPerPage, o.SeedURLs = seed, 60, 120, 900, 300, 12, 6
		o.Robots.ServerError = 0.1
	})
	return newCluster(t, web, nodes, faults, func(_ int, o *Options) {
		small(o)
		o.Budgets.Policy, o.Limits.Linger, o.Health.RobotsWait = "supporters", linger, 24*time.Hour
	})
}

// supports returns what the last checkpoints of all nodes know of their PLDs, and the Supports that a computation over
// these checkpoints gives.
func (c *testCluster) supports() (got map[uint64]star.Known, want map[uint64]star.Support) {
	c.t.Helper()
	got, want = map[uint64]star.Known{}, map[uint64]star.Support{}
	opt := star.SupportOptions{Name: state.NameStar, FS: memfs.New(1), Dir: "d/tmp", RAMBytes: star.LeastSupportRAM,
		Whole: true, Update: func(updates []star.SupportUpdate) error {
			for _, u := range updates {
				want[u.PLD] = u.Support
			}
			return nil
		}}
	for node := range c.options {
		o := &c.options[node]
		set, st := lastPart[star.State](c.t, o.Disk.FS, o.Disk.Dirs, state.NameStar)
		must(c.t, star.WalkPLDs(set, state.NameStar, st, func(pld uint64, _ star.PLD) error {
			known, err := star.LookUp(set, state.NameStar, st, pld, func([]byte) error { return nil })
			got[pld] = known
			return err
		}))
		if node == 0 {
			opt.Set, opt.State = set, st
			continue
		}
		seeds, err := star.SeedsOf(set, st)
		must(c.t, err)
		opt.Others = append(opt.Others, star.SupportPart{Seeds: seeds,
			Walk: func(_ context.Context, fn func(star.Edge) error) error {
				return star.WalkSupport(set, state.NameStar, st, fn)
			}})
	}
	_, err := star.ComputeSupport(c.t.Context(), opt)
	must(c.t, err)
	return got, want
}

// checkSupports requires the Supports of a computation of one node, to within the steps that are not worth an update.
// A computation compares its result with the records. If the last updates still wait for their merge, either these or
// the records are right.
func (c *testCluster) checkSupports() (supports map[uint64]star.Support) {
	c.t.Helper()
	got, want := c.supports()
	standing := 0
	near := func(s, w star.Support) bool {
		return s.Known() && max(s, w)-min(s, w) <= 16 && (s < 1024) == (w < 1024)
	}
	for pld, w := range want {
		g := got[pld]
		if w.Standing() == 1 {
			standing++
		}
		if !near(g.Record.Support, w) && !near(g.Merged.Support, w) {
			c.t.Errorf("PLD %x has the Support %d, after a merge %d; a computation of one node gives %d", pld,
				g.Record.Support, g.Merged.Support, w)
		}
	}
	if len(got) != len(want) || standing < 10 || standing == len(got) {
		c.t.Errorf("%d PLDs, want %d; %d with standing", len(got), len(want), standing)
	}
	return want
}

// TestClusterSupporters: three nodes give all PLDs the Supports that one node gives them.
func TestClusterSupporters(t *testing.T) {
	t.Parallel()
	var one map[uint64]star.Support
	for _, nodes := range []int{1, 3} {
		inBubble(t, func(t *testing.T) {
			c := supportersCluster(t, *seedFlag, nodes, mem.Faults{Delay: 10 * time.Millisecond}, 30*time.Minute)
			defer c.close()
			c.check(c.run(t.Context()))
			got := c.checkSupports()
			if one == nil {
				one = got
			} else if !maps.Equal(got, one) {
				t.Errorf("%d nodes have other edges or seeds than one", nodes)
			}
		})
	}
}

// TestClusterSupportersCuts: nodes are killed, or lose their power, at random operations on their disks, while the
// broker loses messages, values and requests. In the end all PLDs have their Supports.
func TestClusterSupportersCuts(t *testing.T) {
	t.Parallel()
	var kills int
	for seed := *seedFlag; seed < *seedFlag+longOr[uint64](60, 2); seed++ {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0x73757070))
			c := supportersCluster(t, seed, 3, mem.Faults{Delay: 100 * time.Millisecond, Lose: 0.05, Double: 0.1,
				NoAck: 0.05, NoAsk: 0.05}, 20*time.Minute)
			defer c.close()
			c.lives(atRandom(rng, 4), &kills)
			c.checkSupports()
			if rep, err := c.compare(func(fs *memfs.FS) disk.FS { return fs }); err != nil || !rep.Balanced() {
				t.Errorf("audit of all nodes: %v, %+v", err, rep)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	t.Logf("%d cuts", kills)
}

// TestClusterSupportersChange: the operator changes the budget function of running nodes to supporters. Then slots of
// the node that computes go to the others, with the Supports of their PLDs. With the function of the flags again, no
// node computes any more.
func TestClusterSupportersChange(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := supportersCluster(t, *seedFlag, 3, mem.Faults{Delay: 10 * time.Millisecond}, time.Hour)
		defer c.close()
		for i := range c.options {
			c.options[i].Budgets.Policy, c.options[i].Observe.Control = "paper", new(Control)
		}
		function := func(f *changes.Function) {
			for i := range c.options {
				_, err := c.options[i].Observe.Control.Make(t.Context(),
					changes.Change{Op: changes.OpFunction, Who: "test", Function: f})
				must(t, err)
			}
		}
		// since reports whether all nodes have the Supports of a computation after a time.
		since := func(at time.Time) bool {
			for i := range c.options {
				s, err := c.options[i].Observe.Control.Snapshot()
				if err != nil || s.Supporters.Before(at) { // a node that changes its table does not answer
					return false
				}
			}
			return true
		}
		before, next := c.halfGiven(0, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if !c.fetchedAll(t.Context(), 100) {
				return
			}
			began := time.Now()
			function(&changes.Function{Name: "supporters", Default: 10, Max: 1000})
			c.until("supporters", func() bool { return since(began) })
			c.change(t.Context(), cluster.ChangeGive, before, next, 0)
			c.settled(t.Context(), 1)
			time.Sleep(20 * time.Minute) // all pages are there, and all edges at their nodes
			began = time.Now()
			c.until("supporters after the move", func() bool { return since(began.Add(time.Second)) })
			function(nil)
			began = time.Now()
			time.Sleep(20 * time.Minute)
			if since(began.Add(time.Minute)) {
				t.Error("nodes compute supporters with --budget paper")
			}
		}()
		results := c.run(t.Context())
		<-done
		c.checkTurned(results, next)
		c.checkSupports()
	})
}
