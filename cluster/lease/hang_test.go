package lease

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// askedEngine counts questions to nodes.
type askedEngine struct {
	cluster.Transport
	asked *atomic.Int64
	open  atomic.Int64
	most  atomic.Int64
}

func (e *askedEngine) Ask(ctx context.Context, to int, kind string, data []byte) ([]byte, error) {
	e.asked.Add(1)
	e.most.Store(max(e.most.Load(), e.open.Add(1)))
	defer e.open.Add(-1)
	return e.Transport.Ask(ctx, to, kind, data)
}

// hungNetworks is the number of networks of the node that hangs.
func hungNetworks() int {
	if testing.Short() {
		return 150
	}
	return 300
}

// TestHangingNode: a node that holds hundreds of networks is stopped (SIGSTOP). Another one that wants all of them
// gets networks that nobody has at once, all the while, and soon asks the node that hangs for nothing.
func TestHangingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := mem.New(mem.Options{Seed: *seedFlag, Faults: mem.Faults{Delay: 5 * time.Millisecond}})
		networks := hungNetworks()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		hung := &frozenEngine{Transport: net.Transport(0), calls: map[string]func(){}}
		var asked atomic.Int64
		asks := &askedEngine{Transport: net.Transport(1), asked: &asked}
		var leases [2]*Leases
		var sched [2]*polite.Scheduler
		address := func(network int) netip.Addr {
			return netip.AddrFrom4([4]byte{10, byte(network >> 8), byte(network), 1})
		}
		want := func(node, network int) {
			it := &polite.Item{Host: uint64(node<<20 + network), PLD: uint64(network),
				Addrs: []netip.Addr{address(network)}}
			if v := sched[node].Admit(time.Now(), it); v.Kind != polite.Admitted {
				t.Errorf("%+v", v)
			}
		}
		for node, transport := range []cluster.Transport{hung, asks} {
			defer transport.Close()
			sched[node] = polite.New(polite.Options{Leased: true, ServerDelay: time.Second}, time.Now())
			leases[node] = New(Options{Transport: transport, Polite: sched[node], Node: node, Nodes: 2,
				Run: uint64(node) + 1, TTL: 10 * time.Minute, Longest: longest, New: true})
			running.Go(func() {
				if err := leases[node].Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute)
		for network := range networks {
			want(0, network)
		}
		time.Sleep(10 * time.Second)
		if f := leases[0].Figures(); f.Held != networks {
			t.Errorf("%+v", f)
		}
		hung.freeze(9 * time.Minute)
		for network := range networks {
			want(1, network)
		}
		for minute := range 5 {
			was := asked.Load()
			for k := range 20 {
				network := networks + minute*20 + k
				want(1, network)
				time.Sleep(200 * time.Millisecond)
				if stageOf(leases[1], address(network)) != held {
					t.Errorf("minute %d: a network that nobody has is not held after 200 ms", minute)
				}
				time.Sleep(2800 * time.Millisecond)
			}
			if n := asked.Load() - was; minute > 0 && n > 0 {
				t.Errorf("minute %d: %d questions to a node that hangs", minute, n)
			}
		}
		if asked.Load() == 0 || asks.most.Load() > maxAsks {
			t.Errorf("%d questions, %d at once", asked.Load(), asks.most.Load())
		}
		time.Sleep(10 * time.Minute)
		if f := leases[1].Figures(); f.Held == 0 {
			t.Errorf("the node is back: %+v", f)
		}
		cancel()
		running.Wait()
	})
}
