package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	slotmove "drumbeat/state/move"
	"drumbeat/weburl"
)

// change changes the table while the nodes run.
func (c *testCluster) change(ctx context.Context, kind cluster.ChangeKind, before, next *cluster.Table, giver int) {
	c.t.Helper()
	data, err := cluster.NewTableChange(kind, before, next, giver, fmt.Sprint(rand.Uint64())).Encode()
	must(c.t, err)
	_, err = c.engines[0].Put(ctx, cluster.BucketCrawl, cluster.TableKey, data)
	must(c.t, err)
}

// tableChange returns the last change of the table at the broker.
func (c *testCluster) tableChange(ctx context.Context) *cluster.TableChange {
	c.t.Helper()
	v, err := c.engines[0].Get(ctx, cluster.BucketCrawl, cluster.TableKey)
	must(c.t, err)
	change, _, err := cluster.DecodeTableChange(v.Data)
	must(c.t, err)
	return change
}

// fetchedAll waits until the marks of all nodes together have n pages.
func (c *testCluster) fetchedAll(ctx context.Context, n int64) bool {
	for ctx.Err() == nil {
		sum := int64(0)
		for node := range c.options {
			v, err := c.engines[0].Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
			var m cluster.Mark
			if err == nil && json.Unmarshal(v.Data, &m) == nil {
				sum += m.Pages
			}
		}
		if sum >= n {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

// settled waits until the marks of all nodes have a table.
func (c *testCluster) settled(ctx context.Context, moves int) bool {
	for ctx.Err() == nil {
		n := 0
		for node := range c.options {
			v, err := c.engines[0].Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
			if err == nil && cluster.MarkMoves(v.Data) >= moves {
				n++
			}
		}
		if n == len(c.options) {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

// half returns every second slot of a node, for another.
func half(t *cluster.Table, from, to int) map[int]int {
	slots := map[int]int{}
	n := 0
	for slot := range cluster.Slots {
		if t.OwnerOf(slot) == from {
			if n++; n%2 == 0 {
				slots[slot] = to
			}
		}
	}
	return slots
}

// halfGiven returns the table of owners, and one by which a node gives half its slots to another.
func (c *testCluster) halfGiven(from, to int) (before, next *cluster.Table) {
	c.t.Helper()
	before = c.options[0].Cluster.Table
	next, err := before.Give(half(before, from, to))
	must(c.t, err)
	return before, next
}

// both returns the slots of two gifts.
func both(a, b map[int]int) map[int]int {
	maps.Copy(a, b)
	return a
}

// TestGiveWhileRunning: while three nodes crawl, half the slots of two of them move to the third one in one change. All
// continue, each URL of the web is fetched once, and the audits balance.
func TestGiveWhileRunning(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 30, 60, 1200)
		c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond},
			func(_ int, o *Options) { siftsSlowly(o, 100*time.Millisecond) })
		defer c.close()
		before := c.options[0].Cluster.Table
		next, err := before.Give(both(half(before, 0, 1), half(before, 2, 1)))
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 1*time.Hour)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if !c.fetchedAll(ctx, 200) {
				t.Error("no 200 requests")
				return
			}
			c.change(ctx, cluster.ChangeGive, before, next, 0)
			if !c.settled(ctx, 1) {
				t.Error("the nodes have not taken the table")
			}
		}()
		results := c.run(t.Context())
		<-done
		c.checkTurned(results, next)
		c.checkLoads(true)
	})
}

// checkTurned checks the end of a crawl whose slots have moved, with the last table of owners.
func (c *testCluster) checkTurned(results []*Result, table *cluster.Table) {
	c.t.Helper()
	c.setTable(table)
	c.check(results)
	for i := range c.options {
		checkDeep(c.t, &c.options[i])
	}
	if c.conserved() == 0 {
		c.t.Error("no URL has moved")
	}
}

// setTable gives the nodes, which have ended, the last table of owners.
func (c *testCluster) setTable(table *cluster.Table) {
	for i := range c.options {
		of := *c.options[i].Cluster
		of.Table = table
		c.options[i].Cluster = &of
	}
}

// conserved compares what the nodes have given with what they have got.
func (c *testCluster) conserved() (given int64) {
	c.t.Helper()
	var gave, got cluster.MovedSums
	var moved weburl.Sum
	for i := range c.options {
		_, m, err := lastManifest(c.options[i].Disk.FS, c.options[i].Disk.Dirs)
		must(c.t, err)
		a := &m.Accounts
		gave.Add(&a.Given)
		got.Add(&a.Got)
		moved.Merge(a.Moved)
		c.t.Logf("node %d: given %d known, %d waiting; got %d, %d; moved %d; pages %d", i, a.Given.Known.N,
			a.Given.Waiting.N, a.Got.Known.N, a.Got.Waiting.N, a.Moved.N, a.Counters[state.CountPages])
	}
	if gave != got || moved != (weburl.Sum{}) {
		c.t.Errorf("given %d known, %d waiting; got %d, %d; %d moved", gave.Known.N, gave.Waiting.N, got.Known.N,
			got.Waiting.N, moved.N)
	}
	return max(gave.Known.N, gave.Waiting.N) // hosts of divided PLDs move without their keys
}

