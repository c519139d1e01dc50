package crawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/changes"
	slotmove "drumbeat/state/move"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

const clusterFile = "cluster/file.json"

// movable is a cluster whose nodes have one file system, and a file of the cluster there.
func movable(t *testing.T, web *simweb.Web, nodes int, change func(o *Options)) (*testCluster, *memfs.FS) {
	t.Helper()
	fs := memfs.New(*seedFlag)
	c := newCluster(t, web, nodes, mem.Faults{Delay: 10 * time.Millisecond}, func(node int, o *Options) {
		dir := string(rune('0'+node)) + "/"
		o.Disk.FS, o.Disk.Dirs = fs, []string{dir + "d0", dir + "d1"}
		if change != nil {
			change(o)
		}
	})
	f := cluster.File{Crawl: "000102030405060708090a0b0c0d0e0f", Secret: weburl.Secret{1, 2, 3},
		Table: c.options[0].Cluster.Table}
	data, err := f.Encode()
	if err == nil {
		err = fs.MkdirAll("cluster")
	}
	if err == nil {
		err = disk.WriteFileAtomic(fs, clusterFile, data)
	}
	must(t, err)
	for i := range c.options {
		c.options[i].Cluster.Crawl = f.Key()
	}
	return c, fs
}

// reopen replaces the engines, as new processes have them.
func (c *testCluster) reopen() {
	for i := range c.engines {
		if err := c.engines[i].Close(); err != nil {
			c.t.Fatal(err)
		}
		c.engines[i] = c.net.Transport(i)
		cl := *c.options[i].Cluster
		cl.Transport = c.engines[i]
		c.options[i].Cluster = &cl
	}
}

// moving returns the options of a move.
func (c *testCluster) moving(fs disk.FS, first, last, from, to int) slotmove.Options {
	opt := slotmove.Options{FS: fs, File: clusterFile, First: first, Last: last, From: from, To: to, RAMBytes: 16 << 20}
	for i := range c.options {
		opt.Nodes = append(opt.Nodes, slotmove.Node{FS: fs, Dirs: c.options[i].Disk.Dirs})
	}
	return opt
}

// follow gives the nodes the table of the cluster's file.
func (c *testCluster) follow(fs disk.FS) {
	c.t.Helper()
	data, err := disk.ReadFile(fs, clusterFile)
	if err != nil {
		c.t.Fatal(err)
	}
	f, err := cluster.DecodeFile(data)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range c.options {
		cl := *c.options[i].Cluster
		cl.Table = f.Table
		c.options[i].Cluster = &cl
	}
}

