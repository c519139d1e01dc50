package crawl

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	room "drumbeat/crawl/node"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/weburl"
)

// giveUpCluster runs three nodes until lost returns; then node 2 loses its disks. The others run for the rest
// of 30 seconds.
func giveUpCluster(t *testing.T, change func(o *Options), lost func(c *testCluster)) *testCluster {
	t.Helper()
	web := sizedWeb(t, 30, 60, 1500)
	c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
		o.Disk.CheckpointEvery, o.Cluster.File = 3*time.Second, "cluster.json"
		change(o)
	})
	c.writeFile(c.options[0].Disk.FS)
	c.together(30*time.Second, func(node int, o *Options) {
		if node == 2 {
			go func() { lost(c); o.Disk.FS.(*memfs.FS).CrashAfter(1) }()
		}
	}, func(node int, res *Result, err error) {
		if node == 2 && !errors.Is(err, disk.ErrCrashed) || node < 2 && (err != nil || res.Stop != StopTime) {
			t.Fatalf("node %d: %v, %+v", node, err, res)
		}
	})
	c.options[2].Disk.FS = c.options[2].Disk.FS.(*memfs.FS).Crash()
	return c
}

// together runs all nodes for a time. change may change the options of a node, and check gets its result.
func (c *testCluster) together(d time.Duration, change func(node int, o *Options),
	check func(node int, res *Result, err error)) {
	c.t.Helper()
	var wg sync.WaitGroup
	results, errs := make([]*Result, len(c.options)), make([]error, len(c.options))
	for node := range c.options {
		o := c.options[node]
		of := *o.Cluster
		o.Cluster, o.Limits.MaxTime = &of, d
		change(node, &o)
		wg.Go(func() { results[node], errs[node] = Run(c.t.Context(), o) })
	}
	wg.Wait()
	for node, err := range errs {
		check(node, results[node], err)
	}
}

// checkAbandoned checks the nodes that are left, all but the last one: each has fetched each URL that its
// seeds and pages of these nodes lead to, once if once is set, and their accounts balance with what was
// dropped.
func (c *testCluster) checkGivenUp(once bool) {
	c.t.Helper()
	lost := len(c.options) - 1
	h := weburl.NewHasher(c.options[0].Cluster.Secret)
	owner := func(pld string) int { return c.options[0].Cluster.Table.Owner(h.PLDKey([]byte(pld))) }
	want, err := c.web.ExpectedFrom("drumbeat", c.web.Seeds(), func(_, pld string) bool { return owner(pld) != lost })
	if err != nil {
		c.t.Fatal(err)
	}
	snap, all := c.web.Log().Snapshot(), c.web.Expected("drumbeat")
	reached, wrong := 0, 0
	for url := range want.FetchedURLs() {
		reached++
		if n := snap.Fetches[url]; n == 0 || once && n > 1 {
			if wrong++; wrong <= 10 {
				c.t.Errorf("fetched %d times: %s", n, url)
			}
		}
	}
	for url, n := range snap.Fetches {
		if fetched, _, _ := all.Has(url); !fetched {
			c.t.Errorf("fetched, but must not be: %s", url)
		} else if once && n > 1 {
			c.t.Errorf("fetched %d times: %s", n, url)
		}
	}
	c.t.Logf("%d URLs of %d fetched; %d need no page of node %d; %d wrong", len(snap.Fetches), all.Fetched,
		reached, lost, wrong)
	if once && (reached == 0 || reached == all.Fetched) {
		c.t.Errorf("%d of %d URLs are reached without node %d: the test shows nothing", reached, all.Fetched, lost)
	}
	var nodes []audit.Node
	var dropped int64
	for node := range lost {
		o := &c.options[node]
		checkDeep(c.t, o)
		nodes = append(nodes, c.auditNode(o.Disk.FS, node))
		_, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
		if err != nil {
			c.t.Fatal(err)
		}
		dropped += m.Accounts.Counters[state.CountLinksAbandoned]
	}
	rep, err := audit.CompareNodes(nodes)
	if err != nil || !rep.Balanced() || rep.Above.Records() != 0 || !slices.Equal(rep.Abandoned, []int{lost}) ||
		rep.Dropped.Links.N != dropped || once && dropped == 0 || !slices.Equal(rep.Missing, []int{lost}) {
		c.t.Errorf("audit of the nodes that are left: %v, %d links dropped, %+v", err, dropped, rep)
	}
	nodes = append(nodes, c.auditNode(c.options[lost].Disk.FS, lost)) // its old directories
	if rep, err = audit.CompareNodes(nodes); err != nil || rep.Dropped.Links.N != dropped {
		c.t.Errorf("with the node that was given up: %v, %+v", err, rep)
	}
}

