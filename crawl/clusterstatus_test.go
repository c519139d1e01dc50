package crawl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/state/condition"
	"drumbeat/state/snapshot"
)

// begin starts all nodes, and returns a function that waits for their ends.
func (c *testCluster) begin(ctx context.Context) (end func()) {
	ended := make(chan error, len(c.options))
	for node := range c.options {
		go func() { _, err := Run(ctx, c.options[node]); ended <- err }()
	}
	return func() {
		for range c.options {
			if err := <-ended; err != nil {
				c.t.Error(err)
			}
		}
	}
}

// lastStatus reads what a node has said last.
func (c *testCluster) lastStatus(node int) (*cluster.Status, error) {
	v, err := c.engines[0].Get(c.t.Context(), cluster.BucketCrawl, cluster.StatusKey(node))
	if err != nil {
		return nil, err
	}
	return cluster.DecodeStatus(v.Key, v.Data, len(c.options))
}

// mustExact returns the state of a crawl now.
func mustExact(t *testing.T, control *Control) *Snapshot {
	t.Helper()
	s, err := control.Exact()
	must(t, err)
	return s
}

// checkCondition checks the condition of a node, without the RAM of the tests' process; "" for no problem.
func checkCondition(t *testing.T, s *Snapshot, want string) {
	t.Helper()
	s.RAM = snapshot.Space{}
	if c := condition.Of(s); !strings.Contains(c.Text, want) || (want == "") != (len(c.Problems) == 0) {
		t.Errorf("the condition of node %d is %+v, want %q", s.Cluster.Node, c, want)
	}
}

// TestClusterMissingNode: a node that waits for one that does not start names it in its condition within 15 s, with the
// command that starts it, and later in what it waits for. When that node starts, both end.
func TestClusterMissingNode(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 4, 8, 40)
		var last atomic.Pointer[Snapshot]
		c := newCluster(t, web, 2, mem.Faults{}, func(node int, o *Options) {
			if node == 0 {
				o.Observe.SnapshotEvery = time.Second
				o.Observe.Snapshot = func(s *Snapshot) {
					s.RAM = snapshot.Space{}
					last.Store(s)
					named := slices.ContainsFunc(condition.Of(s).Problems, func(p condition.Problem) bool {
						return p.Next == "drumbeat crawl --node 1" &&
							strings.HasPrefix(p.Text, "Node 1 has not started, ")
					})
					if missing := s.Cluster.Pairs[0].Missing; missing && s.Elapsed > 15*time.Second && !named {
						t.Errorf("after %v: %+v", s.Elapsed, condition.Of(s))
					}
				}
			}
		})
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		ends := make(chan error, 2)
		start := func(node int) {
			go func() {
				res, err := Run(ctx, c.options[node])
				if err == nil && res.Stop != StopDone {
					err = errors.New(res.Stop)
				}
				ends <- err
			}()
		}
		start(0)
		account.Sleep(ctx, time.Hour)
		if want, w := "node 1 to start, since links", last.Load().Wait; w.Kind != snapshot.WaitNodes ||
			!strings.HasPrefix(w.Text, want) {
			t.Errorf("it waits for %+v, want %q", w, want)
		}
		start(1)
		for range 2 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
		if missing := last.Load().Cluster.Missing(); missing != "" {
			t.Errorf("at the end %s has not started", missing)
		}
	})
}

// TestClusterStatus: each node sees what the others say of themselves; one that is cut off is missed after a
// minute, and its snapshot says that the broker is away and what waits for the others. A node that has ended
// says so.
func TestClusterStatus(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 20, 40, 1200)
		c := newCluster(t, web, 3, mem.Faults{}, func(node int, o *Options) {
			o.Cluster.LeaseTTL = lease.LeastTTL
			o.Observe.Control, o.Identity.Host, o.Politeness.ServerDelay = &Control{},
				string(rune('a'+node)), 2*time.Second
		})
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		end := c.begin(ctx)
		for node := range c.options {
			<-c.options[node].Observe.Control.Started()
		}
		overview := func(node int) ([]*cluster.Status, cluster.Overview) {
			t.Helper()
			self, list, err := c.options[node].Observe.Control.Cluster()
			if err != nil || self != node || len(list) != 3 {
				t.Fatalf("node %d, %d statuses, %v", self, len(list), err)
			}
			return list, cluster.Summarize(list, time.Now())
		}
		exact := func(node int) *Snapshot { return mustExact(t, c.options[node].Observe.Control) }
		await(t, "each node says that it has fetched pages, and node 2 has links that node 0 has not stored",
			func() (bool, any) {
				list, o := overview(0)
				ok := len(o.Missing) == 0 && o.Configs == 1 && o.PagesPerSecond > 0
				for node, st := range list {
					ok = ok && st != nil && st.Host == string(rune('a'+node)) && st.Pages > 0 && st.DiskLimit > 0
				}
				s := exact(2)
				return ok && len(s.Cluster.Pairs) == 2 && s.Cluster.Pairs[0].Waiting > 0, o
			})
		checkCondition(t, exact(0), "")
		c.net.Cut(2)
		account.Sleep(ctx, 15*time.Second)
		checkCondition(t, exact(0), "Node 2 has sent nothing for ")
		account.Sleep(ctx, 60*time.Second)
		checkCondition(t, exact(2), "This node waits for the broker")
		if _, o := overview(0); !slices.Equal(o.Missing, []int{2}) {
			t.Errorf("with node 2 cut off: %+v", o)
		}
		s := exact(2)
		if cl := &s.Cluster; cl.Connected || s.Time.Sub(cl.Since) < 70*time.Second || len(cl.Pairs) != 2 {
			t.Errorf("node 2 says %+v", cl)
		}
		if records, bytes, _ := s.Cluster.Waiting(); records == 0 || bytes == 0 ||
			s.Cluster.Pairs[0].Stalled < 30*time.Second {
			t.Errorf("node 2 keeps %d records in %d bytes: %+v", records, bytes, s.Cluster.Pairs)
		}
		c.net.Heal(2)
		await(t, "node 2 is back, and has taken links of node 0", func() (bool, any) {
			_, o := overview(0)
			s := exact(2)
			return len(o.Missing) == 0 && s.Cluster.Connected && s.Cluster.Pairs[0].Taken > 0, s.Cluster
		})
		cancel()
		end()
		if st, err := c.lastStatus(1); err != nil || st.Ended != StopCancelled {
			t.Errorf("node 1 says at its end: %+v, %v", st, err)
		}
	})
}

