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
	"drumbeat/disk"
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
			inBubble(t, func(t *testing.T) { replaceAfterGive(t, victim, number, false) })
		})
	}
}

// TestReplaceAfterDivide: the owner of a divided PLD, and a node that visits hosts of it, are replaced.
func TestReplaceAfterDivide(t *testing.T) {
	notShort(t)
	t.Parallel()
	for victim := range 2 {
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) { replaceAfterGive(t, victim, 0, true) })
		})
	}
}

func replaceAfterGive(t *testing.T, victim int, number int64, divided bool) {
	c := replaceCluster(t, *seedFlag)
	defer c.close()
	before, next := c.halfGiven(0, 1)
	if divided {
		plds := c.largestPLDs()
		own := slices.IndexFunc(plds, func(pld string) bool { return before.OwnerOf(c.slotOf(pld)) == 0 })
		next = c.divide(before, plds[own], 0, 1, 2)
	}
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
	if victim == 2 { // the table seems to change while the command runs
		of := *c.options[victim].Cluster
		of.Transport = &lateTable{Transport: of.Transport}
		c.options[victim].Cluster = &of
	}
	waiting, patience := context.WithTimeout(t.Context(), time.Hour)
	defer patience()
	rep, err := c.takePlace(waiting, victim)
	if number > 0 && victim < 2 {
		if !errors.Is(err, repair.ErrResync) || !strings.Contains(err.Error(), "have moved since then, by change 1") {
			t.Errorf("the backup from before the change: %v", err)
		}
		must(t, c.options[victim].Cluster.Transport.Close())
		c.restore(victim, place, 0)
		rep, err = c.takePlace(t.Context(), victim)
	}
	if err != nil {
		t.Fatal(err)
	}
	if by := c.lostBy(victim); by != rep.Lost {
		t.Errorf("it has lost %+v, and the command said %+v", by, rep.Lost)
	}
	c.endure(victim)
	others.Wait()
	c.checkReplaced(victim, next)
}

// TestReplaceAfterJoin: a node whose last backup is from before another one joined, and got slots of a third, takes its
// place with that backup. Its exchanges with the node that joined are lost, and counted. A command that was
// killed when the next state was in place tells the broker, when it runs again, that the node has its place.
func TestReplaceAfterJoin(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint(killed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) { replaceAfterJoin(t, killed) })
		})
	}
}

func replaceAfterJoin(t *testing.T, killed bool) {
	const victim, joined = 1, 3
	c := replaceCluster(t, *seedFlag)
	defer c.close()
	before := c.options[0].Cluster.Table
	grown, err := before.Grow()
	must(t, err)
	next, err := grown.Give(half(grown, 0, joined))
	must(t, err)
	c.add(grown)
	alive, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	var others, lost sync.WaitGroup
	for _, node := range []int{0, 2} {
		others.Go(func() { c.endure(node) })
	}
	lost.Go(func() {
		if res, err := Run(alive, c.options[victim]); !cutOff(alive, res, err) {
			t.Errorf("node %d: %v, %v", victim, err, res.Stop)
		}
	})
	lost.Go(func() {
		defer end()
		defer c.options[victim].Disk.FS.(*memfs.FS).CrashAfter(1)
		backedUp(t, alive, backup.Directory(c.options[victim].Disk.FS, "place"), before)
		ok := c.fetchedAll(alive, 50)
		c.change(alive, cluster.ChangeGrow, before, grown, 0)
		for node := range joined {
			ok = ok && c.has(alive, node, 1)
		}
		others.Go(func() { c.endure(joined) })
		ok = ok && c.settled(alive, 1)
		c.change(alive, cluster.ChangeGive, grown, next, 0)
		if !ok || !c.settled(alive, 2) || !c.exchanged(alive, victim, joined) {
			t.Error("the nodes have not exchanged links")
		}
	})
	lost.Wait()
	c.restore(victim, c.places(victim), 1)
	if killed {
		c.killAtEnd(victim)
	}
	rep, err := c.takePlace(t.Context(), victim)
	if err != nil {
		t.Fatal(err)
	}
	if by := c.lostBy(victim); by != rep.Lost && !killed || rep.Finished != killed {
		t.Errorf("it has lost %+v, and the command said %+v, finished: %v", by, rep.Lost, rep.Finished)
	}
	c.checkPlace(victim)
	p := c.auditNode(c.options[victim].Disk.FS, victim).Cluster.Pair(joined)
	if p.Lost.Links.N == 0 || p.Lost != p.Taken.Totals || p.Sent.Out.Links.N == 0 {
		t.Errorf("with the node that joined: %+v", p)
	}
	c.endure(victim)
	others.Wait()
	c.checkReplaced(victim, next)
}

