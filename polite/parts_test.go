package polite

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// TestPartsPointDown: the parts of a Scheduler refer only to parts below them, so no call can go up.
func TestPartsPointDown(t *testing.T) {
	scheduler, top := reflect.TypeFor[Scheduler](), reflect.TypeFor[heaps]()
	networks, hosts := reflect.TypeFor[networks](), reflect.TypeFor[hosts]()
	for from, above := range map[reflect.Type][]reflect.Type{top: {scheduler}, networks: {scheduler, top, hosts},
		hosts: {scheduler, top, networks}} {
		seen := map[reflect.Type]bool{}
		var walk func(reflect.Type)
		walk = func(x reflect.Type) {
			if seen[x] {
				return
			}
			seen[x] = true
			switch x.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan, reflect.Map:
				walk(x.Elem())
			case reflect.Struct:
				for i := range x.NumField() {
					walk(x.Field(i).Type)
				}
			}
		}
		walk(from)
		for _, a := range above {
			if seen[a] {
				t.Errorf("%v refers to %v", from, a)
			}
		}
	}
}

// TestInvariants: the invariants of the package comment hold after each of many random calls.
func TestInvariants(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		now := time.Unix(1000, 0)
		s := New(Options{HostDelay: 300 * time.Millisecond, ServerDelay: 50 * time.Millisecond, MaxItems: 60,
			UseTerms: seed%2 > 0, NetworkRate: 9, NetworkConnections: 4, Leased: seed%4 > 1}, now)
		terms := []*Terms{nil, {PLDDelay: 20 * time.Millisecond, Connections: 3}, {HostDelay: -1, PLDDelay: -1}}
		flights := map[*Grant]bool{}
		addr := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, byte(n % 3), byte(n % 11)}) }
		for range 1000 {
			now = now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
			n := rng.IntN(20)
			it := &Item{Host: uint64(n), PLD: uint64(n / 4), Addrs: []netip.Addr{addr(n), addr(n + 7)},
				Robots: rng.IntN(9) == 0, First: rng.IntN(9) == 0, Connection: uint8(rng.IntN(3)), Terms: terms[1]}
			switch k := rng.IntN(100); {
			case k < 40:
				s.Admit(now, it)
			case k < 70:
				if g, _ := s.Next(now); g != nil {
					flights[g] = true
				}
			case k < 90:
				for g := range flights {
					delete(flights, g)
					if k < 75 {
						s.Drop(now, g)
					} else {
						s.Done(now, g, Result{Backoff: time.Duration(k%2) * time.Second, Kept: time.Second})
					}
					break
				}
			case k < 93:
				s.EvictLater(now, 0, 5)
			case k < 95:
				s.SetTerms(now, map[uint64]*Terms{uint64(n): terms[k%3]}, nil)
			case k < 98:
				s.Hold(now, addr(n), Holding{})
			default:
				s.Release(now, addr(n))
			}
			checkParts(t, s)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// checkParts checks the invariants of the package comment.
func checkParts(t *testing.T, s *Scheduler) {
	items, unheld := map[any]int{}, 0
	count := func(it *Item) {
		items[it.pld]++
		for _, v := range it.servers[:it.nservers] {
			items[v]++
			items[v.net]++
		}
	}
	s.Each(count)
	flying := map[*host]bool{}
	for _, g := range s.flights {
		flying[g.host] = true
	}
	for _, h := range s.hosts.table {
		places := 0
		for _, at := range []bool{h.in == &s.heaps.delayed, h.pausing != nil, h.waiting != nil, flying[h], h.stopped} {
			if at {
				places++
			}
		}
		if places != 1 || h.busy != flying[h] || (h.lineIndex > 0) != (h.len() > 0) {
			t.Errorf("host %d is at %d places: %+v", h.key, places, h)
		}
	}
	for _, v := range s.heaps.servers.table {
		if v.items != items[v] || v.inLine && v.in != nil || v.line.Len() > 0 && !v.held && !v.inLine && v.in == nil {
			t.Errorf("server %v with %d items: %+v", v.key.addr(), items[v], v)
		}
	}
	for _, p := range s.heaps.plds.table {
		if p.items != items[p] || p.line.Len() > 0 && !p.held && p.in != &s.heaps.plds.due {
			t.Errorf("PLD %d with %d items: %+v", p.key, items[p], p)
		}
	}
	for _, n := range s.nets.table {
		if n.items != items[n] {
			t.Errorf("network %v with %d items: %+v", n.key.addr(), items[n], n)
		}
		if !n.held {
			unheld += n.items
		}
	}
	if s.opt.Leased && s.nets.unheld != unheld {
		t.Errorf("networks.unheld is %d, want %d", s.nets.unheld, unheld)
	}
}
