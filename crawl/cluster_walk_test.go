package crawl

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/internal/tabular"
	"drumbeat/internal/walk"
	"drumbeat/state"
	"drumbeat/state/export"
)

// walkCluster is a random walk of three nodes, with seeds at one or two of them.
func walkCluster(t *testing.T, seed uint64, faults mem.Faults) *testCluster {
	web := cutWeb(t, seed, func(o *simweb.Options) { o.Pages, o.LinksPerPage = 300, 12 })
	return newCluster(t, web, 3, faults, func(_ int, o *Options) {
		small(o)
		o.Order.Strategy, o.Order.Walk = strategy.RandomWalk, walk.Options{Walkers: 10, URLs: 200}
	})
}

// checkWalk checks a walk of several nodes that has ended: all walkers are at a node, they have visited as many URLs as
// they were to, each URL of the walk was fetched and stored once, and the audits balance. again URLs may have been
// fetched more than once.
func (c *testCluster) checkWalk(again bool) {
	c.t.Helper()
	visited, walkers, taken, sent, unique := 0, 0, int64(0), int64(0), int64(0)
	stored, pages := map[string]int{}, map[string]bool{}
	for node := range c.options {
		o := &c.options[node]
		checkDeep(c.t, o)
		w, m := walkOf(c.t, o)
		f := w.Figures()
		if n := w.Waiting(); n != 0 {
			c.t.Errorf("node %d: walkers wait for %d URLs; %+v", node, n, f)
		}
		visited, walkers, unique = visited+f.Visited, walkers+f.Walkers, unique+m.Accounts.Unique.N
		sent, taken = sent+m.Accounts.Counters[state.CountLinksSent], taken+m.Accounts.Counters[state.CountLinksTaken]
		for url, n := range storedURLs(c.t, o.Disk.FS, o.Disk.Dirs) {
			if !strings.HasPrefix(url, bodyRecord) && !strings.HasPrefix(url, revisitRecord) {
				stored[url] += n
			}
		}
		for _, s := range w.Sample() {
			if pages[s.URL] {
				c.t.Errorf("%s is in the sample of two nodes", s.URL)
			}
			pages[s.URL] = true
		}
	}
	opt := &c.options[0].Order.Walk
	if visited != opt.URLs || walkers != opt.Walkers || unique != int64(visited) {
		c.t.Errorf("%d URLs visited, want %d; %d unique; %d walkers, want %d", visited, opt.URLs, unique, walkers,
			opt.Walkers)
	}
	if sent != taken || sent < 20 {
		c.t.Errorf("%d walkers sent, %d taken", sent, taken)
	}
	for url := range pages {
		if stored[url] != 1 {
			c.t.Errorf("sampled page %s was stored %d times", url, stored[url])
		}
	}
	for url, n := range c.web.Log().Snapshot().Fetches {
		if n > 1 && !again || stored[url] > 1 {
			c.t.Errorf("%s was fetched %d times, and stored %d times", url, n, stored[url])
		}
	}
	if rep, err := c.compare(func(fs *memfs.FS) disk.FS { return fs }); err != nil || !rep.Balanced() ||
		rep.Above.Records() != 0 {
		c.t.Errorf("audit of all nodes: %v, %+v", err, rep)
	}
}

// TestClusterWalk: the walkers of three nodes visit as many URLs as those of one, each once, also in a later run with
// more URLs.
func TestClusterWalk(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := walkCluster(t, *seedFlag, mem.Faults{Delay: 10 * time.Millisecond})
		defer c.close()
		for i := range c.options {
			c.options[i].Limits.MaxTime = 20 * time.Second
		}
		c.run(t.Context())
		c.reopen()
		for i := range c.options {
			c.options[i].Limits.MaxTime, c.options[i].Order.Walk.URLs = 0, 240
			c.options[i].Cluster.Reconfigure = true
		}
		for node, r := range c.run(t.Context()) {
			if r.Stop != StopDone {
				t.Errorf("node %d: %s", node, r.Stop)
			}
		}
		c.checkWalk(false)
		c.checkSamples()
	})
}

// checkSamples puts the exported parts of the sample together, as docs/howto/prepare/sample.md does: each page of a
// node has a chance, though its node knows a part of the links to it only.
func (c *testCluster) checkSamples() {
	c.t.Helper()
	missed, seed, pages, elsewhere := map[string]float64{}, map[string]bool{}, 0, 0
	for node := range c.options {
		o := &c.options[node]
		if _, err := export.Run(c.t.Context(), export.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs, Kind: export.Sample,
			Format: tabular.JSONL, Target: "sample", TempDir: "sample.tmp", PartBytes: 1 << 20}); err != nil {
			c.t.Fatal(err)
		}
		for _, row := range exportedRows(c.t, o.Disk.FS, "sample") {
			url := row["url"].(string)
			if missed[url] += row["missed"].(float64); row["weight"] != nil || row["chance"] != nil {
				c.t.Errorf("node %d: row %v", node, row)
			}
			seed[url] = seed[url] || row["seed"].(bool)
		}
	}
	for node := range c.options {
		w, _ := walkOf(c.t, &c.options[node])
		for _, s := range w.Sample() {
			pages++
			if !seed[s.URL] && missed[s.URL] >= 0 {
				c.t.Errorf("node %d: %s has no chance of its visit", node, s.URL)
			}
			if missed[s.URL] < s.Missed {
				elsewhere++
			}
		}
	}
	if pages < 100 || elsewhere < 10 {
		c.t.Errorf("%d pages, links of other nodes lead to %d of them", pages, elsewhere)
	}
}