// TestClusterGiveUp: nodes do not end without one that is lost. Once they have given it up, they fetch all
// that their own pages lead to, and end. The lost node is refused, and so is a node that waits for it.
func TestClusterGiveUp(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := giveUpCluster(t, func(*Options) {}, func(*testCluster) { time.Sleep(8 * time.Second) })
		defer c.close()
		pair := func(change func(node int, o *Options), check func(node int, res *Result, err error)) {
			t.Helper()
			lost := c.options[2]
			c.options = c.options[:2]
			c.together(20*time.Minute, change, check)
			c.options = append(c.options, lost)
		}
		pair(func(int, *Options) {}, func(node int, res *Result, err error) {
			if err != nil || res.Stop != StopTime {
				t.Fatalf("node %d waits for node 2: %v, %+v", node, err, res)
			}
		})
		o := c.options[0]
		refused := func(what, says string) {
			t.Helper()
			if _, err := Run(t.Context(), o); !errors.Is(err, state.ErrIncompatible) ||
				!strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", what, err)
			}
		}
		change := func(node int, givenUp []int, reconfigure bool) {
			o = c.options[node]
			of := *o.Cluster
			of.Abandoned, of.Reconfigure = givenUp, reconfigure
			o.Cluster, o.Limits.MaxTime = &of, time.Minute
		}
		change(0, []int{2}, false)
		refused("a node that does not replace the configuration", "nodes given up is [2] here but not set there")
		if rep := c.auditNode(o.Disk.FS, 0); rep.Cluster.Pairs[1].Sent.Abandoned {
			t.Error("a node that was refused has dropped its outbox")
		}
		change(0, []int{2}, true)
		if res, err := Run(t.Context(), o); err != nil || res.Stop != StopTime {
			t.Fatalf("the first node that gives up node 2: %v, %+v", err, res)
		}
		change(1, nil, true)
		refused("a node that waits for node 2", "give it the same --give-up-node")
		change(2, nil, true)
		refused("the node that was given up", "have abandoned node 2")
		c.explainGivenUp()
		c.net.Wipe()
		c.together(20*time.Hour, func(node int, o *Options) {
			if node == 1 { // node 0 knows it from its manifest
				o.Cluster.Abandoned, o.Cluster.Reconfigure = []int{2}, true
			}
		}, func(node int, res *Result, err error) {
			switch {
			case node == 2 && (!errors.Is(err, state.ErrIncompatible) ||
				!strings.Contains(err.Error(), "have abandoned node 2")):
				t.Errorf("the node that was given up, with a broker that knows nothing: %v", err)
			case node < 2 && (err != nil || res.Stop != StopDone):
				t.Errorf("node %d: %v, %+v", node, err, res)
			}
		})
		c.checkGivenUp(true)
	})
}

// explainGivenUp asks a node that has given up node 2 for a URL of that node.
func (c *testCluster) explainGivenUp() {
	c.t.Helper()
	o := &c.options[0]
	e := explainer(c.t, o.Disk.FS, o.Disk.Dirs)
	reports, err := e.URLs([]string{web404(c, 2), web404(c, 1)})
	if err != nil {
		c.t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if rep := reports[i]; rep.GivenUp != want ||
			strings.Contains(strings.Join(rep.Why, "\n"), "node 2 was abandoned") != want {
			c.t.Errorf("%+v", rep)
		}
	}
}