// TestGrow: a crawl that began as a cluster of one node grows to three while it runs: each new node gets a third of the
// slots from each older one. All together fetch each URL once.
func TestGrow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 30, 60, 999)
		c := newCluster(t, web, 1, mem.Faults{Delay: 10 * time.Millisecond}, nil)
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		table := c.options[0].Cluster.Table
		results := make([]*Result, 3)
		errs := make([]error, 3)
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
		next := func(kind cluster.ChangeKind, giver int, make func(*cluster.Table) (*cluster.Table, error)) {
			t.Helper()
			after, err := make(table)
			must(t, err)
			c.change(ctx, kind, table, after, giver)
			if table = after; !c.settled(ctx, after.Moves()) {
				t.Errorf("%s: the nodes have not taken the table", kind)
			}
		}
		run(0)
		if !c.fetchedAll(ctx, 100) {
			t.Fatal("no 100 pages")
		}
		for node := 1; node < 3; node++ {
			next(cluster.ChangeGrow, 0, (*cluster.Table).Grow)
			o := simOptions(t, web, memfs.New(*seedFlag+uint64(node)))
			e := c.net.Transport(node)
			c.engines = append(c.engines, e)
			of := *c.options[0].Cluster
			of.Node, of.Table, of.Transport = node, table, e
			o.Cluster = &of
			c.options = append(c.options, o)
			run(node)
			next(cluster.ChangeGive, 0, func(b *cluster.Table) (*cluster.Table, error) {
				to := map[int]int{}
				for from := range node {
					to = both(to, half(b, from, node))
				}
				return b.Give(to)
			})
		}
		wg.Wait()
		for node, err := range errs {
			if err != nil {
				t.Fatalf("node %d: %v", node, err)
			}
		}
		c.checkTurned(results, table)
	})
}

// siftsSlowly makes a giver take a while to look through its queues.
func siftsSlowly(o *Options, wait time.Duration) {
	o.tests.siftLot = 3
	o.tests.hook = func(place string) {
		if place == "sift" {
			time.Sleep(wait)
		}
	}
}

// coordinator changes the table of a cluster whose nodes and broker fail. It is what the operator's command does.
type coordinator struct {
	c *testCluster
	e *mem.Transport
}

// apply makes a change and waits until the marks of all nodes have it. The broker may lose it before a node has it.
func (o *coordinator) apply(ctx context.Context, kind cluster.ChangeKind, before, next *cluster.Table, giver int) bool {
	data, err := cluster.NewTableChange(kind, before, next, giver, fmt.Sprint(next.Moves())).Encode()
	must(o.c.t, err)
	for account.Sleep(ctx, time.Second) {
		have := 0
		for node := range o.c.options {
			if v, err := o.e.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node)); err == nil &&
				cluster.MarkMoves(v.Data) >= next.Moves() {
				have++
			}
		}
		if have == len(o.c.options) {
			return true
		}
		v, err := o.e.Get(ctx, cluster.BucketCrawl, cluster.TableKey)
		var c *cluster.TableChange
		if err == nil {
			c, _, err = cluster.DecodeTableChange(v.Data)
		}
		if have == 0 && (errors.Is(err, cluster.ErrNotFound) || err == nil && c.Moves < next.Moves()) {
			_, _ = o.e.Put(ctx, cluster.BucketCrawl, cluster.TableKey, data) // again, if the broker is away
		}
	}
	return false
}

// giveOften moves slots there and back, some time after each other. It returns the last table.
func (c *testCluster) giveOften(ctx context.Context, table *cluster.Table, kind *giveKind,
	rng *rand.Rand) *cluster.Table {
	e := c.net.Transport(0)
	defer e.Close()
	op, change := &coordinator{c, e}, kind.next
	if change == nil {
		change = thereAndBack
	}
	for i, wait := range kind.waits(rng) {
		next := change(c, table, rng, i)
		if next == nil {
			continue
		}
		account.Sleep(ctx, wait)
		if !op.apply(ctx, cluster.ChangeGive, table, next, 0) {
			break
		}
		table = next
	}
	return table
}