// TestClusterWalkCuts: nodes are killed, or lose their power, at random operations on their disks, while the broker
// loses messages and values, doubles, delays, and is away. No walker is lost or doubled.
func TestClusterWalkCuts(t *testing.T) {
	t.Parallel()
	var kills int
	for seed := *seedFlag; seed < *seedFlag+longOr[uint64](60, 2); seed++ {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0x77616c6b))
			c := walkCluster(t, seed, mem.Faults{Delay: 100 * time.Millisecond, Lose: 0.05, Double: 0.1, NoAck: 0.05})
			defer c.close()
			stop := c.chaos()
			c.lives(atRandom(rng, 4), &kills)
			stop()
			c.checkWalk(true)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	t.Logf("%d cuts", kills)
}

// TestClusterWalkChanges: the slots of a walk do not move, and the reason says why. A node stops for good, with its
// walkers: the others forget it while they run, begin with its slots, and end.
func TestClusterWalkChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := walkCluster(t, *seedFlag, mem.Faults{Delay: 10 * time.Millisecond})
		defer c.close()
		for i := range c.options {
			c.options[i].Cluster.LeaseTTL, c.options[i].Order.Walk.URLs = time.Minute, 250
		}
		before, next := c.halfGiven(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		kill, end := c.startMortal(ctx)
		if !c.fetchedAll(ctx, 40) {
			t.Fatal("no 40 pages")
		}
		c.change(ctx, cluster.ChangeGive, before, next, 0)
		await(t, "a refusal", func() (bool, any) {
			v, err := c.engines[1].Get(ctx, cluster.BucketCrawl, cluster.TableKey)
			must(t, err)
			change, _, err := cluster.DecodeTableChange(v.Data)
			must(t, err)
			return strings.Contains(change.Refused, "random walks"), change.Refused
		})
		kill()
		next, err := before.Depart(2)
		must(t, err)
		data, err := cluster.NewTableChange(cluster.ChangeForget, before, next, 2, "forget").Encode()
		must(t, err)
		_, err = c.engines[1].Put(ctx, cluster.BucketCrawl, cluster.TableKey, data)
		must(t, err)
		end()
		visited := 0
		for node := range 2 {
			o := &c.options[node]
			o.Cluster.Table = next
			checkDeep(t, o)
			w, m := walkOf(t, o)
			visited += w.Figures().Visited
			if n := w.Waiting(); n != 0 || m.Frozen.Slots != state.SlotsOf(next, node) {
				t.Errorf("node %d: walkers wait for %d URLs", node, n)
			}
		}
		// What the lost node had is lost, and the others have got its part, 84 URLs.
		if visited <= 40 || visited > 250+84 {
			t.Errorf("the two nodes have visited %d URLs", visited)
		}
	})
}

// TestClusterWalkReplace: a node of a walk is lost, and its backup takes its place. Walkers may be lost or be there
// twice, but the walk ends, no walker waits for a URL for ever, and the audits balance.
func TestClusterWalkReplace(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := replaceCluster(t, uint64(*seedFlag))
		defer c.close()
		for i := range c.options {
			o := &c.options[i].Order
			o.Strategy, o.Walk = strategy.RandomWalk, walk.Options{Walkers: 15, URLs: 400}
		}
		var running sync.WaitGroup
		running.Go(func() { c.endure(0) })
		running.Go(func() { c.endure(2) })
		c.runUntil(1, 25*time.Second)
		c.lose(1)
		_, err := c.takePlace(t.Context(), 1)
		must(t, err)
		c.endure(1)
		running.Wait()
		visited, walkers := 0, 0
		for i := range c.options {
			checkDeep(t, &c.options[i])
			w, _ := walkOf(t, &c.options[i])
			visited, walkers = visited+w.Figures().Visited, walkers+w.Figures().Walkers
			if n := w.Waiting(); n > 0 {
				t.Errorf("node %d: walkers wait for %d URLs", i, n)
			}
		}
		t.Logf("%d URLs visited, %d walkers", visited, walkers)
		if visited < 100 || walkers == 0 {
			t.Errorf("%d URLs visited, %d walkers", visited, walkers)
		}
		rep, err := c.compare(func(fs *memfs.FS) disk.FS { return fs })
		if err != nil || !rep.Balanced() {
			t.Errorf("audit of all nodes: %v, %+v", err, rep)
		}
	})
}
