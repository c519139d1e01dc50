package crawl

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// testCluster is a crawl of several nodes in one bubble.
type testCluster struct {
	t       *testing.T
	net     *mem.Net
	web     *simweb.Web
	options []Options
	engines []*mem.Transport
	stop    string // why nodes stop; "": StopDone
	// over lays a file system over that of a node for a run; nil: none
	over func(node int, fsys disk.FS) disk.FS
	wait func(node int) // delays the start of a node; nil: none

	suffixes *weburl.Suffixes // of requested
	divided  []int            // slots of PLDs that were divided at some time
}

// start runs a node once.
func (c *testCluster) start(ctx context.Context, node int, o Options) (*Result, error) {
	if c.over != nil {
		o.Disk.FS = c.over(node, o.Disk.FS)
	}
	if c.wait != nil {
		c.wait(node)
	}
	return Run(ctx, o)
}

func newCluster(t *testing.T, web *simweb.Web, nodes int, faults mem.Faults,
	change func(node int, o *Options)) *testCluster {
	t.Helper()
	c := &testCluster{t: t, web: web, net: mem.New(mem.Options{Seed: *seedFlag, Faults: faults})}
	weights := make([]float64, nodes)
	for i := range weights {
		weights[i] = 1
	}
	table, err := cluster.NewTable(weights)
	must(t, err)
	for node := range nodes {
		e := c.net.Transport(node)
		c.engines = append(c.engines, e)
		o := simOptions(t, web, memfs.New(*seedFlag+uint64(node)))
		o.Cluster = &Cluster{Node: node, Table: table, Crawl: 0xc0ffee, Secret: weburl.Secret{1, 2, 3}, Transport: e}
		if change != nil {
			change(node, &o)
		}
		c.options = append(c.options, o)
	}
	return c
}

// sizedWeb is a web in which no robots.txt redirects to another host, which two nodes would ask then.
func sizedWeb(t *testing.T, plds, hosts, pages int) *simweb.Web {
	t.Helper()
	return smallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost = plds, hosts, pages, 0
	})
}

// cutWeb is a web for a crawl whose nodes are cut off. change may be nil.
func cutWeb(t *testing.T, seed uint64, change func(o *simweb.Options)) *simweb.Web {
	t.Helper()
	o := simweb.Defaults(seed)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.LinksPerPage, o.PageBytes, o.SeedURLs = 12, 24, 200, 6, 25, 500, 2
	o.HTTPS, o.LogRequests, o.Robots.ServerError = 0, 1, 0
	if change != nil {
		change(&o)
	}
	web, err := simweb.New(o)
	must(t, err)
	return web
}