// TestClusterMove: nodes are stopped in the middle, twice, and slots move: all of one node to another, then
// three quarters of all to a third. All continue, and together fetch each URL of the web once, and count the
// edges that one node counts.
func TestClusterMove(t *testing.T) {
	notShort(t)
	t.Parallel()
	var one map[star.Edge]bool
	for _, nodes := range []int{1, 3} {
		inBubble(t, func(t *testing.T) {
			web := sizedWeb(t, 30, 60, 1200)
			c, fs := movable(t, web, nodes, nil)
			defer c.close()
			if nodes > 1 {
				c.stopNodeAfter(0, 30) // nodes may fetch in turn: what moves must have URLs that ended
				c.moved(fs, 0, cluster.Slots-1, 0, 1)
				c.foreignFound(fs)
				c.stopNodeAfter(1, 30)
				c.moved(fs, cluster.Slots/4, cluster.Slots-1, -1, 2)
				c.repaired(fs)
			}
			c.check(c.run(t.Context()))
			for i := range c.options {
				checkDeep(t, &c.options[i])
			}
			if nodes > 1 {
				c.auditedTogether(fs)
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

// repaired repairs nodes after moves: there is nothing to do, unless URLseen of a node is damaged. Then the
// keys of URLs that ended on other nodes are lost with the damage, and the node is balanced nevertheless.
func (c *testCluster) repaired(fs *memfs.FS) {
	c.t.Helper()
	for i := range c.options {
		rep, err := repair.Run(repair.Options{Options: audit.Options{FS: fs, Dirs: c.options[i].Disk.Dirs}})
		if err != nil || !rep.Nothing() {
			c.t.Errorf("repair of node %d after a move: %v, %+v", i, err, rep)
		}
	}
	fs = fs.Fork(1)
	o := c.options[2]
	o.Disk.FS = fs
	damaged := c.damageSeen(fs, o.Disk.Dirs)
	rep, err := repair.Run(repair.Options{Options: audit.Options{FS: fs, Dirs: o.Disk.Dirs}})
	if err != nil || rep.Nothing() || damaged == 0 {
		c.t.Fatalf("repair of a damaged node after a move: %d files damaged, %v, %+v", damaged, err, rep)
	}
	c.t.Logf("repair: %d may be fetched again; %v", rep.Unseen, rep.Actions)
	checkDeep(c.t, &o)
	checkBalanced(c.t, fs, o.Disk.Dirs)
	if _, err := slotmove.Run(c.moving(fs, 0, cluster.Slots/2, -1, 0)); err == nil ||
		!strings.Contains(err.Error(), "repairs have lost") {
		c.t.Errorf("a move after that repair: %v", err)
	}
}

// moved moves slots, and audits all nodes.
func (c *testCluster) moved(fs disk.FS, first, last, from, to int) {
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
	if rep.Finished || waiting < 10 || ended == 0 {
		c.t.Errorf("%d waiting and %d ended URLs moved: %+v", waiting, ended, rep)
	}
	if _, err := Run(c.t.Context(), c.options[0]); !errors.Is(err, state.ErrIncompatible) {
		c.t.Errorf("a node with the table from before the move: %v", err)
	}
	c.follow(fs)
	if t := c.options[0].Cluster.Table; t.Moves() != before.Moves()+1 ||
		from < 0 && (t.OwnerOf(first) != to || t.OwnerOf(last) != to) || from >= 0 && t.Share(from) > 0 {
		c.t.Errorf("after %d moves, slot %d belongs to node %d", t.Moves(), first, t.OwnerOf(first))
	}
	for i := range c.options {
		checkBalanced(c.t, fs, c.options[i].Disk.Dirs)
		checkDeep(c.t, &c.options[i])
	}
	c.checkLoads(false)
	c.auditedTogether(fs)
}

// refusals counts the nodes whose audit says that a move is not finished.
func (c *testCluster) refusals(fs *memfs.FS) (n int, err error) {
	for j := range c.options {
		if _, err := audit.Run(fs, c.options[j].Disk.Dirs); errors.Is(err, state.ErrMoving) ||
			errors.Is(err, state.ErrRepairing) {
			n++
		} else if err != nil {
			return n, fmt.Errorf("node %d: %w", j, err)
		}
	}
	return n, nil
}

// checkAll audits each node.
func (c *testCluster) checkAll(fs *memfs.FS) {
	c.t.Helper()
	for j := range c.options {
		checkBalanced(c.t, fs, c.options[j].Disk.Dirs)
		o := c.options[j]
		o.Disk.FS = fs
		checkDeep(c.t, &o)
	}
}

// accounts returns the accounts of all nodes.
func (c *testCluster) accounts(fs disk.FS) (all []state.Accounts) {
	c.t.Helper()
	for i := range c.options {
		set, m, err := lastManifest(fs, c.options[i].Disk.Dirs)
		if err != nil {
			c.t.Fatal(err)
		}
		if names, err := fs.List(set.Path(0, "state")); err != nil || slices.Contains(names, "MOVE") ||
			slices.Contains(names, "REPAIR") {
			c.t.Errorf("after a move: %v, %v", names, err)
		}
		all = append(all, m.Accounts)
	}
	return all
}

// unseenPlace returns a place that no moved node has had URLs in.
func unseenPlace(moved *[state.NumPlaces]int64) (p state.Place, ok bool) {
	for _, p := range []state.Place{state.PlaceStar, state.PlaceBeast, state.PlaceOverBudget, state.PlaceRAM,
		state.PlaceDeferred, state.PlaceHeld, state.PlaceFetched, state.PlaceRefused} {
		if moved[p] == 0 {
			return p, true
		}
	}
	return 0, false
}

// placesOptions makes URLs wait in many places. It returns what allows the servers that a slow crawl does not visit.
func placesOptions(o *Options, slow bool, allow func(*Options)) func(*Options) {
	small(o)
	o.Drum.BucketBytes, o.Disk.CheckpointEvery, o.Order.StockTarget = 4<<10, 700*time.Millisecond, 60
	o.Politeness.HostDelay, o.Politeness.HostDelayMin = 500*time.Millisecond, 500*time.Millisecond
	o.Budgets.Policy, o.Budgets.Default, o.Budgets.QueuePages = "paper", 3, 30
	o.Limits.Linger = 12 * time.Hour // a server that was not allowed may count as unavailable for a while
	// URLs of slow hosts wait on disk, and a fourth of the servers is not allowed for now.
	if slow {
		o.Politeness.HostDelay, o.Politeness.HostDelayMin, o.Order.StockTarget = 20*time.Second,
			20*time.Second, 2000
		o.Budgets.Default, o.Budgets.QueuePages, o.Disk.CheckpointEvery = 1000, 10_000, 7*time.Second
		all := o.Network.AllowedAddr
		o.Network.Flags, o.Network.AllowedAddr = "few",
			func(a netip.Addr) bool { return all(a) && a.As4()[3]%4 != 1 }
		allow = func(o *Options) {
			o.Network.Flags, o.Network.AllowedAddr, o.Cluster.Reconfigure = "", all, true
		}
	}
	return allow
}

// TestClusterMovePlaces: nodes are killed at random times and slots move from their last checkpoints, which
// have URLs in all places, and messages on their way. All nodes together fetch each URL nevertheless, and
// count it once.
func TestClusterMovePlaces(t *testing.T) {
	notShort(t)
	t.Parallel()
	var moved [state.NumPlaces]int64
	moves, messages := 0, int64(0)
	unseen := func() (state.Place, bool) { return unseenPlace(&moved) }
	first, enough := *seedFlag, longOr[uint64](60, 3)
	for seed := first; seed < first+60; seed++ { // few URLs are in STAR at a checkpoint: not each crawl has one
		if _, missing := unseen(); seed >= first+enough && !missing {
			break
		}
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0x706c6163))
			web := cutWeb(t, seed, func(o *simweb.Options) { o.Pages, o.Robots.RedirectHost = 400, 0 })
			nodes := 2 + int(seed%2)
			slow, allow := seed%3 == 0, func(*Options) {}
			c, fs := movable(t, web, nodes, func(o *Options) { allow = placesOptions(o, slow, allow) })
			defer c.close()
			for range 3 {
				left := c.killAfter(fs, 10+rng.IntN(20))
				if left == nil {
					break
				}
				fs = left
				from := rng.IntN(nodes)
				to := (from + 1 + rng.IntN(nodes-1)) % nodes
				first := rng.IntN(cluster.Slots)
				_, was, err := lastManifest(fs, c.options[from].Disk.Dirs)
				if err != nil || was == nil {
					t.Fatal(was, err)
				}
				rep, err := slotmove.Run(c.moving(fs, first, first+rng.IntN(cluster.Slots-first), from, to))
				if err != nil {
					t.Logf("seed %d: %v", seed, err) // a message is not whole, or no slot would move
					for i := range c.options {
						checkBalanced(t, fs, c.options[i].Disk.Dirs)
					}
					continue
				}
				moves++
				for p, sum := range was.Accounts.Places {
					moved[p] += sum.N
				}
				for _, n := range rep.Nodes {
					messages += n.Messages
				}
				c.follow(fs)
				for i := range c.options {
					checkDeep(t, &c.options[i])
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			for i := range c.options {
				allow(&c.options[i])
			}
			c.run(t.Context())
			c.checkCuts()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	t.Logf("%d moves with %d messages, from nodes with URLs in these places: %v", moves, messages, moved)
	if p, missing := unseen(); missing {
		t.Errorf("no slots moved from a node with URLs in %s", p)
	}
}

// killAfter runs all nodes until they have fetched n URLs, and kills them. It returns the file system that
// they leave. If they end before, it returns nil: those that are allowed have had all their URLs fetched.
func (c *testCluster) killAfter(fs *memfs.FS, n int) *memfs.FS {
	c.t.Helper()
	killed := make(chan *memfs.FS, 1)
	ctx, cancel := context.WithCancel(c.t.Context())
	c.fetched(ctx, anyNode, n, func() {
		if ctx.Err() == nil {
			killed <- fs.Kill()
		}
	})
	errs := make([]error, len(c.options))
	var wg sync.WaitGroup
	for i := range c.options {
		wg.Go(func() { _, errs[i] = Run(c.t.Context(), c.options[i]) })
	}
	wg.Wait()
	cancel()
	synctest.Wait()
	var left *memfs.FS
	select {
	case left = <-killed:
	default:
	}
	for i, err := range errs {
		if left == nil && err != nil || left != nil && !errors.Is(err, disk.ErrCrashed) {
			c.t.Errorf("node %d: %v", i, err)
		}
		if left != nil {
			c.options[i].Disk.FS = left
		}
	}
	c.reopen()
	return left
}

// editManifest writes a changed manifest with a correct checksum.
func editManifest(t *testing.T, fs *memfs.FS, dirs []string, change func(m *state.Manifest)) {
	t.Helper()
	set, m, err := lastManifest(fs, dirs)
	must(t, err)
	change(m)
	data, err := state.EncodeManifest(m)
	if err == nil {
		err = (&state.Saved{Set: set}).WriteManifest(data)
	}
	must(t, err)
}

// setDelay writes a change of the operator into the journal.
func setDelay(t *testing.T, fs *memfs.FS, dir string) {
	t.Helper()
	j, err := changes.Open(fs, dir+"/"+state.ChangesName, 0)
	if err == nil {
		_, err = j.Append(changes.Change{Op: changes.OpHostDelay, Host: "a.test", Delay: 9}, time.Now())
	}
	if err == nil {
		err = j.Close()
	}
	must(t, err)
}

// TestClusterMoveRefused: a move that cannot be made whole is refused before anything changes.
func TestClusterMoveRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 10, 20, 300)
		c, base := movable(t, web, 2, nil)
		defer c.close()
		c.stopAfter(80)
		var dirs [2][]string
		for i := range dirs {
			dirs[i] = c.options[i].Disk.Dirs
		}
		edit := func(change func(m *state.Manifest)) func(fs *memfs.FS, _ *slotmove.Options) {
			return func(fs *memfs.FS, _ *slotmove.Options) { editManifest(t, fs, dirs[0], change) }
		}
		for _, x := range []struct {
			why    string
			change func(fs *memfs.FS, o *slotmove.Options)
		}{
			{"its crawl is over", edit(func(m *state.Manifest) { m.Done = "done" })},
			{"store of contents", edit(func(m *state.Manifest) { m.Accounts.Places[state.PlaceContent].N = 1 })},
			{"no intake", edit(func(m *state.Manifest) { m.Intake = nil })},
			{"audit before the move; nothing has changed: node 0",
				edit(func(m *state.Manifest) { m.Accounts.Places[state.PlaceRAM].Add(1) })},
			{"audit before the move; nothing has changed: node", func(fs *memfs.FS, _ *slotmove.Options) {
				if c.damageSeen(fs, dirs[1])+c.damageSeen(fs, dirs[0]) == 0 { // one of them may have two URLs only
					t.Error("no node has merged a URL")
				}
			}},
			{"add up to 1, not 0", edit(func(m *state.Manifest) { m.Accounts.Moved.Add(1) })},
			{"set back", edit(func(m *state.Manifest) { m.Intake.Taken[1].Number += 100 })},
			{"a table of owners that differs", edit(func(m *state.Manifest) { m.Frozen.Table++ })},
			{"no cluster", edit(func(m *state.Manifest) { m.Frozen.Nodes, m.Frozen.Node = 0, 0 })},
			{"holds node 1 of 2", func(_ *memfs.FS, o *slotmove.Options) {
				o.Nodes[0], o.Nodes[1] = o.Nodes[1], o.Nodes[0]
			}},
			{"directories of 1 node", func(_ *memfs.FS, o *slotmove.Options) { o.Nodes = o.Nodes[:1] }},
			{"another process", func(fs *memfs.FS, _ *slotmove.Options) {
				if _, err := fs.Lock(dirs[1][0]); err != nil {
					t.Fatal(err)
				}
			}},
			{"the operator has set", func(fs *memfs.FS, _ *slotmove.Options) { setDelay(t, fs, dirs[0][0]) }},
			{"quota exceeded", func(fs *memfs.FS, _ *slotmove.Options) { fs.SetQuota(10_000) }},
		} {
			fs := base.Fork(1)
			o := c.moving(fs, 0, cluster.Slots-1, 0, 1)
			x.change(fs, &o)
			if rep, err := slotmove.Run(o); err == nil || !strings.Contains(err.Error(), x.why) {
				t.Errorf("want an error about %q: %v, %+v", x.why, err, rep)
			}
			for i := range dirs {
				names, err := fs.List(dirs[i][0] + "/state")
				if err != nil || slices.Contains(names, "MOVE") || slices.Contains(names, "REPAIR") {
					t.Errorf("%s: node %d is left with %v, %v", x.why, i, names, err)
				}
			}
			if names, err := fs.List("cluster"); err != nil || len(names) != 1 {
				t.Errorf("%s: beside the file of the cluster: %v, %v", x.why, names, err)
			}
		}
	})
}