// checkLeaseStatus checks what a node says of its leases.
func checkLeaseStatus(t *testing.T, control *Control, when string, node int, waits string,
	ok func(l *cluster.LeaseStatus) bool) {
	t.Helper()
	_, list, err := control.Cluster()
	s, err2 := control.Exact()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if st := list[node]; st == nil || st.Leases == nil || !ok(st.Leases) {
		t.Errorf("%s, node %d says %+v", when, node, st)
	} else if st.Leases != nil {
		t.Logf("%s, node %d says %+v, waits for %q", when, node, *st.Leases, s.Wait.Text)
	}
	if l := s.Cluster.Leases; !l.On || !strings.Contains(s.Wait.Text, waits) {
		t.Errorf("%s, node %d has %+v and waits for %q, want %q", when, node, l, s.Wait.Text, waits)
	}
}

// TestClusterLeaseStatus: a node says of its leases that it starts, which networks it visits and waits for,
// and that it rests once it has been cut off for long. What fetching waits for says the same in words. At its
// end it holds nothing.
func TestClusterLeaseStatus(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 20, 40, 1200)
		c := newCluster(t, web, 2, mem.Faults{}, func(_ int, o *Options) {
			o.Cluster.LeaseTTL = time.Minute
			o.Observe.Control, o.Politeness.ServerDelay = &Control{}, 2*time.Second
		})
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		end := c.begin(ctx)
		at := func(when string, node int, waits string, ok func(l *cluster.LeaseStatus) bool) {
			t.Helper()
			checkLeaseStatus(t, c.options[node].Observe.Control, when, node, waits, ok)
		}
		<-c.options[0].Observe.Control.Started()
		account.Sleep(ctx, 200*time.Millisecond)
		at("at the start", 0, "must receive this node's heartbeats for 3s after its start",
			func(l *cluster.LeaseStatus) bool {
				return l.Starting && l.Resting && l.Held == 0
			})
		leases := func(node int) *cluster.LeaseStatus {
			t.Helper()
			_, list, err := c.options[node].Observe.Control.Cluster()
			if err != nil || list[node] == nil || list[node].Leases == nil {
				t.Fatalf("node %d: %+v, %v", node, list, err)
			}
			return list[node].Leases
		}
		var wanted, urls, handed bool
		await(t, "both nodes have visited networks, waited for some with URLs, and handed some over",
			func() (bool, any) {
				both := true
				for node := range c.options {
					l := leases(node)
					wanted, urls, handed = wanted || l.Wanted > 0, urls || l.URLs > 0, handed || l.HandedOver > 0
					both = both && !l.Starting && !l.Resting && l.Taken > 0
				}
				return wanted && urls && handed && both, leases(0)
			})
		at("after a while", 0, "", func(l *cluster.LeaseStatus) bool {
			return !l.Starting && !l.Resting && l.Taken > 0
		})
		c.net.Cut(1)
		account.Sleep(ctx, 90*time.Second)
		if s, err := c.options[1].Observe.Control.Exact(); err != nil || !s.Cluster.Leases.Resting ||
			s.Cluster.Leases.Starting || !strings.Contains(s.Wait.Text, "the broker: it has been away so long") {
			t.Errorf("cut off for long, node 1 has %+v and waits for %q, %v", s.Cluster.Leases, s.Wait.Text, err)
		}
		c.net.Heal(1)
		await(t, "node 1 is back, and has or wants networks", func() (bool, any) {
			s, err := c.options[1].Observe.Control.Exact()
			must(t, err)
			l := leases(1)
			return s.Cluster.Connected && !s.Cluster.Leases.Resting && !l.Resting &&
				l.Held+l.Wanted > 0, s.Cluster.Leases
		})
		cancel()
		end()
		if st, err := c.lastStatus(1); err != nil || st.Leases == nil || st.Leases.Held != 0 ||
			st.Leases.Taken == 0 {
			t.Errorf("node 1 says at its end: %+v, %v", st, err)
		}
	})
}
