package crawl

import (
	"slices"
	"testing"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/weburl"
)

// loadsOf returns the manifest of a node and the loads of its slots.
func (c *testCluster) loadsOf(node int) (disk.Set, *state.Manifest, *cluster.Loads) {
	c.t.Helper()
	set, m, err := lastManifest(c.options[node].Disk.FS, c.options[node].Disk.Dirs)
	must(c.t, err)
	data, err := disk.ReadTail(set, m.Loads)
	must(c.t, err)
	l, err := cluster.DecodeLoads(data)
	must(c.t, err)
	return set, m, l
}

// checkLoads compares the loads of slots with the accounts: those of each node, and pages and bytes of all nodes, since
// those of slots that moved stay in the accounts of the former owner. whole also compares them with the keys of
// URLseen; no pass may be in progress.
func (c *testCluster) checkLoads(whole bool) {
	c.t.Helper()
	var pages, bytes int64
	for node := range c.options {
		set, m, l := c.loadsOf(node)
		a, sum := &m.Accounts, l.Sum()
		if l.Since != 0 || sum.Known != a.Unique.N || sum.Waiting != a.Waiting() {
			c.t.Errorf("node %d: loads %+v since %d, but %d unique URLs, %d of them waiting", node, sum, l.Since,
				a.Unique.N, a.Waiting())
		}
		pages += sum.Pages - a.Counters[state.CountPages]
		bytes += sum.Bytes - a.Counters[state.CountBytesWire]
		for slot := range l.Slots {
			if l.Slots[slot] != (cluster.Load{}) && !m.Frozen.Slots.Has(slot) &&
				!slices.Contains(c.divided, slot) {
				c.t.Errorf("node %d: slot %d of another node has %+v", node, slot, l.Slots[slot])
			}
		}
		if !whole {
			continue
		}
		st, err := state.Part[drum.State](m, state.NameURLSeen)
		must(c.t, err)
		var keys [cluster.Slots]int64
		count := func(key drum.Key, _ []byte) error { keys[weburl.SlotOf(uint64(key))]++; return nil }
		_, err = drum.ScanState(set, state.NameURLSeen, st.Cache(), drum.Scan{Entry: count})
		must(c.t, err)
		for slot, n := range keys {
			if n != l.Slots[slot].Known {
				c.t.Errorf("node %d: slot %d has %d keys, its load says %d", node, slot, n, l.Slots[slot].Known)
			}
		}
	}
	if pages != 0 || bytes != 0 {
		c.t.Errorf("the loads of all nodes have %d pages and %d bytes more than the accounts", pages, bytes)
	}
}

// TestClusterLoadsSince: a crawl whose checkpoint has no loads, as those of earlier versions, counts from its restart,
// and keeps that time. A slot that is taken has no load, and adds up where it is put.
func TestClusterLoadsSince(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 10, 20, 200)
		c := newCluster(t, web, 2, mem.Faults{}, nil)
		defer c.close()
		c.stopNodeAfter(0, 30)
		c.checkLoads(false)
		fs := c.options[0].Disk.FS.(*memfs.FS)
		set, m, _ := c.loadsOf(0)
		before := m.Accounts
		m.Loads = disk.Ref{}
		data, err := state.EncodeManifest(m)
		must(t, err)
		saved := state.NewSaved(fs, set.Paths, nil)
		saved.Set = set
		must(t, saved.WriteManifest(data))
		c.check(c.run(t.Context()))
		_, m, l := c.loadsOf(0)
		sum := l.Sum()
		if l.Since < m.Began || l.Since > m.Time || sum.Known != m.Accounts.Unique.N-before.Unique.N ||
			sum.Waiting != m.Accounts.Waiting()-before.Waiting() {
			t.Errorf("loads %+v since %d, accounts %+v, before %+v", sum, l.Since, m.Accounts, before)
		}
	})
}

// TestTakeLoad: a load that is taken from a slot is gone there, and adds up elsewhere.
func TestTakeLoad(t *testing.T) {
	var from, to, none account.Accounts
	from.CountLoads(&cluster.Loads{Slots: [cluster.Slots]cluster.Load{7: {Pages: 1, Known: 5, Waiting: 3, Bytes: 9}}})
	to.CountLoads(&cluster.Loads{Slots: [cluster.Slots]cluster.Load{7: {Known: 1}}})
	to.AddLoad(7, from.TakeLoad(7))
	none.AddLoad(7, none.TakeLoad(7))
	want := cluster.Load{Pages: 1, Known: 6, Waiting: 3, Bytes: 9}
	if got := to.Loads().Slots[7]; got != want || from.Loads().Sum() != (cluster.Load{}) || none.Loads() != nil {
		t.Errorf("moved %+v, want %+v; left %+v", got, want, from.Loads().Sum())
	}
}
