package crawl

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/internal/simweb"
	"drumbeat/state/snapshot"
)

// TestClusterStatus: each node sees what the others say of themselves; one that is cut off is missed after a minute, and its
// snapshot says that the broker is away and what waits for the others. A node that has ended says so.
func TestClusterStatus(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost = 20, 40, 6000, 0 })
		c := newCluster(t, web, 3, mem.Faults{}, func(node int, o *Options) {
			o.Cluster.LeaseTTL = lease.LeastTTL
			o.Observe.Control, o.Identity.Host, o.Politeness.ServerDelay = &Control{}, string(rune('a'+node)), 500*time.Millisecond
		})
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 3)
		for node := range c.options {
			go func() { _, err := Run(ctx, c.options[node]); ended <- err }()
		}
		overview := func(node int) ([]*cluster.Status, cluster.Overview) {
			t.Helper()
			self, list, err := c.options[node].Observe.Control.Cluster()
			if err != nil || self != node || len(list) != 3 {
				t.Fatalf("node %d, %d statuses, %v", self, len(list), err)
			}
			return list, cluster.Summarize(list, time.Now())
		}
		// Which node visits which network first depends on who asks for its lease first: a node whose few networks others visit has
		// its first page after they have given them back.
		began := func() bool {
			list, o := overview(0)
			return o.Pages > 0 && o.PagesPerSecond > 0 && !slices.ContainsFunc(list, func(st *cluster.Status) bool { return st == nil || st.Pages == 0 })
		}
		for range 36 {
			if account.Sleep(ctx, 5*time.Second); began() {
				break
			}
		}
		list, o := overview(0)
		if len(o.Missing) != 0 || o.Configs != 1 || o.Pages == 0 || o.PagesPerSecond == 0 {
			t.Errorf("after the first pages: %+v", o)
		}
		for node, st := range list {
			if st == nil || st.Host != string(rune('a'+node)) || st.Pages == 0 || st.DiskLimit == 0 {
				t.Errorf("node %d: %+v", node, st)
			}
		}
		c.net.Cut(2)
		account.Sleep(ctx, 75*time.Second)
		if _, o := overview(0); !slices.Equal(o.Missing, []int{2}) {
			t.Errorf("with node 2 cut off: %+v", o)
		}
		s, err := c.options[2].Observe.Control.Exact()
		if err != nil {
			t.Fatal(err)
		}
		if cl := &s.Cluster; cl.Connected || s.Time.Sub(cl.Since) < 70*time.Second || len(cl.Pairs) != 2 {
			t.Errorf("node 2 says %+v", cl)
		}
		stalled := slices.MaxFunc(s.Cluster.Pairs, func(a, b snapshot.Pair) int { return cmp.Compare(a.Stalled, b.Stalled) })
		if records, bytes, _ := s.Cluster.Waiting(); records == 0 || bytes == 0 || stalled.Waiting == 0 || stalled.Stalled < 30*time.Second {
			t.Errorf("node 2 keeps %d records in %d bytes: %+v", records, bytes, s.Cluster.Pairs)
		}
		c.net.Heal(2)
		account.Sleep(ctx, 75*time.Second)
		if _, o := overview(0); len(o.Missing) != 0 {
			t.Errorf("with node 2 back: %+v", o)
		}
		if s, err := c.options[2].Observe.Control.Exact(); err != nil || !s.Cluster.Connected ||
			!slices.ContainsFunc(s.Cluster.Pairs, func(p snapshot.Pair) bool { return p.Taken > 0 }) {
			t.Errorf("node 2 says %+v, %v", s.Cluster, err)
		}
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		v, err := c.engines[0].Get(t.Context(), cluster.BucketCrawl, cluster.StatusKey(1))
		if err != nil {
			t.Fatal(err)
		}
		if st, err := cluster.DecodeStatus(v.Key, v.Data, 3); err != nil || st.Ended != StopCancelled {
			t.Errorf("node 1 says at its end: %+v, %v", st, err)
		}
	})
}

// TestClusterLeaseStatus: a node says of its leases that it starts, which networks it visits and waits for, and that it rests once
// it has been cut off for long. What fetching waits for says the same in words. At its end it holds nothing.
func TestClusterLeaseStatus(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.Robots.RedirectHost = 20, 40, 1200, 0 })
		c := newCluster(t, web, 2, mem.Faults{}, func(_ int, o *Options) {
			o.Cluster.LeaseTTL = time.Minute
			o.Observe.Control, o.Politeness.ServerDelay = &Control{}, 2*time.Second
		})
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for node := range c.options {
			go func() { _, err := Run(ctx, c.options[node]); ended <- err }()
		}
		at := func(when string, node int, waits string, ok func(l *cluster.LeaseStatus) bool) {
			t.Helper()
			_, list, err := c.options[node].Observe.Control.Cluster()
			s, err2 := c.options[node].Observe.Control.Exact()
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if st := list[node]; st == nil || st.Leases == nil || !ok(st.Leases) {
				t.Errorf("%s, node %d says %+v", when, node, st)
			} else if st.Leases != nil {
				t.Logf("%s, node %d says %+v, waits for %q", when, node, *st.Leases, s.Waiting)
			}
			if l := s.Cluster.Leases; !l.On || !strings.Contains(s.Waiting, waits) {
				t.Errorf("%s, node %d has %+v and waits for %q, want %q", when, node, l, s.Waiting, waits)
			}
		}
		<-c.options[0].Observe.Control.Started()
		account.Sleep(ctx, 200*time.Millisecond)
		at("at the start", 0, "must read this node's heartbeats for 3s from its start", func(l *cluster.LeaseStatus) bool {
			return l.Starting && l.Resting && l.Held == 0
		})
		var wanted, urls, handed int64
		for range 6 {
			account.Sleep(ctx, 10*time.Second)
			_, list, err := c.options[0].Observe.Control.Cluster()
			if err != nil {
				t.Fatal(err)
			}
			for _, st := range list {
				wanted, urls, handed = wanted+int64(st.Leases.Wanted), urls+st.Leases.URLs, max(handed, st.Leases.HandedOver)
			}
		}
		if wanted == 0 || urls == 0 || handed == 0 {
			t.Errorf("%d networks were waited for with %d URLs, %d handed over", wanted, urls, handed)
		}
		at("after a minute", 0, "", func(l *cluster.LeaseStatus) bool { return !l.Starting && !l.Resting && l.Taken > 0 })
		c.net.Cut(1)
		account.Sleep(ctx, 90*time.Second)
		if s, err := c.options[1].Observe.Control.Exact(); err != nil || !s.Cluster.Leases.Resting || s.Cluster.Leases.Starting ||
			!strings.Contains(s.Waiting, "the broker: after so long without it") {
			t.Errorf("cut off for long, node 1 has %+v and waits for %q, %v", s.Cluster.Leases, s.Waiting, err)
		}
		c.net.Heal(1)
		account.Sleep(ctx, 30*time.Second)
		at("back", 1, "", func(l *cluster.LeaseStatus) bool { return !l.Resting && l.Held+l.Wanted > 0 })
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		v, err := c.engines[0].Get(t.Context(), cluster.BucketCrawl, cluster.StatusKey(1))
		if err != nil {
			t.Fatal(err)
		}
		if st, err := cluster.DecodeStatus(v.Key, v.Data, 2); err != nil || st.Leases == nil || st.Leases.Held != 0 || st.Leases.Taken == 0 {
			t.Errorf("node 1 says at its end: %+v, %v", st, err)
		}
	})
}
