package crawl

import (
	"context"
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
	"drumbeat/crawl/backups"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/backup"
	"drumbeat/state/repair"
)

// replaceCluster is three nodes with backups.
func replaceCluster(t *testing.T, seed uint64) *testCluster {
	t.Helper()
	web := sizedWeb(t, 30, 60, 1000)
	c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
		o.Disk.CheckpointEvery, o.Cluster.LeaseTTL = 3*time.Second, lease.LeastTTL
		o.Backup = &backups.Options{Place: backup.Directory(o.Disk.FS, "place"), Every: 5 * time.Second}
	})
	for node := range c.options {
		c.options[node].Cluster.Crawl = c.file().Key()
	}
	return c
}

// lose ends a node as its machine does, with its directories, and restores its last backup into new ones.
func (c *testCluster) lose(node int) { c.t.Helper(); c.restore(node, c.places(node), 0) }

// places ends a node as its machine does, and returns the place of its backups.
func (c *testCluster) places(node int) backup.Place {
	c.t.Helper()
	old := c.options[node].Disk.FS.(*memfs.FS).Kill()
	must(c.t, c.options[node].Cluster.Transport.Close())
	return backup.Directory(old, "place")
}

// restore restores the backup with a number into new directories of a node. 0: the last one.
func (c *testCluster) restore(node int, place backup.Place, number int64) {
	c.t.Helper()
	o, fresh := &c.options[node], memfs.New(*seedFlag+uint64(node)+100)
	_, err := backup.Restore(c.t.Context(), backup.RestoreOptions{Place: place, Number: number, FS: fresh,
		Dirs: o.Disk.Dirs})
	must(c.t, err)
	of := *o.Cluster
	of.Transport = c.net.Transport(node)
	c.engines[node] = of.Transport.(*mem.Transport)
	o.Cluster, o.Disk.FS, o.Backup = &of, fresh, nil
}

// takePlace runs the command once.
func (c *testCluster) takePlace(ctx context.Context, node int) (*repair.Report, error) {
	o := &c.options[node]
	return repair.Replace(ctx, repair.ReplaceOptions{Transport: o.Cluster.Transport, Host: "new",
		ResyncOptions: repair.ResyncOptions{Back: node, File: c.file(),
			Options: repair.Options{Options: audit.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs, RAMBytes: 1 << 20}}}})
}

// lostBy returns what a node has lost by its account.
func (c *testCluster) lostBy(node int) (lost cluster.Totals) {
	c.t.Helper()
	a := c.auditNode(c.options[node].Disk.FS, node)
	for i := range a.Cluster.Pairs {
		lost.Add(a.Cluster.Pairs[i].Lost)
	}
	return lost
}

// endure runs a node until the crawl is over. After a cut it starts again.
func (c *testCluster) endure(node int) {
	for {
		o := &c.options[node]
		res, err := Run(c.t.Context(), *o)
		if !errors.Is(err, disk.ErrCrashed) {
			if err != nil || res.Stop != StopDone {
				c.t.Errorf("node %d: %v, %+v", node, err, res)
			}
			return
		}
		fs := o.Disk.FS.(*memfs.FS).Crash()
		if err := o.Cluster.Transport.Close(); err != nil {
			c.t.Error(err)
		}
		time.Sleep(3 * time.Second)
		of := *o.Cluster
		of.Transport = c.net.Transport(node)
		c.engines[node], o.Cluster, o.Disk.FS = of.Transport.(*mem.Transport), &of, fs
		o.Backup = &backups.Options{Place: backup.Directory(fs, "place"), Every: 5 * time.Second}
	}
}

// runUntil runs a node until its machine is lost, some time after its first backup.
func (c *testCluster) runUntil(node int, after time.Duration) {
	alive, end := context.WithCancel(c.t.Context())
	defer end()
	fs := c.options[node].Disk.FS.(*memfs.FS)
	go func() {
		if account.Sleep(alive, after) {
			fs.CrashAfter(1)
			end()
		}
	}()
	if res, err := Run(alive, c.options[node]); !cutOff(alive, res, err) {
		c.t.Errorf("node %d: %v, %+v", node, err, res)
	}
}

// replaceWorld is one kind of a replacement.
type replaceWorld struct {
	name  string
	backs []int // the lost nodes
	times int   // how often URLs of a lost node are fetched at most; 0: any URL may be fetched again
	// lose runs a node that is lost after some time; nil: runUntil and lose.
	lose func(c *testCluster, node int, after time.Duration)
	// others changes the options of a node that is not lost; nil: none.
	others func(node int, o *Options)
	// replace takes the place of a node; nil: takePlace.
	replace func(c *testCluster, node int, rng *rand.Rand)
}

// TestClusterReplace: the machines of nodes are lost, with their directories. Their last backups take their places
// while the others run. In the end the accounts of all nodes balance with what was lost, and only URLs of the lost
// nodes were fetched again.
func TestClusterReplace(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, w := range []replaceWorld{
		{name: "one", backs: []int{1}, times: 2},
		{name: "two at once", backs: []int{0, 2}},
		{name: "found again", backs: []int{1}, times: 2, lose: ousted},
		{name: "rivals", backs: []int{2}, times: 2, replace: rivals},
		{name: "cuts", backs: []int{0}, others: cutAnswers(), replace: replaceWithCuts},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			for seed := *seedFlag; seed < *seedFlag+longOr[uint64](10, 1); seed++ {
				inBubble(t, func(t *testing.T) { w.run(t, seed) })
			}
		})
	}
}

