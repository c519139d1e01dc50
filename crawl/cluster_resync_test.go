package crawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// file returns the file of the cluster. Its number of the crawl is that of the nodes.
func (c *testCluster) file() *cluster.File {
	return &cluster.File{Crawl: strings.Repeat("0", 32), Secret: weburl.Secret{1, 2, 3},
		Table: c.options[0].Cluster.Table}
}

// setBackCluster runs three nodes, copies the directories of node back at some time, and stops all of them
// later, once that node has fetched more: which node has its turn at a network first is not determined.
func setBackCluster(t *testing.T, seed uint64, back int, change func(o *Options)) *testCluster {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0x6261636b))
	web := sizedWeb(t, 30, 60, 1500)
	c := newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(_ int, o *Options) {
		o.Disk.CheckpointEvery, o.Cluster.LeaseTTL = 3*time.Second, lease.LeastTTL
		change(o)
	})
	for node := range c.options {
		c.options[node].Cluster.Crawl = c.file().Key()
	}
	const least = 20 // URLs of node back, before the copy and after it
	var copied atomic.Pointer[memfs.FS]
	var before atomic.Int64 // URLs it had fetched then
	fs, after := c.options[back].Disk.FS.(*memfs.FS), time.Duration(7+rng.IntN(10))*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if account.Sleep(ctx, after) {
			c.fetched(ctx, back, least-c.requested(back), func() {
				before.Store(int64(c.requested(back)))
				copied.Store(fs.Fork(seed).Crash())
			})
		}
	}()
	for runs := 0; copied.Load() == nil || c.requested(back) < int(before.Load())+least; runs++ {
		if runs == 20 {
			t.Fatalf("node %d has fetched %d URLs, %d of them before the copy", back, c.requested(back), before.Load())
		}
		c.together(time.Duration(20+rng.IntN(20))*time.Second, func(node int, o *Options) {
			if node == (back+1)%3 { // messages of the life that is lost stay in its stream
				o.Limits.MaxTime -= 6 * time.Second
			}
		}, func(node int, res *Result, err error) {
			if err != nil || res.Stop != StopTime {
				t.Fatalf("node %d: %v, %+v", node, err, res)
			}
		})
	}
	c.options[back].Disk.FS = copied.Load()
	return c
}

// audits returns the audits of all nodes, in order.
func (c *testCluster) audits() (nodes []audit.Node) {
	c.t.Helper()
	for node := range c.options {
		nodes = append(nodes, c.auditNode(c.options[node].Disk.FS, node))
	}
	return nodes
}

// resync resyncs one node.
func (c *testCluster) resync(node, back int, others ...audit.Node) (*repair.Report, error) {
	o := &c.options[node]
	return repair.Resync(repair.ResyncOptions{Back: back, File: c.file(),
		Options: repair.Options{Options: audit.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs, RAMBytes: 1 << 20},
			Others: others}})
}

// resyncAll resyncs all nodes after one was set back. It returns what was lost.
func (c *testCluster) resyncAll(back int) (lost cluster.Totals) {
	c.t.Helper()
	rep, err := c.resync(back, back, c.audits()...)
	if err != nil {
		c.t.Fatalf("node %d: %v", back, err)
	}
	c.t.Log(strings.Join(rep.Actions, "; "))
	after := c.auditNode(c.options[back].Disk.FS, back)
	for node := range c.options {
		if node != back {
			if _, err := c.resync(node, back, after); err != nil {
				c.t.Fatalf("node %d: %v", node, err)
			}
		}
		checkDeep(c.t, &c.options[node])
	}
	all, err := audit.CompareNodes(c.audits())
	if err != nil || !all.Balanced() || all.Lost.Links.N != rep.Links {
		c.t.Fatalf("after the resync: %v, %+v", err, all)
	}
	return all.Lost
}

