package lease

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// lateEngine is a transport whose answers come late.
type lateEngine struct {
	cluster.Transport
	last time.Duration             // Last returns what was true that long ago
	gets *atomic.Int64             // counts the calls of Get; nil: nobody does
	told func(to int, data []byte) // sees what Tell sends
}

func (e lateEngine) Last(ctx context.Context, b cluster.Bucket) (uint64, error) {
	last, err := e.Transport.Last(ctx, b)
	pause(ctx, e.last)
	return last, err
}

func (e lateEngine) Get(ctx context.Context, b cluster.Bucket, key string) (cluster.Value, error) {
	if e.gets != nil {
		e.gets.Add(1)
	}
	return e.Transport.Get(ctx, b, key)
}

func (e lateEngine) Tell(ctx context.Context, to int, kind string, data []byte) error {
	e.told(to, data)
	return e.Transport.Tell(ctx, to, kind, data)
}

// TestLateLast: that leases change while the transport answers is no loss of leases.
func TestLateLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes, _ := testNodes(t, *seedFlag, 3, 80, mem.Faults{Delay: 5 * time.Millisecond})
		for _, n := range nodes {
			n.wrap = func(e cluster.Transport) cluster.Transport {
				return lateEngine{e, 500 * time.Millisecond, nil, func(int, []byte) {}}
			}
		}
		together(t, nodes, func() {})
		for _, n := range nodes {
			if n.losses != 1 {
				t.Errorf("node %d: %d losses, want its start", n.number, n.losses)
			}
		}
	})
}

// wantsAlways returns the leases of a node, one of two, that wants the network of an address all the time.
func wantsAlways(t *testing.T, transport cluster.Transport, node int, addr netip.Addr) *Leases {
	s := polite.New(polite.Options{Leased: true, ServerDelay: time.Second}, time.Now())
	if v := s.Admit(time.Now(), &polite.Item{Host: uint64(node), PLD: uint64(node),
		Addrs: []netip.Addr{addr}}); v.Kind != polite.Admitted {
		t.Fatalf("%+v", v)
	}
	return New(Options{Transport: transport, Polite: s, Node: node, Nodes: 2, Run: uint64(node) + 1,
		TTL: 10 * time.Minute, Longest: longest, New: true})
}

// handOvers are the hand-overs that nodes were told of, by receiver.
type handOvers struct {
	t  *testing.T
	mu sync.Mutex
	to [2][]request
}

func (h *handOvers) told(to int, data []byte) {
	r, _, err := parseRequest(data, 2)
	if err != nil || r.Op != opHand {
		h.t.Errorf("%s: %v", data, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to[to] = append(h.to[to], r)
}

func (h *handOvers) all() [2][]request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return [2][]request{slices.Clone(h.to[0]), slices.Clone(h.to[1])}
}

// TestLateHandOver: two nodes want one network all the time. After a while each message that hands it over
// comes again, some seconds later: while the receiver waits for the network again, holds it, or has another
// process.
func TestLateHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := mem.New(mem.Options{Seed: *seedFlag, Faults: mem.Faults{Delay: 5 * time.Millisecond}})
		addr := netip.AddrFrom4([4]byte{10, 0, 0, 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		leases := make([]*Leases, 2)
		late := 0
		var gets atomic.Int64
		handed := &handOvers{t: t}
		for node := range leases {
			transport := lateEngine{Transport: net.Transport(node), gets: &gets, told: handed.told}
			defer transport.Close()
			leases[node] = wantsAlways(t, transport, node, addr)
			running.Go(func() {
				if err := leases[node].Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		var holds [2]int
		for tick := range 6000 {
			time.Sleep(100 * time.Millisecond)
			told := handed.all()
			switch n := gets.Load(); {
			case tick < 1000 && n > 6:
				t.Fatalf("%d calls of Get with %d hand-overs: what they tell is not used", n, len(told[0])+len(told[1]))
			case tick == 1000 && len(told[0])+len(told[1]) < 5:
				t.Error("few hand-overs in 100 s")
			case tick < 1000:
				continue
			}
			both := 0
			for node, l := range leases {
				if stageOf(l, addr) == held {
					holds[node]++
					both++
				}
			}
			if both == 2 {
				t.Fatal("both nodes hold the network")
			}
			for to, l := range leases {
				if len(told[to]) < 2 || tick%40 != 0 {
					continue
				}
				// The last one may be under way; those before are late in any case.
				old := told[to][:len(told[to])-1]
				if late++; slices.Equal(l.answer(ctx, 1-to, encode(old[late%len(old)])), []byte{answerLine}) {
					t.Error("a node accepts a lease that it has had before")
				}
			}
		}
		cancel()
		running.Wait()
		told := handed.all()
		all := len(told[0]) + len(told[1])
		t.Logf("%d hand-overs, told again %d times", all, late)
		if all < 20 || late < 100 {
			t.Error("few were told again")
		}
		if holds[0] < 500 || holds[1] < 500 {
			t.Errorf("of 5,000 looks, the nodes were seen to hold the network in %v", holds)
		}
	})
}