func (w *replaceWorld) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x7265706c))
	c := replaceCluster(t, seed)
	defer c.close()
	var all sync.WaitGroup
	for node := range c.options {
		if slices.Contains(w.backs, node) {
			after := time.Duration(12+rng.IntN(10)) * time.Second
			lose := w.lose
			if lose == nil {
				lose = func(c *testCluster, node int, after time.Duration) {
					c.runUntil(node, after)
					c.lose(node)
				}
			}
			all.Go(func() { lose(c, node, after) })
		} else if w.others != nil {
			w.others(node, &c.options[node])
		}
	}
	var running sync.WaitGroup
	for node := range c.options {
		if !slices.Contains(w.backs, node) {
			running.Go(func() { c.endure(node) })
		}
	}
	all.Wait()
	var lost cluster.Totals
	var mu sync.Mutex
	for _, node := range w.backs {
		rng := rand.New(rand.NewPCG(seed, uint64(node)))
		running.Go(func() {
			if w.replace != nil {
				w.replace(c, node, rng)
			} else if rep, err := c.takePlace(t.Context(), node); err != nil {
				t.Errorf("node %d: %v", node, err)
			} else if by := c.lostBy(node); by != rep.Lost {
				t.Errorf("node %d has lost %+v, and the command said %+v", node, by, rep.Lost)
			}
			mu.Lock()
			lost.Add(c.lostBy(node))
			mu.Unlock()
			c.endure(node)
		})
	}
	running.Wait()
	c.checkResynced(w.backs[0], w.times, lost)
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
}

// ousted runs a node until it reads that another machine has its place. While it runs, no other can take it; later it
// is refused. Its directories are found again, so no link is lost.
func ousted(c *testCluster, node int, after time.Duration) {
	var all sync.WaitGroup
	all.Go(func() {
		time.Sleep(after)
		o := c.options[node]
		other := &testCluster{t: c.t, net: c.net, web: c.web, options: slices.Clone(c.options)}
		other.options[node].Disk.FS = o.Disk.FS.(*memfs.FS).Fork(7).Kill()
		_, err := other.takePlace(c.t.Context(), node)
		if !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), "stop it first") {
			c.t.Errorf("a command while the node runs: %v", err)
		}
		r := cluster.Replacement{Node: node, Incarnation: 1, Identity: 99, Table: o.Cluster.Table.Sum(), Host: "other"}
		data, err := r.Encode()
		if err == nil {
			_, err = o.Cluster.Transport.Put(c.t.Context(), cluster.BucketCrawl, cluster.ReplaceKey(node), data)
		}
		if err != nil {
			c.t.Error(err)
		}
	})
	for _, when := range []string{"running", "later"} {
		_, err := Run(c.t.Context(), c.options[node])
		if !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), "begun again from its backup") {
			c.t.Errorf("the old process, %s: %v", when, err)
		}
	}
	all.Wait()
}

// rivals runs two commands for one node at once, in directories of their own: one of them is refused.
func rivals(c *testCluster, node int, _ *rand.Rand) {
	o := &c.options[node]
	first, second := o.Disk.FS, o.Disk.FS.(*memfs.FS).Fork(7)
	of := *o.Cluster
	of.Transport = c.net.Transport(node)
	other := &testCluster{t: c.t, net: c.net, web: c.web, options: slices.Clone(c.options)}
	other.options[node].Cluster, other.options[node].Disk.FS = &of, second
	var errs [2]error
	var both sync.WaitGroup
	for i, c := range []*testCluster{c, other} {
		both.Go(func() { _, errs[i] = c.takePlace(c.t.Context(), node) })
	}
	both.Wait()
	won := 0
	if errs[0] != nil {
		won = 1
	}
	if lost := errs[1-won]; errs[won] != nil || !errors.Is(lost, state.ErrIncompatible) ||
		!strings.Contains(lost.Error(), "another drumbeat cluster replace") {
		c.t.Errorf("two commands at once: %v", errs)
	}
	refused := other.options[node]
	if won == 1 {
		refused.Disk.FS, o.Disk.FS = first, second
	}
	if _, err := Run(c.t.Context(), refused); !errors.Is(err, state.ErrReplacing) {
		c.t.Errorf("the node that was refused: %v", err)
	}
	if err := of.Transport.Close(); err != nil {
		c.t.Error(err)
	}
}

// cutAnswers cuts each other node off before its binding is durable, and when it is, before its answer.
func cutAnswers() func(node int, o *Options) {
	return func(node int, o *Options) {
		fs, met := o.Disk.FS.(*memfs.FS), 0
		o.tests.hook = func(place string) {
			if place != "replace" {
				return
			}
			if met++; met == 1+node%2 {
				fs.CrashAfter(1)
			}
		}
	}
}

// replaceWithCuts cuts the command off at operations on its disk, and runs it again until it ends.
func replaceWithCuts(c *testCluster, node int, rng *rand.Rand) {
	cuts := 0
	for after := 1; ; after += 1 + rng.IntN(longOr(4, 16)) {
		fs := c.options[node].Disk.FS.(*memfs.FS)
		fs.CrashAfter(after)
		_, err := c.takePlace(c.t.Context(), node)
		if err == nil {
			fs.CrashAfter(0)
			c.t.Logf("%d cuts of the command", cuts)
			return
		}
		if rng.IntN(2) == 0 { // the broker loses the last values: requests, answers, marks
			c.net.LoseValues(cluster.BucketCrawl, 1+rng.IntN(6))
		}
		if cuts++; !errors.Is(err, disk.ErrCrashed) {
			c.t.Errorf("cut after %d operations: %v", after, err)
			return
		}
		if rng.IntN(2) == 0 {
			fs = fs.Crash()
		} else {
			fs = fs.Kill()
		}
		c.options[node].Disk.FS = fs
	}
}