// TestClusterResync: a node that was set back continues after a resync, with a broker that has marks and
// messages of its lost life. The cluster ends. Only URLs of the node that was set back are fetched again, and
// only what led from the links that were lost is missing. Each way to get the resync wrong is refused, and
// changes nothing.
func TestClusterResync(t *testing.T) {
	notShort(t)
	t.Parallel()
	var again, missing, lostLinks int64
	var kills int
	for seed := *seedFlag; seed < *seedFlag+longOr[uint64](40, 3); seed++ {
		inBubble(t, func(t *testing.T) {
			back := int(seed % 3)
			c := setBackCluster(t, seed, back, func(*Options) {})
			defer c.close()
			c.refuseResync(back)
			old := c.options[back].Disk.FS.(*memfs.FS).Fork(seed)
			lost, times := c.resyncAll(back), 2
			c.refusedResync("a second time", back, "it needs no resync",
				func() error { _, err := c.resync(back, back, c.audits()...); return err })
			switch seed % 3 {
			case 0: // it is set back again, to the copy before the first resync
				c.together(time.Minute, func(int, *Options) {}, func(node int, _ *Result, err error) {
					if err != nil {
						t.Fatalf("node %d: %v", node, err)
					}
				})
				c.options[back].Disk.FS = old
				lost, times = c.resyncAll(back), 3
				if life := c.auditNode(c.options[back].Disk.FS, back).Cluster.Incarnation; life != 2 {
					t.Errorf("life %d after two resyncs", life)
				}
				c.finish(back, 0)
			case 1: // nodes are killed
				times = 0
				c.lives(atRandom(rand.New(rand.NewPCG(seed, 2)), 3), &kills)
			default: // the others start first, and see the mark of the lost incarnation
				c.finish(back, time.Minute)
			}
			a, m := c.checkResynced(back, times, lost)
			again, missing, lostLinks = again+a, missing+m, lostLinks+lost.Links.N
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	t.Logf("%d URLs were fetched again, %d links were lost, %d URLs were not found again; %d kills", again, lostLinks,
		missing, kills)
	if again == 0 || lostLinks == 0 {
		t.Error("nothing was fetched again or lost: the test shows nothing")
	}
}

// finish runs all nodes to the end of the crawl; node late begins some time after the others.
func (c *testCluster) finish(late int, after time.Duration) {
	c.t.Helper()
	var wg sync.WaitGroup
	for node := range c.options {
		wg.Go(func() {
			if node == late {
				time.Sleep(after)
			}
			if res, err := Run(c.t.Context(), c.options[node]); err != nil || res.Stop != StopDone {
				c.t.Errorf("node %d: %v, %+v", node, err, res)
			}
		})
	}
	wg.Wait()
}

// refusedResync requires that a resync is refused.
func (c *testCluster) refusedResync(what string, node int, says string, resync func() error) {
	c.t.Helper()
	before, err := json.Marshal(c.auditNode(c.options[node].Disk.FS, node))
	if err != nil {
		c.t.Fatal(err)
	}
	if err := resync(); !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), says) {
		c.t.Errorf("%s: %v, want %q", what, err, says)
	}
	if after, err := json.Marshal(c.auditNode(c.options[node].Disk.FS, node)); err != nil ||
		string(after) != string(before) {
		c.t.Errorf("%s has changed node %d", what, node)
	}
}

// refuseResync tries what must be refused before node back is resynced.
func (c *testCluster) refuseResync(back int) {
	c.t.Helper()
	x, y := (back+1)%3, (back+2)%3
	all := c.audits()
	try := func(what string, node, of int, says string, others ...audit.Node) {
		c.t.Helper()
		c.refusedResync(what, node, says, func() error { _, err := c.resync(node, of, others...); return err })
	}
	try("without an audit", back, back, fmt.Sprintf("the audit of node %d is needed", min(x, y)))
	try("without the audit of one node", back, back, fmt.Sprintf("the audit of node %d is needed", y), all[x])
	try("an audit twice", back, back, "are both node", all[x], all[x], all[y])
	try("another node", x, x, "resync", all...)
	try("another node first", x, back, "resync node", all...)
	try("another node without an audit", x, back, "is needed", all[y])
	try("no such node", back, 3, "there is no node 3", all...)
	wrong := *all[x].Cluster
	wrong.Secret++
	other := all[x]
	other.Cluster = &wrong
	try("an audit of another crawl", back, back, "belong to different crawls", other, all[y])
	file := c.file()
	moved, err := file.Table.Move(0, 4095, -1, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	c.refusedResync("another file", back, "tables of owners", func() error {
		o := &c.options[back]
		_, err := repair.Resync(repair.ResyncOptions{Back: back,
			File: &cluster.File{Crawl: file.Crawl, Secret: file.Secret, Table: moved},
			Options: repair.Options{Options: audit.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs, RAMBytes: 1 << 20},
				Others: all}})
		return err
	})
}

// checkResynced checks the end of a crawl after a resync. URLs that node back has found or fetched were fetched at most
// so many times, others once; 0: any URL may have been fetched again. It returns how many URLs were fetched again,
// and how many were not found again.
func (c *testCluster) checkResynced(back, times int, lost cluster.Totals) (again, missing int64) {
	c.t.Helper()
	h, table := weburl.NewHasher(c.options[0].Cluster.Secret), c.options[0].Cluster.Table
	plds, divided := map[string]int{}, map[string]bool{}
	want := c.web.Expected("drumbeat")
	for node := range c.options {
		if _, err := c.web.ExpectedFrom("drumbeat", c.web.Seeds(), func(host, pld string) bool {
			plds[host] = table.Owner(h.PLDKey([]byte(pld)))
			divided[host] = table.PartsOf([]byte(pld)) != nil // its visitor is one of several
			return true
		}); err != nil {
			c.t.Fatal(err)
		}
		checkDeep(c.t, &c.options[node])
	}
	snap := c.web.Log().Snapshot()
	for url, n := range snap.Fetches {
		fetched, _, _ := want.Has(url)
		host := weburl.Split([]byte(url)).Host
		owner := plds[string(host)]
		switch {
		case !fetched:
			c.t.Errorf("fetched, but must not be: %s", url)
		case times > 0 && (n > times || n > 1 && owner != back && !divided[string(host)]):
			c.t.Errorf("fetched %d times, by node %d: %s", n, owner, url)
		case n > 1:
			again++
		}
	}
	for url := range want.FetchedURLs() {
		if snap.Fetches[url] == 0 {
			missing++
		}
	}
	if missing > 0 && lost.Links.N == 0 {
		c.t.Errorf("%d URLs were not fetched, though no link was lost", missing)
	}
	all, err := audit.CompareNodes(c.audits())
	if err != nil || !all.Balanced() || all.Above.Records() != 0 || all.Lost != lost {
		c.t.Errorf("audit of all nodes: %v, %+v", err, all)
	}
	c.t.Logf("%d URLs fetched again, %d links lost, %d URLs not found again", again, lost.Links.N, missing)
	return again, missing
}

// TestClusterResyncDamagedAudits: an audit with changed bytes is refused, or taken for another one. Nothing
// panics, and a dry run changes nothing.
func TestClusterResyncDamagedAudits(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(*seedFlag, 2))
		c := setBackCluster(t, *seedFlag, 1, func(*Options) {})
		defer c.close()
		all, whole := c.audits(), c.auditJSON(c.options[0].Disk.FS, 0)
		before := c.auditJSON(c.options[1].Disk.FS, 1)
		results := map[string]int{}
		for range longOr(1000, 60) {
			data := bytes.Clone(whole)
			for range 1 + rng.IntN(3) {
				at := rng.IntN(len(data))
				if digits := "0123456789"; strings.IndexByte(digits, data[at]) >= 0 { // more of them are still JSON
					data[at] = digits[rng.IntN(10)]
				} else if rng.IntN(4) == 0 {
					data[at] = byte(rng.IntN(256))
				}
			}
			n, err := audit.ReadNode("0.json", bytes.NewReader(data))
			if err != nil {
				results["no audit"]++
				continue
			}
			o := &c.options[1]
			_, err = repair.Resync(repair.ResyncOptions{Back: 1, File: c.file(),
				Options: repair.Options{DryRun: true, Others: []audit.Node{n, all[2]},
					Options: audit.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs, RAMBytes: 1 << 20}}})
			switch {
			case err == nil:
				results["taken"]++
			case errors.Is(err, state.ErrIncompatible), errors.Is(err, cluster.ErrMessage):
				results["refused"]++
			default:
				t.Errorf("%v\n%s", err, data)
			}
		}
		if after := c.auditJSON(c.options[1].Disk.FS, 1); !bytes.Equal(after, before) {
			t.Error("a dry run has changed the node")
		}
		t.Log(results)
		if results["no audit"] == 0 || results["refused"] == 0 {
			t.Error("the test shows nothing")
		}
	})
}