// thereAndBack moves half the slots of nodes there and back.
func thereAndBack(c *testCluster, table *cluster.Table, _ *rand.Rand, i int) *cluster.Table {
	to := map[int]int{}
	for _, gift := range [][][2]int{{{0, 1}}, {{1, 0}}, {{0, 2}, {1, 2}}, {{2, 0}, {2, 1}}, {{0, 2}, {1, 3}}}[i] {
		if max(gift[0], gift[1]) < len(c.options) {
			to = both(to, half(table, gift[0], gift[1]))
		}
	}
	if len(to) == 0 {
		return nil
	}
	next, err := table.Give(to)
	must(c.t, err)
	return next
}

// giveCuts is a crawl whose slots move, there and back, while nodes are cut off.
func giveCuts(t *testing.T, seed uint64, kind *giveKind, kills *int) (doubled int, given int64) {
	chaotic, rng := seed%2 == 0, rand.New(rand.NewPCG(seed, 0x67697665))
	web := cutWeb(t, seed, func(o *simweb.Options) {
		if o.Pages, o.LogRequests = 300, max(1, kind.requests); kind.web != nil {
			kind.web(o)
		}
	})
	nodes := 2 + int(seed%3)
	faults := mem.Faults{Delay: 100 * time.Millisecond}
	if chaotic {
		faults = mem.Faults{Delay: 100 * time.Millisecond, Lose: 0.05, Double: 0.1, NoAck: 0.05}
	}
	c := newCluster(t, web, nodes, faults, func(node int, o *Options) {
		small(o)
		o.Drum.BucketBytes, o.Output.WARCFileBytes = 4<<10, 15_000
		siftsSlowly(o, time.Duration(seed%5)*200*time.Millisecond)
		if kind.change != nil {
			kind.change(o)
		}
	})
	defer c.close()
	c.stop = kind.stop
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	if chaotic {
		ended.Go(func() { c.net.Chaos(ctx, mem.Chaos{Nodes: nodes, Every: 20 * time.Second, Away: 15 * time.Second}) })
	}
	table, changes := c.options[0].Cluster.Table, rand.New(rand.NewPCG(rng.Uint64(), 0))
	ended.Go(func() { table = c.giveOften(ctx, table, kind, changes) })
	check := func() {}
	if kind.during != nil {
		during := rand.New(rand.NewPCG(seed, 1))
		ended.Go(func() { check = kind.during(ctx, c, during) })
	}
	how, cuts := atRandom(rng, 4), new(cutTimes)
	c.lives(cuts.noted(how), kills)
	stop()
	ended.Wait()
	c.setTable(table)
	if kind.check != nil {
		doubled = kind.check(c, cuts)
	} else {
		doubled = c.checkCuts()
	}
	check()
	given = c.conserved()
	if t.Logf("seed %d: %d changes", seed, table.Moves()); table.Moves() == 0 {
		t.Errorf("seed %d: the table has not changed", seed)
	}
	return doubled, given
}

// TestGiveCuts: nodes are killed, or lose their power, at random operations on their disks, while slots move, there and
// back, and the broker fails. All nodes together fetch each URL nevertheless, and count it once.
func TestGiveCuts(t *testing.T) {
	t.Parallel()
	giveKindCuts(t, new(giveKind), clusterSeeds())
}

// startMortal starts three nodes. kill ends the last one; end waits until the others are done.
func (c *testCluster) startMortal(ctx context.Context) (kill, end func()) {
	alive, kill := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = c.start(alive, 2, c.options[2]) })
	for node := range 2 {
		wg.Go(func() {
			if res, err := c.start(ctx, node, c.options[node]); err != nil || res.Stop != StopDone {
				c.t.Errorf("node %d: %v %+v", node, err, res)
			}
		})
	}
	return kill, wg.Wait
}

// TestForget: a node stops for good. The others forget it while they run, begin with its slots, and end without it.
// When it comes back, it ends.
func TestForget(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 30, 60, 1200)
		c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
			o.Cluster.LeaseTTL = time.Minute
		})
		defer c.close()
		before := c.options[0].Cluster.Table
		next, err := before.Depart(2)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		kill, end := c.startMortal(ctx)
		if !c.fetchedAll(ctx, 200) {
			t.Fatal("no 200 pages")
		}
		kill()
		c.change(ctx, cluster.ChangeForget, before, next, 2)
		for node := range 2 {
			c.has(ctx, node, 1)
		}
		last, err := next.Give(half(next, 0, 1)) // slots still move between the others
		must(t, err)
		c.change(ctx, cluster.ChangeGive, next, last, 0)
		next = last
		end()
		for node := range 2 {
			o := &c.options[node]
			o.Cluster.Table = next
			checkDeep(t, o)
			_, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
			must(t, err)
			if m.Frozen.Slots != state.SlotsOf(next, node) {
				t.Errorf("node %d does not own its slots", node)
			}
		}
		again := c.net.Transport(2)
		defer again.Close()
		of := *c.options[2].Cluster
		of.Transport = again
		c.options[2].Cluster = &of
		if res, err := c.start(ctx, 2, c.options[2]); err != nil || res.Stop != StopLeft {
			t.Errorf("the lost node came back: %v %+v", err, res)
		}
	})
}

