package crawl

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state/audit"
)

// TestForgetCuts: a node is lost for good before it has taken any link, and the others forget it. While they pass on
// the links that wait for it, they are killed, or lose their power, and the broker fails. Nevertheless they fetch each
// URL, and no link is dropped, nor a URL of a divided PLD that waits for it.
func TestForgetCuts(t *testing.T) {
	t.Parallel()
	var kills int
	var passed int64
	for seed := *seedFlag; seed < *seedFlag+clusterSeeds(); seed++ {
		inBubble(t, func(t *testing.T) { passed += forgetCuts(t, seed, seed%2 == 0, seed%4 < 2, &kills) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d cuts, %d records were passed on", kills, passed); passed == 0 || kills == 0 {
		t.Error("nothing was passed on, or no node was cut off")
	}
}

// forgetCuts crawls with three nodes, and never starts one of them. It returns how many records the others pass on.
func forgetCuts(t *testing.T, seed uint64, chaotic, divided bool, kills *int) (passed int64) {
	web := cutWeb(t, seed, func(o *simweb.Options) { o.Pages = 300 })
	faults := mem.Faults{Delay: 100 * time.Millisecond}
	if chaotic {
		faults = mem.Faults{Delay: 100 * time.Millisecond, Lose: 0.05, Double: 0.1, NoAck: 0.05}
	}
	how, hook := whilePassingOn(t, rand.New(rand.NewPCG(seed, 0x666f7267)))
	c := newCluster(t, web, 3, faults, func(node int, o *Options) {
		small(o)
		o.Drum.BucketBytes, o.Output.WARCFileBytes, o.Cluster.LeaseTTL = 4<<10, 15_000, lease.LeastTTL
		o.tests.hook = func(place string) { hook(node, place) }
	})
	defer c.close()
	c.options = c.options[:2]
	ctx, stop := context.WithCancel(t.Context())
	before := c.options[0].Cluster.Table
	if divided {
		for _, pld := range c.largestPLDs()[:4] {
			if owner := before.OwnerOf(c.slotOf(pld)); owner != 2 {
				before = c.divide(before, pld, owner, 2)
			}
		}
		c.setTable(before)
	}
	next, err := before.Depart(2)
	must(t, err)
	var ended sync.WaitGroup
	ended.Go(func() {
		e := c.net.Transport(0)
		defer e.Close()
		found, enough := context.WithTimeout(ctx, time.Minute) // all seeds may be those of the lost node
		c.fetchedAll(found, 40)
		enough()
		failing, end := context.WithCancel(ctx)
		defer end()
		if chaotic {
			ended.Go(func() {
				c.net.Chaos(failing, mem.Chaos{Nodes: 2, Every: 20 * time.Second, Away: 15 * time.Second})
			})
		}
		(&coordinator{c, e}).apply(ctx, cluster.ChangeForget, before, next, 2)
		account.Sleep(ctx, time.Minute) // the broker must last for the leases
	})
	c.lives(how, kills)
	stop()
	ended.Wait()
	c.setTable(next)
	for i := range c.options {
		s := &c.auditNode(c.options[i].Disk.FS, i).Cluster.Pair(2).Sent
		if !s.Abandoned || s.Dropped != (cluster.Totals{}) || s.PassedOn != s.Out {
			t.Errorf("node %d has passed on %+v of %+v, and dropped %+v", i, s.PassedOn, s.Out, s.Dropped)
		}
		passed += s.PassedOn.Records()
	}
	c.checkCuts()
	return passed
}

// whilePassingOn cuts nodes off before they pass on a message, or soon after it, and in the checkpoints between two of
// them. After each cut the audit of the node balances. The hook belongs to the options of a node.
func whilePassingOn(t *testing.T, rng *rand.Rand) (how cutting, hook func(node int, place string)) {
	var mu sync.Mutex
	random := func(n int) int { mu.Lock(); defer mu.Unlock(); return rng.IntN(n) }
	var disks [2]atomic.Pointer[memfs.FS]
	var cuts [2]atomic.Int64
	hook = func(node int, place string) {
		if place != "passon" {
			return
		}
		time.Sleep(time.Duration(random(5)) * time.Second)
		if n := cuts[node].Add(1); n == 1 || n < 10 && random(3) == 0 {
			disks[node].Load().CrashAfter(1 + random(40))
		}
	}
	return cutting{
		arm: func(node, life int, fs *memfs.FS, _ func()) {
			disks[node].Store(fs)
			if life == 0 {
				return
			}
			rep, err := audit.Balance(audit.Options{FS: fs, Dirs: []string{"d0", "d1"}})
			if err != nil || !rep.Balanced() {
				t.Errorf("node %d, life %d: %v, %+v", node, life, err, rep)
			}
		},
		power: func() bool { return random(2) == 0 },
		rest:  func() time.Duration { return time.Duration(random(30)) * time.Second },
	}, hook
}