// TestClusterResyncCuts: a resync that is cut off at any operation ends when it is run again.
func TestClusterResyncCuts(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(*seedFlag, 1))
		c := setBackCluster(t, *seedFlag, 1, func(*Options) {})
		defer c.close()
		all := c.audits()
		whole := c.options[1].Disk.FS.(*memfs.FS)
		cuts := 0
		for after, done := 1, false; !done; after += 1 + rng.IntN(longOr(3, 40)) {
			fs := whole.Fork(uint64(after))
			c.options[1].Disk.FS = fs
			fs.CrashAfter(after)
			_, err := c.resync(1, 1, all...)
			if done = err == nil; done {
				break
			}
			cuts++
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("cut after %d operations: %v", after, err)
			}
			if rng.IntN(2) == 0 {
				fs = fs.Crash()
			} else {
				fs = fs.Kill()
			}
			c.options[1].Disk.FS = fs
			if _, err := c.resync(1, 1, all...); err != nil && !strings.Contains(err.Error(), "it needs no resync") {
				t.Fatalf("cut after %d operations, run again: %v", after, err)
			}
			if n := c.auditNode(c.options[1].Disk.FS, 1); n.Cluster.Incarnation != 1 {
				t.Fatalf("cut after %d operations: life %d", after, n.Cluster.Incarnation)
			}
			checkDeep(t, &c.options[1])
		}
		t.Logf("%d cuts", cuts)
	})
}
