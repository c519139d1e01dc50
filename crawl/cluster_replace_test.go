package crawl

import (
	"context"
	"errors"
	"math/rand/v2"
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
	"drumbeat/internal/simweb"
	"drumbeat/state/audit"
	"drumbeat/state/backup"
	"drumbeat/state/repair"
)

// replaceCluster is three nodes with backups.
func replaceCluster(t *testing.T, seed uint64) *testCluster {
	t.Helper()
	web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost = 30, 60, 1500, 0 })
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
func (c *testCluster) lose(node int) {
	c.t.Helper()
	o := &c.options[node]
	old := o.Disk.FS.(*memfs.FS).Kill()
	must(c.t, o.Cluster.Transport.Close())
	place, fresh := backup.Directory(old, "place"), memfs.New(*seedFlag+uint64(node)+100)
	_, err := backup.Restore(c.t.Context(), backup.RestoreOptions{Place: place, FS: fresh, Dirs: o.Disk.Dirs})
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

// TestClusterReplace: the machine of a node is lost, with its directories. Its last backup takes its place while the
// others run: they never stop.
func TestClusterReplace(t *testing.T) {
	notShort(t)
	t.Parallel()
	for seed := *seedFlag; seed < *seedFlag+longOr[uint64](20, 2); seed++ {
		inBubble(t, func(t *testing.T) {
			rng, back := rand.New(rand.NewPCG(seed, 0x7265706c)), int(seed%3)
			c := replaceCluster(t, seed)
			defer c.close()
			var all sync.WaitGroup
			for node := range c.options {
				if node == back {
					continue
				}
				all.Go(func() {
					if res, err := Run(t.Context(), c.options[node]); err != nil || res.Stop != StopDone {
						t.Errorf("node %d: %v, %+v", node, err, res)
					}
				})
			}
			alive, end := context.WithCancel(t.Context())
			fs := c.options[back].Disk.FS.(*memfs.FS)
			all.Go(func() {
				account.Sleep(t.Context(), time.Duration(12+rng.IntN(10))*time.Second)
				fs.CrashAfter(1)
				end()
			})
			if res, err := Run(alive, c.options[back]); !cutOff(alive, res, err) && !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("node %d: %v, %+v", back, err, res)
			}
			c.lose(back)
			rep, err := c.takePlace(t.Context(), back)
			must(t, err)
			t.Log(strings.Join(rep.Actions, "; "))
			lost := c.lostBy(back)
			if lost.Links.N != rep.Links {
				t.Errorf("%d links lost by the command, %d by the account", rep.Links, lost.Links.N)
			}
			if res, err := Run(t.Context(), c.options[back]); err != nil || res.Stop != StopDone {
				t.Errorf("node %d: %v, %+v", back, err, res)
			}
			all.Wait()
			c.checkResynced(back, 2, lost)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}