// run runs all nodes until they end. If one fails, or runs for longer than a day, all stop: the others would
// wait for it.
func (c *testCluster) run(ctx context.Context) []*Result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 24*time.Hour)
	defer cancel()
	results := make([]*Result, len(c.options))
	errs := make([]error, len(c.options))
	var wg sync.WaitGroup
	for node := range c.options {
		wg.Go(func() {
			if results[node], errs[node] = c.start(ctx, node, c.options[node]); errs[node] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for node, err := range errs {
		if err != nil {
			c.t.Fatalf("node %d: %v", node, err)
		}
	}
	return results
}

// chaos makes the broker lose data, and be away, until stop is called, which returns what happened.
func (c *testCluster) chaos() (stop func() (events []string)) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var events []string
	var ended sync.WaitGroup
	ended.Go(func() {
		c.net.Chaos(ctx, mem.Chaos{Nodes: len(c.options), Every: 20 * time.Second, Away: 15 * time.Second,
			Log: func(event string) { events = append(events, event) }})
	})
	return func() []string {
		cancel()
		ended.Wait()
		return events
	}
}

// close closes the engines.
func (c *testCluster) close() {
	for _, e := range c.engines {
		if err := e.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

// check compares the web's log with what one node would fetch, and audits all nodes.
func (c *testCluster) check(results []*Result) {
	c.t.Helper()
	checkFetched(c.t, c.web, &c.options[0])
	var sent, taken, edgesSent, edgesTaken int64
	for node, r := range results {
		if r.Stop != StopDone {
			c.t.Errorf("node %d stopped: %s", node, r.Stop)
		}
		s := &r.Snapshot
		sent, taken = sent+s.Count(state.CountLinksSent), taken+s.Count(state.CountLinksTaken)
		edgesSent, edgesTaken = edgesSent+s.Count(state.CountEdgesSent), edgesTaken+s.Count(state.CountEdgesTaken)
		checkBalanced(c.t, c.options[node].Disk.FS, c.options[node].Disk.Dirs)
		c.t.Logf("node %d: %d pages, %d links checked, %d sent, %d taken, %d edges, %d sent; %v", node,
			s.Count(state.CountPages), s.Count(state.CountLinksChecked), s.Count(state.CountLinksSent),
			s.Count(state.CountLinksTaken), s.Count(state.CountEdges), s.Count(state.CountEdgesSent), s.Elapsed)
	}
	if sent != taken || edgesSent != edgesTaken || len(results) > 1 && sent == 0 {
		c.t.Errorf("%d links sent, %d taken; %d edges sent, %d taken", sent, taken, edgesSent, edgesTaken)
	}
}

// edges returns the edges between PLDs that the nodes have, by key: all have the same secret.
func (c *testCluster) edges() map[star.Edge]bool {
	c.t.Helper()
	all := map[star.Edge]bool{}
	for node := range c.options {
		o := &c.options[node]
		set, st := lastPart[star.State](c.t, o.Disk.FS, o.Disk.Dirs, state.NameStar)
		own := map[star.Edge]bool{}
		if err := star.WalkEdges(set, state.NameStar, st, func(e star.Edge) error {
			own[e] = true
			return nil
		}); err != nil {
			c.t.Fatal(err)
		}
		for e := range own {
			if owner := o.Cluster.Table.Owner(e.To); owner != node {
				c.t.Errorf("node %d has an edge to a PLD of node %d", node, owner)
			}
			all[e] = true
		}
	}
	return all
}

// TestCluster: several nodes together fetch what one fetches, each URL once, and count the same edges between PLDs.
func TestCluster(t *testing.T) {
	t.Parallel()
	var one map[star.Edge]bool
	for _, nodes := range []int{1, 2, 4} {
		if testing.Short() && nodes == 2 {
			continue
		}
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.PLDs, o.Hosts, o.Pages = 30, 60, o.Pages*3/2
			})
			c := newCluster(t, web, nodes, mem.Faults{Delay: 10 * time.Millisecond}, nil)
			defer c.close()
			c.check(c.run(t.Context()))
			c.checkLoads(true)
			edges := c.edges()
			if one == nil {
				one = edges
			}
			if len(edges) < 100 || !maps.Equal(edges, one) {
				t.Errorf("%d nodes have %d edges, one has %d", nodes, len(edges), len(one))
			}
		})
	}
}

// clusterSeeds is the number of webs that are crawled with cuts.
func clusterSeeds() uint64 {
	if testing.Short() {
		return 1
	}
	return longOr[uint64](100, 4)
}

// TestClusterCuts: nodes are killed, or lose their power, at random operations on their disks, while the broker loses
// messages and values, doubles, delays, and is away. All nodes together fetch each URL nevertheless, and count it once.
func TestClusterCuts(t *testing.T) {
	t.Parallel()
	var kills, doubled int
	for seed := *seedFlag; seed < *seedFlag+clusterSeeds(); seed++ {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0x636c7573))
			web := cutWeb(t, seed, nil)
			nodes := 2 + int(seed%3)
			c := newCluster(t, web, nodes, mem.Faults{Delay: 100 * time.Millisecond, Lose: 0.05, Double: 0.1,
				NoAck: 0.05}, func(_ int, o *Options) {
				small(o)
				o.Drum.BucketBytes, o.Output.WARCFileBytes = 4<<10, 15_000
			})
			defer c.close()
			stop := c.chaos()
			c.lives(atRandom(rng, 4), &kills)
			events := stop()
			doubled += c.checkCuts()
			if t.Failed() {
				t.Fatalf("seed %d: %v %v", seed, events, c.net.Counts())
			}
		})
	}
	t.Logf("%d cuts, %d URLs fetched more than once", kills, doubled)
}

