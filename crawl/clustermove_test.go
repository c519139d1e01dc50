package crawl

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"drumbeat/crawl/audit"
	slotmove "drumbeat/crawl/move"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/exchange"
	"drumbeat/exchange/mem"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/weburl"
)

const clusterFile = "cluster/file.json"

// movable is a cluster whose nodes have one file system, and a file of the cluster there.
func movable(t *testing.T, web *simweb.Web, nodes int, change func(o *Options)) (*cluster, *memfs.FS) {
	t.Helper()
	fs := memfs.New(*seedFlag)
	c := newCluster(t, web, nodes, mem.Faults{Delay: 10 * time.Millisecond}, func(node int, o *Options) {
		dir := string(rune('0'+node)) + "/"
		o.FS, o.Dirs = fs, []string{dir + "d0", dir + "d1"}
		if change != nil {
			change(o)
		}
	})
	f := exchange.File{Crawl: "000102030405060708090a0b0c0d0e0f", Secret: weburl.Secret{1, 2, 3}, Table: c.options[0].Cluster.Table}
	data, err := f.Encode()
	if err == nil {
		err = fs.MkdirAll("cluster")
	}
	if err == nil {
		err = disk.WriteFileAtomic(fs, clusterFile, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.options {
		c.options[i].Cluster.Crawl = f.Key()
	}
	return c, fs
}

// stopAfter runs all nodes for a time, and stops them in order.
func (c *cluster) stopAfter(d time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	for node, r := range c.run(ctx) {
		if r.Stop == StopDone {
			c.t.Fatalf("node %d ended within %v", node, d)
		}
	}
	c.reopen()
	time.Sleep(c.options[0].KeepAlive + time.Second) // connections of a process end with it
}

// reopen replaces the engines, as new processes have them.
func (c *cluster) reopen() {
	for i := range c.engines {
		if err := c.engines[i].Close(); err != nil {
			c.t.Fatal(err)
		}
		c.engines[i] = c.net.Engine(i)
		cl := *c.options[i].Cluster
		cl.Engine = c.engines[i]
		c.options[i].Cluster = &cl
	}
}

// moving returns the options of a move.
func (c *cluster) moving(fs disk.FS, first, last, from, to int) slotmove.Options {
	opt := slotmove.Options{FS: fs, File: clusterFile, First: first, Last: last, From: from, To: to, RAMBytes: 16 << 20}
	for i := range c.options {
		opt.Nodes = append(opt.Nodes, slotmove.Node{FS: fs, Dirs: c.options[i].Dirs})
	}
	return opt
}

// follow gives the nodes the table of the cluster's file.
func (c *cluster) follow(fs disk.FS) {
	c.t.Helper()
	data, err := disk.ReadFile(fs, clusterFile)
	if err != nil {
		c.t.Fatal(err)
	}
	f, err := exchange.DecodeFile(data)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range c.options {
		cl := *c.options[i].Cluster
		cl.Table = f.Table
		c.options[i].Cluster = &cl
	}
}

// TestClusterMove: nodes are stopped in the middle, twice, and slots move: all of one node to another, then three quarters of all
// to a third. All go on, and together fetch each URL of the web once, and count the edges that one node counts.
func TestClusterMove(t *testing.T) {
	t.Parallel()
	var one map[star.Edge]bool
	for _, nodes := range []int{1, 3} {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.PLDs, o.Hosts, o.Pages = 30, 60, 1200
				o.Robots.RedirectHost = 0 // two nodes would ask one host
			})
			c, fs := movable(t, web, nodes, nil)
			defer c.close()
			if nodes > 1 {
				c.stopAfter(4 * time.Second)
				c.moved(fs, 0, exchange.Slots-1, 0, 1)
				c.stopAfter(4 * time.Second)
				c.moved(fs, exchange.Slots/4, exchange.Slots-1, -1, 2)
			}
			c.check(c.run(t.Context()))
			for i := range c.options {
				checkDeep(t, &c.options[i])
			}
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

// moved moves slots, and audits all nodes.
func (c *cluster) moved(fs disk.FS, first, last, from, to int) {
	c.t.Helper()
	before := *c.options[0].Cluster.Table
	rep, err := slotmove.Run(c.moving(fs, first, last, from, to))
	if err != nil {
		c.t.Fatal(err)
	}
	var waiting, ended int64
	for _, n := range rep.Nodes {
		c.t.Logf("%+v", n)
		waiting, ended = waiting+n.Waiting, ended+max(0, n.Ended)
	}
	if rep.Finished || waiting < 10 || ended < 10 {
		c.t.Errorf("%d waiting and %d ended URLs moved: %+v", waiting, ended, rep)
	}
	if _, err := Run(c.t.Context(), c.options[0]); !errors.Is(err, state.ErrIncompatible) {
		c.t.Errorf("a node with the table from before the move: %v", err)
	}
	c.follow(fs)
	if t := c.options[0].Cluster.Table; t.Moves() != before.Moves()+1 || from < 0 && (t.OwnerOf(first) != to || t.OwnerOf(last) != to) ||
		from >= 0 && t.Share(from) > 0 {
		c.t.Errorf("after %d moves, slot %d belongs to node %d", t.Moves(), first, t.OwnerOf(first))
	}
	for i := range c.options {
		checkBalanced(c.t, fs, c.options[i].Dirs)
		checkDeep(c.t, &c.options[i])
	}
}

// TestClusterMoveCuts: a move is killed, or loses its power, at random operations on the disk, and is run again until it ends.
// The nodes then have what a move without interruption gives them. Meanwhile, nodes either start with the old file or are
// refused.
func TestClusterMoveCuts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost = 20, 30, 300, 0 })
		c, base := movable(t, web, 3, func(o *Options) { o.WARCFileBytes = 30_000 })
		defer c.close()
		c.stopAfter(3 * time.Second)
		const first, last, from, to = 500, 3000, -1, 1
		whole := base.Fork(1)
		before := whole.Ops()
		if _, err := slotmove.Run(c.moving(whole, first, last, from, to)); err != nil {
			t.Fatal(err)
		}
		ops := whole.Ops() - before
		want := c.accounts(whole)
		rng := rand.New(rand.NewPCG(*seedFlag, 0x6d6f7665))
		var finished, refused int
		for i := range longOr(400, 10) {
			at := 1 + rng.IntN(ops)
			if i%2 == 0 {
				at = max(1, ops-rng.IntN(60)) // where it is committed and carried out
			}
			fs := base.Fork(uint64(i))
			for cuts := 0; ; cuts++ {
				if cuts < 3 {
					fs.CrashAfter(at)
				}
				rep, err := slotmove.Run(c.moving(fs, first, last, from, to))
				if err == nil {
					if rep.Finished {
						finished++
					}
					break
				}
				if !errors.Is(err, disk.ErrCrashed) {
					if c.follow(fs); c.options[0].Cluster.Table.Moves() == 1 {
						break // it was published, and its end was lost
					}
					t.Fatalf("cut at %d of %d: %v", at, ops, err)
				}
				if fs = fs.Kill(); rng.IntN(2) == 0 {
					fs = fs.Fork(uint64(i)).Crash()
				}
				if _, err := audit.Run(fs, c.options[0].Dirs); errors.Is(err, state.ErrMoving) || errors.Is(err, state.ErrRepairing) {
					refused++
				} else if err != nil {
					t.Fatalf("cut at %d of %d: %v", at, ops, err)
				}
				at = 1 + rng.IntN(ops)
			}
			fs.CrashAfter(0)
			if got := c.accounts(fs); !reflect.DeepEqual(got, want) {
				t.Fatalf("cut at %d of %d: the nodes have %+v, want %+v", at, ops, got, want)
			}
			for j := range c.options {
				checkBalanced(t, fs, c.options[j].Dirs)
				o := c.options[j]
				o.FS = fs
				checkDeep(t, &o)
			}
			if t.Failed() {
				t.Fatalf("cut at %d of %d", at, ops)
			}
		}
		t.Logf("%d operations; %d moves were finished by the next run, %d nodes were refused meanwhile", ops, finished, refused)
		if finished == 0 || refused == 0 {
			t.Error("no cut was after the commit")
		}
	})
}

// accounts returns the accounts of all nodes.
func (c *cluster) accounts(fs disk.FS) (all []state.Accounts) {
	c.t.Helper()
	for i := range c.options {
		set, m, err := lastManifest(fs, c.options[i].Dirs)
		if err != nil {
			c.t.Fatal(err)
		}
		if names, err := fs.List(set.Path(0, "state")); err != nil || slices.Contains(names, "MOVE") || slices.Contains(names, "REPAIR") {
			c.t.Errorf("after a move: %v, %v", names, err)
		}
		all = append(all, m.Accounts)
	}
	return all
}
