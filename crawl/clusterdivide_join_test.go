package crawl

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	slotmove "drumbeat/state/move"
	"drumbeat/weburl"
)

// TestDivideJoin: while the hosts of a PLD are divided among two nodes, a third one joins, gets slots of both, and some
// hosts of the PLD. Then the owner of the PLD leaves, with its slots and hosts. Each URL is fetched once.
func TestDivideJoin(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, pld, owner := dividedCluster(t, 2, nil, nil)
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		table := c.options[0].Cluster.Table
		results, errs := make([]*Result, 3), make([]error, 3)
		var wg sync.WaitGroup
		run := func(node int) {
			o := c.options[node]
			wg.Go(func() {
				if results[node], errs[node] = c.start(ctx, node, o); errs[node] != nil {
					t.Errorf("node %d: %v", node, errs[node])
					cancel()
				}
			})
		}
		next := func(kind cluster.ChangeKind, giver int, after *cluster.Table, err error) {
			t.Helper()
			must(t, err)
			c.change(ctx, kind, table, after, giver)
			if table = after; !c.settled(ctx, after.Moves()) && ctx.Err() == nil {
				t.Errorf("%s: the nodes have not taken the table", kind)
			}
		}
		run(0)
		run(1)
		if !c.fetchedAll(ctx, 100) {
			t.Fatal("no 100 pages")
		}
		after, err := table.Grow()
		next(cluster.ChangeGrow, 0, after, err)
		c.join(table)
		run(2)
		after, err = table.Give(both(half(table, 0, 2), half(table, 1, 2)))
		next(cluster.ChangeGive, 0, after, err)
		for node := range 2 {
			parts := thirdOf(table.PartsOf([]byte(pld)), node, 2)
			after, err = table.Divide(pld, c.slotOf(pld), &parts)
			next(cluster.ChangeGive, node, after, err)
		}
		after, err = table.Give(c.allOf(table, owner))
		next(cluster.ChangeGive, owner, after, err)
		c.setTable(table)
		after, err = table.Depart(owner)
		must(t, err)
		c.change(ctx, cluster.ChangeDepart, table, after, owner)
		table = after
		wg.Wait()
		for node, r := range results {
			if errs[node] != nil || (r.Stop == StopLeft) != (node == owner) {
				t.Fatalf("node %d: %v, %+v", node, errs[node], r)
			}
			checkDeep(t, &c.options[node])
		}
		checkFetched(t, c.web, &c.options[0])
		c.conserved()
		c.setTable(table)
		rep, err := c.audit(c.options[0].Disk.FS, true)
		if err != nil || !rep.Balanced() || len(rep.Departed) != 1 {
			t.Errorf("audit of all nodes: %v, %+v", err, rep)
		}
	})
}

// join adds the options of node 2, which begins with a table.
func (c *testCluster) join(table *cluster.Table) {
	o := simOptions(c.t, c.web, c.options[0].Disk.FS.(*memfs.FS))
	of, e := *c.options[0].Cluster, c.net.Transport(2)
	of.Node, of.Table, of.Transport = 2, table, e
	o.Disk.Dirs, o.Cluster = []string{"n2"}, &of
	c.engines, c.options = append(c.engines, e), append(c.options, o)
}

// thirdOf returns parts of which a node has given about a third to another one.
func thirdOf(p *cluster.Parts, from, to int) cluster.Parts {
	parts := *p
	for i, is := range parts {
		if int(is) == from && i%3 == 0 {
			parts[i] = uint16(to)
		}
	}
	return parts
}

// allOf gives all slots of one of the nodes 0 and 1 to the other one and node 2.
func (c *testCluster) allOf(table *cluster.Table, from int) map[int]int {
	all := map[int]int{}
	for slot := range cluster.Slots {
		if table.OwnerOf(slot) == from {
			all[slot] = []int{1 - from, 2}[slot%2]
		}
	}
	return all
}

// TestDivideMove: with all nodes stopped, cluster move refuses to move slots while a PLD is divided. Nothing changes.
func TestDivideMove(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, fs, _ := stoppedDivided(t)
		defer c.close()
		f := cluster.File{Crawl: "000102030405060708090a0b0c0d0e0f", Secret: weburl.Secret{1, 2, 3},
			Table: c.options[0].Cluster.Table}
		data, err := f.Encode()
		must(t, err)
		must(t, fs.MkdirAll(path.Dir(clusterFile)))
		must(t, disk.WriteFileAtomic(fs, clusterFile, data))
		_, err = slotmove.Run(c.moving(fs, 0, cluster.Slots/2, 1, 0))
		if !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), "a PLD is divided among nodes") {
			t.Errorf("slots move though a PLD is divided: %v", err)
		}
		c.reopen()
		c.check(c.run(t.Context()))
	})
}
