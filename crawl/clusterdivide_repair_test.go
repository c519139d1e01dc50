package crawl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state/repair"
)

// TestDivideRepair: the owner of a divided PLD loses its URLseen, or the visitor of hosts the URLs that it has in RAM.
// Repair says what is lost. The audits balance, and they do at the end, too, though the visitor was handed URLs again.
func TestDivideRepair(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, fs, owner := stoppedDivided(t)
		defer c.close()
		hurt := fs.Fork(1)
		_, m, err := lastManifest(hurt, c.options[1-owner].Disk.Dirs)
		must(t, err)
		ram := fmt.Sprintf("n%d/state/tails-%010d", 1-owner, m.RAM.Gen)
		hurtBytes(t, hurt, ram, int(m.RAM.Off), int(m.RAM.Off+m.RAM.Len))
		c.repairedAs(hurt, 1-owner, "whose keys other nodes have")

		files, err := repair.FilesIn(fs, fmt.Sprintf("n%d/state/urlseen", owner), true)
		must(t, err)
		for _, name := range files {
			data, err := disk.ReadFile(fs, name)
			must(t, err)
			hurtBytes(t, fs, name, 0, len(data))
		}
		c.repairedAs(fs, owner, "these URLs may be fetched again")
		c.reopen()
		c.run(t.Context())
		if rep, err := c.audit(fs, true); err != nil || !rep.Balanced() {
			t.Errorf("audit at the end: %v, %v", err, rep.Bad)
		}
		again := 0
		for _, n := range c.web.Log().Snapshot().Fetches {
			if n > 1 {
				again++
			}
		}
		if again < 10 {
			t.Errorf("%d URLs were fetched again", again)
		}
	})
}

// stoppedDivided is a cluster of two nodes with a divided PLD that was stopped.
func stoppedDivided(t *testing.T) (c *testCluster, fs *memfs.FS, owner int) {
	c, _, owner = dividedCluster(t, 2, nil, func(_ int, o *Options) {
		small(o)
		o.Disk.CheckpointEvery = 5 * time.Second
		o.Order.StockTarget = 20
	})
	ctx, stop := context.WithCancel(t.Context())
	end := c.begin(ctx)
	c.fetchedAll(ctx, 250)
	stop()
	end()
	return c, c.options[0].Disk.FS.(*memfs.FS), owner
}

// hurtBytes changes bytes of a file.
func hurtBytes(t *testing.T, fs disk.FS, name string, from, to int) {
	t.Helper()
	data, err := disk.ReadFile(fs, name)
	must(t, err)
	for i := from; i < to; i++ {
		data[i] ^= 0x55
	}
	must(t, disk.WriteFileAtomic(fs, name, data))
}

// repairedAs repairs a node, and requires that the repair says something and that the audits of all nodes balance.
func (c *testCluster) repairedAs(fs disk.FS, node int, says string) {
	c.t.Helper()
	rep, err := repairOf(c.t, fs, &c.options[node], nil)
	if err != nil || !slices.ContainsFunc(rep.Actions, func(a string) bool { return strings.Contains(a, says) }) {
		c.t.Fatalf("node %d: %v, %+v", node, err, rep)
	}
	if rep, err := c.audit(fs, true); err != nil || !rep.Balanced() {
		c.t.Errorf("after the repair of node %d: %v, %v", node, err, rep.Bad)
	}
}