// TestMoveAfterGive: slots move while two nodes run, and both stop at once. Then they move while the nodes are stopped,
// by cluster move. The nodes continue, and slots move while they run again: each URL is fetched once.
func TestMoveAfterGive(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 30, 60, 1200)
		c, fs := movable(t, web, 2, nil)
		defer c.close()
		table := c.options[0].Cluster.Table
		give := func(from, to int, stop bool) {
			t.Helper()
			next, err := table.Give(half(table, from, to))
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			e := c.net.Transport(0)
			defer e.Close()
			var done sync.WaitGroup
			done.Go(func() {
				c.fetchedAll(ctx, 150)
				if !(&coordinator{c, e}).apply(ctx, cluster.ChangeGive, table, next, from) {
					t.Error("the nodes have not taken the table")
				}
				if stop {
					cancel()
				}
			})
			for node, r := range c.run(ctx) {
				if stop == (r.Stop == StopDone) {
					t.Errorf("node %d: %s", node, r.Stop)
				}
			}
			done.Wait()
			table = next
		}
		give(0, 1, true)
		f := cluster.File{Crawl: "000102030405060708090a0b0c0d0e0f", Secret: weburl.Secret{1, 2, 3}, Table: table}
		data, err := f.Encode()
		must(t, err)
		must(t, disk.WriteFileAtomic(fs, clusterFile, data))
		c.follow(fs)
		c.reopen()
		account.Sleep(t.Context(), c.options[0].Network.KeepAlive+time.Second)
		rep, err := slotmove.Run(c.moving(fs, 0, cluster.Slots/2, 1, 0))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", rep.Nodes)
		c.follow(fs)
		table = c.options[0].Cluster.Table
		give(1, 0, false)
		c.follow(fs)
		c.setTable(table)
		checkFetched(t, web, &c.options[0])
		for i := range c.options {
			checkDeep(t, &c.options[i])
		}
		c.conserved()
	})
}

// TestGiveRefused: a node with settings of the operator does not give its slots. If it is the first giver, the change
// says why, nothing moves, and the crawl continues; without the settings, the next change is carried out. If another
// one has given its slots, the change waits until the settings are gone, and the node's status says so.
func TestGiveRefused(t *testing.T) {
	t.Parallel()
	for victim := range 2 {
		inBubble(t, func(t *testing.T) { giveRefused(t, victim) })
	}
}

func giveRefused(t *testing.T, victim int) {
	web := sizedWeb(t, 30, 60, 1200)
	control := new(Control)
	c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(node int, o *Options) {
		if node == victim {
			o.Observe.Control = control
		}
	})
	defer c.close()
	before := c.options[0].Cluster.Table
	next, err := before.Give(both(half(before, 0, 2), half(before, 1, 2)))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	set := func(delay float64) {
		t.Helper()
		if _, err := control.Make(ctx, hostDelay(delay)); err != nil {
			t.Error(err)
		}
	}
	why := func() string { // why the victim does not give
		t.Helper()
		if victim == 0 {
			return c.tableChange(ctx).Refused
		}
		v, err := c.engines[2].Get(ctx, cluster.BucketCrawl, cluster.StatusKey(victim))
		must(t, err)
		st, err := cluster.DecodeStatus(v.Key, v.Data, 3)
		must(t, err)
		return st.GiveWhy
	}
	var done sync.WaitGroup
	done.Go(func() {
		c.fetchedAll(ctx, 150)
		set(2)
		c.change(ctx, cluster.ChangeGive, before, next, 0)
		if victim > 0 && c.has(ctx, 0, 1) { // it may have refused before it knew that node 0 gives
			change := c.tableChange(ctx)
			change.Refused = "late"
			data, err := change.Encode()
			must(t, err)
			_, err = c.engines[2].Put(ctx, cluster.BucketCrawl, cluster.TableKey, data)
			must(t, err)
		}
		for why() == "" && account.Sleep(ctx, time.Second) {
		}
		if text := why(); !strings.Contains(text, "host delays") ||
			strings.HasPrefix(text, fmt.Sprintf("node %d refuses", victim)) != (victim == 0) {
			t.Errorf("node %d does not give its slots: %q", victim, text)
		}
		set(0)
		if victim == 0 {
			c.change(ctx, cluster.ChangeGive, before, next, 0)
		}
		if !c.settled(ctx, 1) {
			t.Error("the nodes have not taken the table")
		}
	})
	results := c.run(t.Context())
	done.Wait()
	c.checkTurned(results, next)
}
