package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/disk/memfs"
	"drumbeat/state/backup"
	"drumbeat/state/repair"
)

// TestReplaceAfterGive: a node that gave slots, got them, or saw others move makes a backup at once, however rare its
// backups are. So it can be replaced soon after the change, and nothing but its own pages since then is fetched again.
// The backup from before is enough for the node that saw others move.
func TestReplaceAfterGive(t *testing.T) {
	notShort(t)
	t.Parallel()
	for victim, number := range []int64{1, 0, 1} { // the first backup, or the last one
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) { replaceAfterGive(t, victim, number) })
		})
	}
}

func replaceAfterGive(t *testing.T, victim int, number int64) {
	c := replaceCluster(t, *seedFlag)
	defer c.close()
	before := c.options[0].Cluster.Table
	next, err := before.Give(0, half(before, 0, 1))
	must(t, err)
	for node := range c.options {
		c.options[node].Backup.Every = 24 * time.Hour
	}
	alive, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	fs := c.options[victim].Disk.FS.(*memfs.FS)
	place := backup.Directory(fs, "place")
	var others, lost sync.WaitGroup
	for node := range c.options {
		if node != victim {
			others.Go(func() { c.endure(node) })
		}
	}
	lost.Go(func() {
		if res, err := Run(alive, c.options[victim]); !cutOff(alive, res, err) {
			t.Errorf("node %d: %v, %v", victim, err, res.Stop)
		}
	})
	lost.Go(func() {
		defer end()
		defer fs.CrashAfter(1)
		if !c.fetchedAll(alive, 200) {
			t.Error("no 200 pages")
		}
		c.change(alive, cluster.ChangeGive, before, next, 0)
		if !c.settled(alive, 1) {
			t.Error("the nodes have not taken the table")
		}
		backedUp(t, alive, place, next)
		account.Sleep(alive, 2*time.Second)
	})
	lost.Wait()
	place = c.places(victim)
	c.restore(victim, place, number)
	rep, err := c.takePlace(t.Context(), victim)
	if number > 0 && victim < 2 {
		if !errors.Is(err, repair.ErrResync) || !strings.Contains(err.Error(), "have moved since then, by change 1") {
			t.Errorf("the backup from before the change: %v", err)
		}
		must(t, c.options[victim].Cluster.Transport.Close())
		c.restore(victim, place, 0)
		rep, err = c.takePlace(t.Context(), victim)
	}
	if err != nil {
		t.Error(err)
	} else if by := c.lostBy(victim); by != rep.Lost {
		t.Errorf("it has lost %+v, and the command said %+v", by, rep.Lost)
	}
	c.endure(victim)
	others.Wait()
	for i := range c.options {
		of := *c.options[i].Cluster
		of.Table = next
		c.options[i].Cluster = &of
	}
	c.checkResynced(victim, 2, c.lostBy(victim))
	if c.conserved() == 0 {
		t.Error("no URL has moved")
	}
}

// backedUp waits until a place has a backup with a table.
func backedUp(t *testing.T, ctx context.Context, place backup.Place, table *cluster.Table) {
	t.Helper()
	has := func(h backup.Head) bool { return h.Table == table.Sum() }
	for account.Sleep(ctx, 100*time.Millisecond) {
		if all, err := backup.Backups(ctx, place); err == nil && slices.ContainsFunc(all.Backups, has) {
			return
		}
	}
	t.Error("no backup since the change")
}
