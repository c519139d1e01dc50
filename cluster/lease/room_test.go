package lease

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/polite"
)

// leasesIn returns the number of leases that a broker has, and the heartbeats.
func leasesIn(net *mem.Net) (leases, heartbeats int) {
	for key := range net.Values(cluster.BucketNet) {
		if strings.HasPrefix(key, cluster.LeasePrefix) {
			leases++
		} else {
			heartbeats++
		}
	}
	return leases, heartbeats
}

// TestFullRoom: the broker has room for a few leases only, many networks are wanted, and some of them by all
// nodes. All are visited in the end, all limits hold, and nobody rests. Those that an operator reads are
// told, once.
func TestFullRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes, web := testNodes(t, *seedFlag, 3, 40, mem.Faults{Delay: 5 * time.Millisecond})
		net := mem.New(mem.Options{Seed: *seedFlag, BucketBytes: 2000, Faults: mem.Faults{Delay: 5 * time.Millisecond}})
		var mu sync.Mutex
		refused, told := map[int]int{}, map[int]int{}
		for i, n := range nodes {
			n.net = net
			n.problem = func(text string, err error) {
				if !errors.Is(err, cluster.ErrFull) {
					t.Errorf("%s: %v", text, err)
				}
				mu.Lock()
				defer mu.Unlock()
				told[n.number]++
			}
			for k := range 60 {
				host := uint64(i*100 + 20 + k)
				n.items[&polite.Item{Host: host, PLD: host,
					Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 2 + byte(i), byte(k), 1})}}] = true
			}
		}
		most := 0
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			for ctx.Err() == nil {
				leases, _ := leasesIn(net)
				most = max(most, leases)
				pause(ctx, 100*time.Millisecond)
			}
		})
		together(t, nodes, func() {})
		stop()
		watching.Wait()
		for _, n := range nodes {
			refused[n.number] = int(n.figures.Refused)
			if f := n.figures; f.Lost > 0 || n.rested > 0 || (f.Refused > 0) != (told[n.number] > 0) ||
				told[n.number] > 3 {
				t.Errorf("node %d: %+v, rested in %d looks, told %d times", n.number, f, n.rested, told[n.number])
			}
		}
		if web.visits != 300 || refused[0]+refused[1]+refused[2] == 0 || most < 8 || most > 16 {
			t.Errorf("%d visits, %d leases at most, refused %v, told %v", web.visits, most, refused, told)
		}
		if leases, heartbeats := leasesIn(net); leases > 0 || heartbeats != 3 {
			t.Errorf("after the end of all, the broker has %d leases and %d heartbeats", leases, heartbeats)
		}
	})
}

// TestBrimfulRoom: nothing at all fits into the bucket any more. Leases that are there are still handed over
// and given back, and heartbeats continue, since they need no more room than before.
func TestBrimfulRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes, web := testNodes(t, *seedFlag, 2, 200, mem.Faults{})
		net := mem.New(mem.Options{Seed: *seedFlag, BucketBytes: 20_000,
			Faults: mem.Faults{Delay: 5 * time.Millisecond}})
		e := net.Transport(5)
		defer e.Close()
		for _, n := range nodes {
			n.net = net
		}
		together(t, nodes, func() {
			time.Sleep(20 * time.Second)
			for size, made := 1000, 0; size >= 0; made++ {
				if _, err := e.Create(t.Context(), cluster.BucketNet, fmt.Sprint("x.", made),
					make([]byte, size)); err != nil {
					size -= 10
				}
			}
			room, _ := e.Room(t.Context(), cluster.BucketNet)
			if room.Limit-room.Bytes > 100 {
				t.Errorf("%+v", room)
			}
			time.Sleep(30 * time.Second)
			for key := range net.Values(cluster.BucketNet) {
				if strings.HasPrefix(key, "x.") {
					if err := e.Delete(t.Context(), cluster.BucketNet, key, 0); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for _, n := range nodes {
			if n.figures.Lost > 0 || n.rested > 0 {
				t.Errorf("node %d: %+v, rested in %d looks", n.number, n.figures, n.rested)
			}
		}
		t.Logf("%d visits: %+v", web.visits, nodes[0].figures)
	})
}

// TestCollect: leases of a killed process whose networks nobody wants are deleted, when its node is silent
// for long or has another process; those that tell of back-offs stay, as do those of nodes that live. A
// process that ends deletes its own.
func TestCollect(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			net := mem.New(mem.Options{Seed: *seedFlag, Faults: mem.Faults{Delay: 5 * time.Millisecond}})
			run := uint64(0)
			start := func(node, networks int) (l *Leases, kill func()) {
				run++
				s := polite.New(polite.Options{Leased: true, ServerDelay: time.Second}, time.Now())
				transport := net.Transport(node)
				l = New(Options{Transport: transport, Polite: s, Node: node, Nodes: 3, Run: run, TTL: time.Minute,
					Longest: longest})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- l.Run(ctx) }()
				for k := range networks {
					host := uint64(node*1000 + k)
					s.Admit(time.Now(), &polite.Item{Host: host, PLD: host,
						Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(node), byte(k), 1})}})
				}
				return l, func() {
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			}
			want := func(when string, want int) {
				t.Helper()
				if leases, _ := leasesIn(net); leases != want {
					t.Errorf("%s (a process after it: %v): %d leases, want %d", when, again, leases, want)
				}
			}
			collector, stop := start(0, 0)
			lives, stopLives := start(2, 7)
			_, kill := start(1, 20)
			time.Sleep(2 * time.Minute)
			want("while all live", 27)
			kill()
			e := net.Transport(1)
			defer e.Close()
			rests := value{Node: 1, Run: 3, Rests: map[string]int64{"10.9.9.9": 1e9}}
			if _, err := e.Create(t.Context(), cluster.BucketNet, "net.0a0909", encode(rests)); err != nil {
				t.Fatal(err)
			}
			if again {
				_, kill = start(1, 0)
			}
			time.Sleep((collectTTLs + 2) * time.Minute)
			want("after a round", 8)
			if f := collector.Figures(); f.Collected != 20 || lives.Figures().Collected != 0 {
				t.Errorf("the first node has collected %d, the third %d", f.Collected, lives.Figures().Collected)
			}
			stopLives()
			if err := lives.End(t.Context()); err != nil {
				t.Error(err)
			}
			want("after an end", 1)
			if again {
				kill()
			}
			stop()
		})
	}
}
