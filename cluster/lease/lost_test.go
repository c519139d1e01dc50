package lease

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// TestLostLease: a node has an exchange in a network whose lease it finds in other hands after a loss. It
// keeps beating, in all stages of the network: while the exchange is in progress, or before its request has
// begun.
func TestLostLease(t *testing.T) {
	for _, c := range []struct {
		name           string
		begun, leaving bool
	}{{"in progress", true, false}, {"not begun", false, false}, {"leaving", false, true}} {
		synctest.Test(t, func(t *testing.T) { testLostLease(t, c.name, c.begun, c.leaving) })
	}
}

// testLostLease loses the lease of a network with an exchange. With leaves, the node is about to hand it over.
func testLostLease(t *testing.T, name string, begun, leaves bool) {
	net := mem.New(mem.Options{Seed: *seedFlag, Faults: mem.Faults{Delay: 5 * time.Millisecond}})
	addr := netip.AddrFrom4([4]byte{10, 0, 0, 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	s := polite.New(polite.Options{Leased: true, ServerDelay: time.Second}, time.Now())
	e, e1 := net.Transport(0), net.Transport(1)
	defer e.Close()
	defer e1.Close()
	l := New(Options{Transport: e, Polite: s, Node: 0, Nodes: 2, Run: 1, TTL: time.Minute,
		Longest: longest, New: true})
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	s.Admit(time.Now(), &polite.Item{Host: 1, PLD: 1, Addrs: []netip.Addr{addr}})
	time.Sleep(20 * time.Second)
	g, _ := s.Next(time.Now())
	if g == nil {
		t.Fatal("no grant")
	}
	if begun {
		s.Started(time.Now(), g)
	}
	if leaves {
		if !l.enqueue(polite.Network(addr), waiter{Node: 1, Run: 7}) {
			t.Fatal("the network is not held")
		}
		time.Sleep(20 * time.Second)
		if is := stageOf(l, addr); is != leaving {
			t.Fatalf("%s: stage %d", name, is)
		}
	}
	// The broker was set back meanwhile, and another node has the lease.
	lease := value{Node: 1, Run: 7}
	if _, err := e1.Put(ctx, cluster.BucketNet, netKey(polite.Network(addr)), encode(lease)); err != nil {
		t.Fatal(err)
	}
	heartbeats := func() uint64 { v, _ := e1.Get(ctx, cluster.BucketNet, heartbeatKey(0)); return v.Revision }
	l.heartbeats.lost() // as after a new connection
	time.Sleep(2 * time.Second)
	for range 6 {
		was := heartbeats()
		time.Sleep(20 * time.Second)
		if heartbeats() == was || !l.MayFetch() {
			t.Errorf("%s: heartbeats in 20 s: %v, may fetch: %v", name, heartbeats() != was, l.MayFetch())
		}
	}
	if is := stageOf(l, addr); is != gone || s.Lease(time.Now(), addr).Held {
		t.Errorf("%s: stage %d: the lease is another's", name, is)
	}
	l.heartbeats.lost() // once more, in that stage
	time.Sleep(3 * time.Second)
	if !l.allClaimed() {
		t.Errorf("%s: something is to be claimed again", name)
	}
	if !begun {
		s.Started(time.Now(), g)
	}
	s.Done(time.Now(), g, polite.Result{})
	cancel()
	running.Wait()
}