// cutting says when and how nodes are cut off.
type cutting struct {
	// arm prepares a life of a node: at some moment its file system fails, or cut ends it. Its engine may be replaced.
	arm   func(node, life int, fs *memfs.FS, cut func())
	power func() bool          // a power cut; else kill -9
	rest  func() time.Duration // until the node comes back
}

// atRandom cuts each node off up to n times, at random operations on its disk.
func atRandom(rng *rand.Rand, n int) cutting {
	var mu sync.Mutex
	random := func(n int) int { mu.Lock(); defer mu.Unlock(); return rng.IntN(n) }
	return cutting{
		arm: func(_, life int, fs *memfs.FS, _ func()) {
			if life < n {
				fs.CrashAfter(1 + random(600))
			}
		},
		power: func() bool { return random(2) == 0 },
		rest:  func() time.Duration { return time.Duration(random(30)) * time.Second },
	}
}

// lives runs all nodes until they end, and cuts them off.
func (c *testCluster) lives(how cutting, kills *int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var running atomic.Int64 // nodes that have not ended
	running.Store(int64(len(c.options)))
	ctx, cancel := context.WithTimeout(c.t.Context(), clusterTime)
	defer cancel()
	for node := range c.options {
		wg.Go(func() {
			for life := 0; ; life++ {
				fs := c.options[node].Disk.FS.(*memfs.FS)
				alive, end := context.WithCancel(ctx)
				how.arm(node, life, fs, func() {
					fs.CrashAfter(1)
					end()
				})
				res, err := c.start(alive, node, c.options[node])
				cut := cutOff(alive, res, err)
				end()
				switch {
				case ctx.Err() != nil:
					if errors.Is(ctx.Err(), context.DeadlineExceeded) {
						c.t.Errorf("node %d, life %d, has not ended within %v: %v", node, life, clusterTime, err)
					}
					return
				case errors.Is(err, state.ErrFinished) || err == nil && !cut:
					fs.CrashAfter(0)
					// A broker that loses all marks once some nodes have ended leaves the others waiting,
					// until the operator starts those again.
					for running.Add(-1); running.Load() > 0 && account.Sleep(ctx, 10*time.Minute); running.Add(-1) {
						if running.Add(1) == 1 {
							continue // no other node waits any more
						}
						if again, err := c.start(ctx, node, c.options[node]); !errors.Is(err, state.ErrFinished) &&
							(err != nil || again.Stop != cmp.Or(c.stop, StopDone)) {
							c.t.Errorf("node %d, which has ended: %v", node, err)
							return
						}
					}
					if res.Stop != cmp.Or(c.stop, StopDone) {
						c.t.Errorf("node %d: %s", node, res.Stop)
					}
					return
				case !cut:
					c.t.Errorf("node %d, life %d: %v", node, life, err)
					cancel()
					return
				}
				if how.power() {
					fs = fs.Crash()
				} else {
					fs = fs.Kill()
				}
				if err := c.options[node].Cluster.Transport.Close(); err != nil {
					c.t.Error(err)
				}
				account.Sleep(ctx, how.rest())
				cl := *c.options[node].Cluster
				e := c.net.Transport(node)
				cl.Transport = e
				mu.Lock()
				c.options[node].Disk.FS, c.options[node].Cluster, c.engines[node] = fs, &cl, e
				*kills++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// cutOff reports whether a node was cut off. One whose call is cut off while it starts says so.
func cutOff(alive context.Context, res *Result, err error) bool {
	return errors.Is(err, disk.ErrCrashed) || alive.Err() != nil && (err == nil && res.Stop == StopCancelled ||
		errors.Is(err, cluster.ErrClosed) || errors.Is(err, context.Canceled))
}

// clusterTime bounds the virtual time of a cluster whose nodes are cut off.
const clusterTime = 2 * time.Hour

// checkCuts checks a cluster whose nodes were cut off. It returns how many URLs were fetched more than once.
func (c *testCluster) checkCuts() (doubled int) {
	c.t.Helper()
	snap, want := c.web.Log().Snapshot(), c.web.Expected("drumbeat")
	for url := range want.FetchedURLs() {
		switch n := snap.Fetches[url]; {
		case n == 0:
			c.t.Errorf("not fetched: %s", url)
		case n > 1:
			doubled++
		}
	}
	checkDelays(c.t, snap, &c.options[0], 0)
	for url := range snap.Fetches {
		if fetched, _, _ := want.Has(url); !fetched {
			c.t.Errorf("fetched, but must not be: %s", url)
		}
	}
	var fetched, sent, taken, edgesSent, edgesTaken int64
	for node := range c.options {
		o := &c.options[node]
		checkDeep(c.t, o)
		_, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
		if err != nil {
			c.t.Fatal(err)
		}
		fetched += m.Accounts.Places[state.PlaceFetched].N
		if c.t.Failed() {
			c.t.Logf("node %d: places %+v, refused %v, deferred %v", node, m.Accounts.Places, m.Accounts.Refused,
				m.Accounts.Deferred)
		}
		count := &m.Accounts.Counters
		sent, taken = sent+count[state.CountLinksSent], taken+count[state.CountLinksTaken]
		edgesSent, edgesTaken = edgesSent+count[state.CountEdgesSent], edgesTaken+count[state.CountEdgesTaken]
	}
	if sent != taken || edgesSent != edgesTaken {
		c.t.Errorf("%d links sent, %d taken; %d edges sent, %d taken", sent, taken, edgesSent, edgesTaken)
	}
	if rep, err := c.compare(func(fs *memfs.FS) disk.FS { return fs }); err != nil || !rep.Balanced() ||
		rep.Above.Records() != 0 {
		c.t.Errorf("audit of all nodes: %v, %+v", err, rep)
	}
	c.checkLoads(true)
	if fetched != int64(want.Fetched) {
		c.t.Errorf("the nodes have fetched %d URLs, want %d", fetched, want.Fetched)
	}
	return doubled
}

// TestClusterGates: the delays and limits of PLDs, addresses and networks hold over all nodes, by the web's log.
func TestClusterGates(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs, o.Robots.RedirectHost = 20, 40, 400, 8, 0.2 // read by their owners
		})
		c := newCluster(t, web, 3, mem.Faults{Delay: 20 * time.Millisecond}, func(node int, o *Options) {
			polite := politeOptions(t, web, o.Disk.FS.(*memfs.FS))
			polite.Cluster, polite.Limits.MaxTime = o.Cluster, 24*time.Hour
			*o = polite
		})
		defer c.close()
		c.check(c.run(t.Context()))
		checkGates(t, web.Log().Snapshot().Requests, &c.options[0])
	})
}

// TestClusterFresh: a node without its directories is refused, because its number has crawled before.
func TestClusterFresh(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 10, 20, 200)
		c := newCluster(t, web, 2, mem.Faults{}, nil)
		defer c.close()
		c.run(t.Context())
		o := c.options[1]
		o.Disk.FS = memfs.New(7)
		if _, err := Run(t.Context(), o); !errors.Is(err, state.ErrIncompatible) {
			t.Errorf("a node that has lost its directories: %v", err)
		}
	})
}
