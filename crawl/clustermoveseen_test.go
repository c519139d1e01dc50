package crawl

import (
	"encoding/json"
	"errors"
	"testing"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/state/audit"
	slotmove "drumbeat/state/move"
	"drumbeat/state/repair"
)

// TestClusterMoveUnstreamed: slots move from a node that was killed in the middle of a pass over URLseen,
// after a checkpoint there: unique URLs are merged, but their texts are still in the log. They move too, and
// each is fetched once.
func TestClusterMoveUnstreamed(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 20, 40, 1200)
		c, fs := movable(t, web, 2, func(o *Options) { o.Order.StockTarget = 20 }) // links wait: no pass runs early
		defer c.close()
		from, unstreamed := c.stopInPass(fs)
		rep, err := slotmove.Run(c.moving(fs, 0, cluster.Slots/2, from, 1-from))
		must(t, err)
		t.Logf("%d unique URLs were not emitted; %+v", unstreamed, rep.Nodes)
		c.follow(fs)
		for i := range c.options {
			checkBalanced(t, fs, c.options[i].Disk.Dirs)
			checkDeep(t, &c.options[i])
		}
		audited := func() {
			t.Helper()
			if rep, err := c.audit(fs, true); err != nil || !rep.Balanced() {
				t.Errorf("cluster audit: %v, %+v", err, rep)
			}
		}
		audited()
		c.check(c.run(t.Context()))
		c.checkLoads(true)
		audited()
	})
}

// TestClusterPartlyMerged: a node that was killed in the middle of a pass over URLseen continues with it.
func TestClusterPartlyMerged(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 20, 40, 1200)
		c, fs := movable(t, web, 2, func(o *Options) { o.Order.StockTarget = 20 })
		defer c.close()
		c.stopInPass(fs)
		c.check(c.run(t.Context()))
	})
}

// largest returns the node with the most unique URLs.
func (c *testCluster) largest(fs disk.FS) (node int) {
	all := c.accounts(fs)
	for i := range all {
		if all[i].Unique.N > all[node].Unique.N {
			node = i
		}
	}
	return node
}

// stopInPass runs and stops the cluster until a pass over URLseen of the node with the most unique URLs,
// killed in its middle, leaves unique URLs whose texts are not emitted. It returns the node and how many.
// When a pass begins is the scheduler's choice, so any one stop may find too few links that wait, or none
// that is unique.
func (c *testCluster) stopInPass(fs *memfs.FS) (node int, unstreamed int64) {
	const buckets = 3 // merged of those in which links wait
	for pages := 200; ; pages = 20 {
		c.stopAfter(pages)
		node = c.largest(fs)
		if dirs := c.options[node].Disk.Dirs; pendingBuckets(c.t, fs, dirs) > buckets {
			if unstreamed = partlyMerged(c.t, fs, dirs, buckets); unstreamed > 0 {
				return node, unstreamed
			}
		}
	}
}

// pendingBuckets returns the number of buckets of a node's URLseen in which links wait.
func pendingBuckets(t *testing.T, fs *memfs.FS, dirs []string) int {
	t.Helper()
	_, m, err := lastManifest(fs, dirs)
	must(t, err)
	return len(partOf[drum.State](t, m, state.NameURLSeen).Inputs)
}

// partlyMerged merges some buckets of a node's URLseen, as a pass does before it is killed after a
// checkpoint: the texts of unique URLs are not emitted yet. It returns how many.
func partlyMerged(t *testing.T, fs *memfs.FS, dirs []string, buckets int) int64 {
	t.Helper()
	r, m, err := audit.Open(&audit.Options{FS: fs, Dirs: dirs})
	must(t, err)
	w, err := repair.NewShadow(r, m, 16<<20) // writes the next checkpoint
	if err == nil {
		err = w.CopyTails()
	}
	must(t, err)
	st := partOf[drum.State](t, m, state.NameURLSeen)
	enough, rounds := errors.New("enough"), 0
	d, err := drum.Open(drum.Options{Set: r.Set, Name: state.NameURLSeen, Codec: drum.Rice, Buckets: st.Buckets,
		Op: st.Op, Aux: st.Aux, BufferBytes: 4 << 10, BucketBytes: 64 << 10, Reserve: func(int64) (func(), error) {
			if rounds++; rounds > buckets {
				return nil, enough
			}
			return func() {}, nil
		}, Emit: func([]drum.Result) error { return errors.New("all buckets were merged") }}, st)
	must(t, err)
	if _, err := d.Pass(t.Context(), true); !errors.Is(err, enough) {
		t.Fatalf("a pass over links in more than %d buckets: %v", buckets, err)
	}
	d.Pause()
	f := d.Freeze()
	d.Resume()
	if st, err = f.Save(w.Tails); err == nil {
		w.Next.Parts[state.NameURLSeen], err = json.Marshal(st)
	}
	if err = errors.Join(err, d.Close()); err == nil {
		err = w.Prepare()
	}
	if err == nil {
		err = repair.Commit(r)
	}
	if err = errors.Join(err, r.Unlock()); err != nil {
		t.Fatal(err)
	}
	checkBalanced(t, fs, dirs)
	return st.Unstreamed
}
