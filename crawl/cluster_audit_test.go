package crawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/explain"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// stoppedCluster runs three nodes on one file system, and stops them one after the other, so that records
// stand in outboxes: the first once each node has fetched URLs, each later one once it has fetched more.
// early is a copy of the files from the time when the first node had stopped.
func stoppedCluster(t *testing.T, change ...func(c *testCluster)) (c *testCluster, fs, early *memfs.FS) {
	t.Helper()
	web := sizedWeb(t, 30, 60, 4000)
	fs = memfs.New(*seedFlag)
	c = newCluster(t, web, 3, mem.Faults{Delay: 10 * time.Millisecond}, func(node int, o *Options) {
		o.Disk.FS, o.Disk.Dirs = fs, []string{fmt.Sprintf("n%d/a", node), fmt.Sprintf("n%d/b", node)}
		o.Disk.CheckpointEvery = 3 * time.Second
		o.Cluster.File, o.Cluster.LeaseTTL = "cluster.json", lease.LeastTTL
	})
	c.writeFile(fs)
	for _, f := range change {
		f(c)
	}
	var wg sync.WaitGroup
	var stops []context.CancelFunc
	for node := range c.options {
		ctx, stop := context.WithCancel(t.Context())
		stops = append(stops, stop)
		wg.Go(func() {
			if res, err := Run(ctx, c.options[node]); err != nil || res.Stop == StopDone {
				t.Errorf("node %d: %v, %+v", node, err, res)
			}
			if node == 0 {
				early = fs.Fork(*seedFlag)
			}
		})
	}
	time.Sleep(5 * time.Second)
	var before []int
	for node := range stops {
		before = append(before, c.requested(node))
	}
	for node, stop := range stops {
		time.Sleep(5 * time.Second)
		for _, of := range []int{0, 1, 2}[node:] {
			c.awaitRequests(of, before[of]+20)
			before[of] = c.requested(of)
		}
		time.Sleep(5 * time.Second)
		stop()
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return c, fs, early
}

// writeFile writes the file of the cluster, for explain.
func (c *testCluster) writeFile(fs disk.FS) {
	c.t.Helper()
	data, err := (&cluster.File{Crawl: strings.Repeat("0", 32), Secret: weburl.Secret{1, 2, 3},
		Table: c.options[0].Cluster.Table}).Encode()
	if err == nil {
		err = disk.WriteFileAtomic(fs, "cluster.json", data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// audit audits all nodes on a file system.
func (c *testCluster) audit(fs disk.FS, deep bool) (*audit.ClusterReport, error) {
	opt := audit.ClusterOptions{Options: audit.Options{FS: fs}, Deep: deep, Table: c.options[0].Cluster.Table}
	for i := range c.options {
		opt.Dirs = append(opt.Dirs, c.options[i].Disk.Dirs...)
	}
	slices.Reverse(opt.Dirs) // any order
	return audit.AuditDirs(opt)
}

// replace replaces the directories of a node by those on another file system.
func (c *testCluster) replace(node int, to, from *memfs.FS) {
	c.t.Helper()
	for _, dir := range c.options[node].Disk.Dirs {
		old, err := repair.FilesIn(to, dir, true)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, name := range old {
			if err := to.Remove(name); err != nil {
				c.t.Fatal(err)
			}
		}
		files, err := repair.FilesIn(from, dir, true)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, name := range files {
			data, err := disk.ReadFile(from, name)
			if err == nil {
				if at := strings.LastIndexByte(name, '/'); at > 0 {
					err = to.MkdirAll(name[:at])
				}
			}
			if err == nil {
				err = disk.WriteFileAtomic(to, name, data)
			}
			if err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// outboxFile returns a file of the outbox of a node for another one.
func (c *testCluster) outboxFile(fs disk.FS, from, to int) string {
	c.t.Helper()
	set, st := lastPart[cluster.OutboxState](c.t, fs, c.options[from].Disk.Dirs, state.OutboxName(to))
	for name, q := range st.Queues(state.OutboxName(to)) {
		if files := queue.Files(set, name, q); len(files) > 0 {
			return files[0]
		}
	}
	return ""
}

// fullOutbox returns two nodes, the first with a file in its outbox for the second.
func (c *testCluster) fullOutbox(fs disk.FS) (from, to int, file string) {
	c.t.Helper()
	for from := range c.options {
		for to := range c.options {
			if from != to {
				if file := c.outboxFile(fs, from, to); file != "" {
					return from, to, file
				}
			}
		}
	}
	c.t.Fatal("no outbox has a file")
	return 0, 0, ""
}

// auditSound: an audit of the stopped cluster, deep or not, finds it balanced.
func (c *testCluster) auditSound(fs *memfs.FS) {
	c.t.Helper()
	for _, deep := range []bool{false, true} {
		rep, err := c.audit(fs, deep)
		if err != nil || !rep.Balanced() || rep.Above.Links.N == 0 || rep.Taken.Links.N == 0 || rep.Pairs != 6 {
			c.t.Fatalf("deep %v: %v, %+v", deep, err, rep)
		}
		if deep && (rep.Deep.Own == 0 || rep.Deep.Keys == 0 || rep.Deep.Foreign+rep.Deep.Twice > 0) {
			c.t.Errorf("deep: %+v", rep.Deep)
		}
		c.t.Logf("%d links sent, %d taken, %d in outboxes; %+v", rep.Out.Links.N, rep.Taken.Links.N,
			rep.Above.Links.N, rep.Deep)
	}
}

// TestClusterAudit: nodes that stopped at different times balance, from their directories and from the JSON of their
// audits, and each kind of fault is found and named.
func TestClusterAudit(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, fs, early := stoppedCluster(t)
		defer c.close()
		c.auditSound(fs)
		c.auditFiles(fs, early)
		from, to, file := c.fullOutbox(fs)
		for _, f := range []struct {
			what    string
			hurt    func(fs *memfs.FS)
			deep    bool
			damaged bool
			back    int // the node, -1 for none
			says    []string
		}{
			{what: "a byte of an outbox", damaged: true, back: -1, says: []string{fmt.Sprintf("node %d (", from), file},
				hurt: func(fs *memfs.FS) { c.flip(fs, file) }},
			{what: "a byte of an outbox, deep", deep: true, damaged: true, back: -1,
				says: []string{fmt.Sprintf("node %d (", from), file}, hurt: func(fs *memfs.FS) { c.flip(fs, file) }},
			{what: "a file of an outbox is missing", damaged: true, back: -1,
				says: []string{fmt.Sprintf("node %d (", from), file}, hurt: func(fs *memfs.FS) {
					must(t, fs.Remove(file))
				}},
			{what: "a node set back", back: 1, says: []string{"node 1 was set back"},
				hurt: func(fs *memfs.FS) { c.replace(1, fs, early) }},
			{what: "a URL on two nodes", deep: true, back: -1,
				says: []string{"node 0 (", "node 1 (", "both have the key"},
				hurt: func(fs *memfs.FS) { c.copyKey(fs, 1, 0) }},
			{what: "a URL of another node", deep: true, back: -1, says: []string{"has a URL of node"}, hurt: c.moveURL},
			{what: "other totals", back: -2, says: []string{fmt.Sprint("node ", from), fmt.Sprint("node ", to)},
				hurt: func(fs *memfs.FS) {
					c.tamper(fs, to, func(m *state.Manifest) { m.Intake.Taken[from].Totals.Links.Lo++ })
				}},
		} {
			hurt := fs.Fork(1)
			f.hurt(hurt)
			rep, err := c.audit(hurt, f.deep)
			if err != nil {
				t.Errorf("%s: %v", f.what, err)
				continue
			}
			text := strings.Join(rep.Bad, "\n")
			for _, want := range f.says {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %q is not in %s", f.what, want, text)
				}
			}
			back := -1
			if rep.Back != nil {
				if back = rep.Back.Back; back < 0 {
					back = -2 // one of two nodes
				}
			}
			if rep.Balanced() || rep.Damaged != f.damaged || back != f.back {
				t.Errorf("%s: %+v", f.what, rep)
			}
		}
		hurt := fs.Fork(1)
		c.tamper(hurt, 2, func(m *state.Manifest) { m.Frozen.Table++ })
		if _, err := c.audit(hurt, false); !errors.Is(err, state.ErrIncompatible) ||
			!strings.Contains(err.Error(), "node 2 (") {
			t.Errorf("another table: %v", err)
		}
	})
}

// auditFiles compares the audits as JSON.
func (c *testCluster) auditFiles(fs, early *memfs.FS) {
	c.t.Helper()
	nodes := []audit.Node{c.auditNode(fs, 2), c.auditNode(fs, 0), c.auditNode(fs, 1)}
	rep, err := audit.CompareNodes(nodes)
	if err != nil || !rep.Balanced() || rep.Above.Links.N == 0 || len(rep.Missing) > 0 {
		c.t.Errorf("as JSON: %v, %+v", err, rep)
	}
	rep, err = audit.CompareNodes(nodes[:2])
	if err != nil || !rep.Balanced() || !slices.Equal(rep.Missing, []int{1}) || rep.Pairs != 2 {
		c.t.Errorf("without node 1: %v, %+v", err, rep)
	}
	nodes[2] = c.auditNode(early, 1)
	rep, err = audit.CompareNodes(nodes)
	if err != nil || rep.Back == nil || rep.Back.Back != 1 {
		c.t.Errorf("node 1 set back, as JSON: %v, %+v", err, rep)
	}
	if _, err = audit.CompareNodes(append(nodes, nodes[0])); !errors.Is(err, state.ErrIncompatible) {
		c.t.Errorf("a node twice: %v", err)
	}
}

// auditNode returns the audit of a node, by way of JSON.
func (c *testCluster) auditNode(fs disk.FS, number int) audit.Node {
	c.t.Helper()
	n, err := audit.ReadNode(fmt.Sprintf("%d.json", number), bytes.NewReader(c.auditJSON(fs, number)))
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// auditJSON returns the JSON of the audit of a node.
func (c *testCluster) auditJSON(fs disk.FS, number int) []byte {
	c.t.Helper()
	rep, err := audit.Balance(audit.Options{FS: fs, Dirs: c.options[number].Disk.Dirs})
	if err != nil {
		c.t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{"checkpoint": rep.Checkpoint, "balanced": rep.Balanced(),
		"cluster": rep.Cluster})
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

// flip changes a byte in the middle of a file.
func (c *testCluster) flip(fs disk.FS, name string) {
	c.t.Helper()
	data, err := disk.ReadFile(fs, name)
	if err == nil {
		data[max(0, len(data)-64)] ^= 1 // of the newest message: older ones may have been taken
		err = disk.WriteFileAtomic(fs, name, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// tamper changes the manifest of a node.
func (c *testCluster) tamper(fs disk.FS, node int, change func(m *state.Manifest)) {
	c.t.Helper()
	tamper(c.t, fs, &c.options[node], func(_ disk.Set, m *state.Manifest, _ *disk.Tails) error {
		change(m)
		return nil
	})
}

// copyKey copies a key of one node's URLseen to that of another.
func (c *testCluster) copyKey(fs disk.FS, from, to int) {
	c.t.Helper()
	set, st := lastPart[drum.State](c.t, fs, c.options[from].Disk.Dirs, state.NameURLSeen)
	var key drum.Key
	if _, err := drum.ScanState(set, state.NameURLSeen, st.Cache(), drum.Scan{Entry: func(k drum.Key, _ []byte) error {
		key = k
		return nil
	}}); err != nil || key == 0 {
		c.t.Fatal(err, key)
	}
	tamper(c.t, fs, &c.options[to], func(set disk.Set, m *state.Manifest, tails *disk.Tails) error {
		return addSeen(c.t.Context(), set, m, tails, key)
	})
}

// moveURL gives the oldest record of a place of node 0 a URL of another node.
func (c *testCluster) moveURL(fs *memfs.FS) {
	c.t.Helper()
	foreign := []byte(web404(c, 1))
	fault := func(data []byte, add func([]byte) error) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return err
		}
		rec.URL = foreign
		return add(rec.Append(nil))
	}
	before, err := audit.Run(fs, c.options[0].Disk.Dirs)
	if err != nil {
		c.t.Fatal(err)
	}
	for place, breaker := range breakers(fault) {
		if before.Rows[place].Files.N > 0 {
			tamper(c.t, fs, &c.options[0], breaker)
			return
		}
	}
	c.t.Fatal("node 0 has no URL in a place")
}

// TestClusterSetBack: a node that was set back to an older copy of its directories stops when it starts again, by its
// own mark or by that of another, and if the broker has lost all marks, by a message; the error names the node.
func TestClusterSetBack(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, fs, early := stoppedCluster(t)
		defer c.close()
		hurt := fs.Fork(2) // nodes 0 and 2 continue from one run to the next
		for _, lost := range []string{"no mark", "its own mark", "all marks"} {
			c.replace(1, hurt, early)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			switch lost {
			case "its own mark":
				must(t, c.engines[0].Delete(ctx, cluster.BucketCrawl, cluster.MarkKey(1), 0))
			case "all marks":
				c.net.Wipe()
			}
			var wg sync.WaitGroup
			errs := make([]error, 3)
			for node := range errs {
				o := c.options[node]
				o.Disk.FS = hurt
				wg.Go(func() {
					if _, errs[node] = Run(ctx, o); errs[node] != nil {
						cancel()
					}
				})
			}
			wg.Wait()
			cancel()
			var back *cluster.SetBackError
			if err := errors.Join(errs...); !errors.As(err, &back) || back.Back != 1 && back.Back != -1 ||
				!strings.Contains(err.Error(), "node 1") {
				t.Errorf("%s lost: %v", lost, err)
			}
			t.Logf("%s lost: %v", lost, errors.Join(errs...))
		}
	})
}

// compare compares the nodes' audits of what look returns for the file system of each.
func (c *testCluster) compare(look func(fs *memfs.FS) disk.FS) (*audit.ClusterReport, error) {
	var nodes []audit.Node
	for i := range c.options {
		rep, err := audit.Balance(audit.Options{FS: look(c.options[i].Disk.FS.(*memfs.FS)),
			Dirs: c.options[i].Disk.Dirs})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, audit.Node{Name: fmt.Sprint(i), Checkpoint: rep.Checkpoint, Balanced: rep.Balanced(),
			Cluster: rep.Cluster})
	}
	return audit.CompareNodes(nodes)
}

// TestClusterAuditAnyTime: if all nodes lose their power at one moment, whatever it is, what they have on
// disk balances, while the broker loses messages and doubles them.
func TestClusterAuditAnyTime(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(*seedFlag, 1))
		web := sizedWeb(t, 20, 40, 500)
		c := newCluster(t, web, 3, mem.Faults{Delay: 100 * time.Millisecond, Lose: 0.05, Double: 0.1, NoAck: 0.05},
			func(_ int, o *Options) {
				small(o)
				o.Disk.CheckpointEvery = 2 * time.Second
			})
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		var looks, waiting int
		ended.Go(func() {
			for account.Sleep(ctx, time.Duration(1+rng.IntN(longOr(500, 4000)))*time.Millisecond) {
				// No virtual time passes between the nodes, so no message arrives between the copies.
				rep, err := c.compare(func(fs *memfs.FS) disk.FS { return fs.Fork(rng.Uint64()).Crash() })
				if errors.Is(err, state.ErrIncompatible) { // a node has no checkpoint yet
					continue
				}
				if err != nil || !rep.Balanced() {
					t.Errorf("look %d: %v, %+v", looks, err, rep)
					return
				}
				looks++
				if rep.Above.Links.N > 0 {
					waiting++
				}
			}
		})
		c.run(t.Context())
		cancel()
		ended.Wait()
		t.Logf("%d looks, in %d of them links stood in outboxes", looks, waiting)
		if waiting == 0 {
			t.Error("no look found links in outboxes")
		}
	})
}

// TestExplainOtherNode: explain names the owner of a URL of another node, and says where a link to it stands in the
// outbox.
func TestExplainOtherNode(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, fs, _ := stoppedCluster(t)
		defer c.close()
		where := map[string]int{}
		for node := range c.options {
			o := &c.options[node]
			set, m, err := lastManifest(fs, o.Disk.Dirs)
			must(t, err)
			want := map[string]*explain.OutboxReport{}
			owner := map[string]int{}
			var urls []string
			for other := range c.options {
				if other == node {
					continue
				}
				st, err := state.Part[cluster.OutboxState](m, state.OutboxName(other))
				must(t, err)
				if err := cluster.EachLink(set, state.OutboxName(other), st,
					func(data []byte, in string, number uint64) error {
						var rec weburl.Record
						if err := rec.Decode(data); err != nil {
							return err
						}
						url := string(rec.URL)
						if want[url] == nil {
							want[url], owner[url] = &explain.OutboxReport{Where: in, Message: number}, other
							urls = append(urls, url)
						}
						return nil
					}, func(err error) error { return err }); err != nil {
					t.Fatal(err)
				}
			}
			e := explainer(t, fs, o.Disk.Dirs)
			reports, err := e.URLs(append(urls, web404(c, 1-min(node, 1))))
			must(t, err)
			last := reports[len(reports)-1]
			if last.Node == nil || *last.Node != 1-min(node, 1) || last.Outbox != nil ||
				!strings.Contains(last.Why[1], "no link") {
				t.Errorf("node %d: a URL without link: %+v", node, last)
			}
			for _, rep := range reports[:len(reports)-1] {
				w := want[rep.URL]
				if rep.Place != explain.PlaceOtherNode || rep.Node == nil || *rep.Node != owner[rep.URL] ||
					rep.Outbox == nil || *rep.Outbox != *w ||
					!strings.Contains(rep.Why[1], fmt.Sprint("message ", w.Message)) && w.Where != cluster.InOpen {
					t.Fatalf("node %d: %s: %+v, want %+v", node, rep.URL, rep, w)
				}
				where[w.Where]++
			}
		}
		if where[cluster.InSent] == 0 || where[cluster.InPending] == 0 {
			t.Errorf("links stood in %v only", where)
		}
		t.Log(where)
	})
}

// web404 returns a URL of a node to which nothing leads.
func web404(c *testCluster, node int) string {
	h := weburl.NewHasher(c.options[0].Cluster.Secret)
	for i := 0; ; i++ {
		host := fmt.Sprintf("nowhere%d.com", i)
		if c.options[0].Cluster.Table.Owner(h.PLDKey([]byte(host))) == node {
			return "http://" + host + "/"
		}
	}
}