// add adds a node with the last number of a table. All others make one backup.
func (c *testCluster) add(table *cluster.Table) {
	for node := range c.options {
		c.options[node].Backup.Every, c.options[node].Disk.CheckpointEvery = 24*time.Hour, time.Second
	}
	node := table.Nodes() - 1
	o := simOptions(c.t, c.web, memfs.New(*seedFlag+uint64(node)))
	of, e := *c.options[0].Cluster, c.net.Transport(node)
	of.Node, of.Table, of.Transport = node, table, e
	o.Cluster, o.Disk.CheckpointEvery = &of, c.options[0].Disk.CheckpointEvery
	c.options, c.engines = append(c.options, o), append(c.engines, e)
}

// checkReplaced checks the end of a crawl in which a node was replaced, with the last table of owners.
func (c *testCluster) checkReplaced(victim int, table *cluster.Table) {
	c.t.Helper()
	c.setTable(table)
	c.checkResynced(victim, 2, c.lostBy(victim))
	if !table.Divided() && c.conserved() == 0 { // a visitor may have lost URLs that it was sent since its backup
		c.t.Error("no URL has moved")
	}
}

// lateTable is a broker whose table of owners is not read at first.
type lateTable struct {
	cluster.Transport
	known bool
}

func (l *lateTable) Get(ctx context.Context, bucket cluster.Bucket, key string) (cluster.Value, error) {
	if key == cluster.TableKey && !l.known {
		l.known = true
		return cluster.Value{}, cluster.ErrNotFound
	}
	return l.Transport.Get(ctx, bucket, key)
}

// killAtEnd runs the command, and kills it when the next state of the node is in place, before the broker is told.
func (c *testCluster) killAtEnd(node int) {
	c.t.Helper()
	o := &c.options[node]
	fs, of := o.Disk.FS.(*memfs.FS), o.Cluster
	killed := *of
	killed.Transport = endlessTransport{of.Transport, fs}
	o.Cluster = &killed
	if _, err := c.takePlace(c.t.Context(), node); !errors.Is(err, disk.ErrCrashed) {
		c.t.Errorf("the command was not killed: %v", err)
	}
	o.Cluster, o.Disk.FS = of, fs.Kill()
}

// endlessTransport kills the process that writes the end of a replacement, and does not write it.
type endlessTransport struct {
	cluster.Transport
	fs *memfs.FS
}

func (e endlessTransport) Update(ctx context.Context, bucket cluster.Bucket, key string, data []byte,
	revision uint64) (uint64, error) {
	if strings.HasPrefix(key, "resync.") && strings.Contains(string(data), `"done":true`) {
		e.fs.CrashAfter(1)
		return 0, cluster.ErrAway
	}
	return e.Transport.Update(ctx, bucket, key, data, revision)
}

// checkPlace checks that the broker knows that a node has its place.
func (c *testCluster) checkPlace(node int) {
	c.t.Helper()
	v, err := c.engines[0].Get(c.t.Context(), cluster.BucketCrawl, cluster.ReplaceKey(node))
	if err != nil || !strings.Contains(string(v.Data), `"done":true`) {
		c.t.Errorf("the request at the end: %v, %s", err, v.Data)
	}
}

// exchanged waits until each of two nodes has dropped messages that the other has made durable.
func (c *testCluster) exchanged(ctx context.Context, a, b int) bool {
	gone := func(from, to int) bool {
		m, err := cluster.ReadMark(ctx, c.engines[0], from, len(c.options))
		return err == nil && m != nil && m.Gone[to] > 0
	}
	for account.Sleep(ctx, 50*time.Millisecond) {
		if gone(a, b) && gone(b, a) {
			return true
		}
	}
	return false
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