// TestClusterGiveUpPages: the pages that a lost node might have fetched are lost to the limit, and the others
// end once they have fetched theirs: the share of each, with what it borrowed and without what it lent.
func TestClusterGiveUpPages(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		const limit, before = 600, 60
		c := giveUpCluster(t, func(o *Options) {
			// With leases, nodes fetch in turn: one may spend or lend all before another one begins.
			o.Limits.MaxPages, o.Cluster.LeaseTTL = limit, lease.LeastTTL
		}, func(c *testCluster) {
			for c.requested(2) < before && account.Sleep(t.Context(), 100*time.Millisecond) {
			}
		})
		defer c.close()
		lost := c.options[2]
		c.options = c.options[:2]
		c.together(20*time.Hour, func(node int, o *Options) {
			o.Cluster.Abandoned, o.Cluster.Reconfigure = []int{2}, true
		},
			func(node int, res *Result, err error) {
				if err != nil || res.Stop != StopPages {
					t.Errorf("node %d: %v, %+v", node, err, res)
				}
			})
		by, sum := c.pages()
		for node := range c.options {
			o := &c.options[node]
			_, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
			must(t, err)
			first, own := room.SlotsBefore(o.Cluster.Table, node)
			n := &m.Accounts.Counters
			borrowed, lent := n[state.CountPagesBorrowed], n[state.CountPagesLent]
			may := room.PageShare(limit, first, own) + borrowed - lent
			if by[node] != may || may == 0 {
				t.Errorf("node %d has fetched %d pages of %d", node, by[node], may)
			}
			t.Logf("node %d: %d pages, %d borrowed, %d lent", node, by[node], borrowed, lent)
		}
		c.options = append(c.options, lost)
		if _, all := c.pages(); all > limit || sum >= limit {
			t.Errorf("pages %v, %d with those of the lost node, limit %d", by, all, limit)
		}
	})
}

// TestClusterGiveUpCuts: a node is lost at a random moment. The others are killed at random operations while
// they give it up and continue, and the broker loses messages and values.
func TestClusterGiveUpCuts(t *testing.T) {
	notShort(t)
	t.Parallel()
	var kills int
	for seed := *seedFlag; seed < *seedFlag+longOr[uint64](60, 4); seed++ {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0x67697665))
			web := cutWeb(t, seed, func(o *simweb.Options) { o.SeedURLs, o.Robots.RedirectHost = 6, 0 })
			nodes := 2 + int(seed%3)
			c := newCluster(t, web, nodes, mem.Faults{Delay: 100 * time.Millisecond, Lose: 0.05, Double: 0.1,
				NoAck: 0.05}, func(_ int, o *Options) {
				small(o)
				o.Drum.BucketBytes, o.Output.WARCFileBytes = 4<<10, 15_000
				// For which a lease waits that the lost node held, between two losses at the broker.
				o.Cluster.LeaseTTL = lease.LeastTTL
			})
			defer c.close()
			stop := c.chaos()
			before := time.Duration(500+rng.IntN(4000)) * time.Millisecond
			c.together(before, func(int, *Options) {}, func(node int, _ *Result, err error) {
				if err != nil {
					t.Fatalf("node %d: %v", node, err)
				}
			})
			lost := c.options[nodes-1]
			c.options = c.options[:nodes-1]
			for node := range c.options {
				c.options[node].Cluster.Abandoned, c.options[node].Cluster.Reconfigure = []int{nodes - 1}, true
			}
			c.lives(atRandom(rng, 4), &kills)
			events := stop()
			c.options = append(c.options, lost)
			c.checkGivenUp(false)
			if t.Failed() {
				t.Fatalf("seed %d, lost after %v: %d events %v", seed, before, len(events), c.net.Counts())
			}
		})
	}
	t.Logf("%d cuts", kills)
}

// TestGivenUpRefused: a node gives up neither itself nor nodes that do not exist.
func TestGivenUpRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		nodes   int
		givenUp []int
		says    string
	}{
		{4, nil, ""}, {4, []int{1}, ""}, {4, []int{3, 1, 3}, ""}, {4, []int{0}, "itself"}, {4, []int{1, 0}, "itself"},
		{4, []int{4}, "0 to 3"}, {4, []int{-1}, "0 to 3"}, {4, []int{1, 2, 3}, ""}, {2, []int{1}, ""},
		{1, []int{1}, "0 to 0"},
	} {
		table, err := cluster.NewTable(slices.Repeat([]float64{1}, c.nodes))
		must(t, err)
		err = (&Cluster{Table: table, Abandoned: c.givenUp}).ValidateAbandoned()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d nodes, %v: %v, want %q", c.nodes, c.givenUp, err, c.says)
		}
	}
}
