package polite

import (
	"net/netip"
	"testing"
	"time"
)

// firstItem returns an item of a host at an address of its own or of another host.
func firstItem(host uint64, addr byte, first bool) *Item {
	return &Item{Host: host, PLD: host, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 1, addr})}, First: first}
}

// grantAt returns the next grant at the earliest possible time, and ends it at once.
func grantAt(t *testing.T, s *Scheduler, now *time.Time) *Item {
	t.Helper()
	for range 1000 {
		g, wait := s.Next(*now)
		if g != nil {
			s.Started(*now, g)
			s.Done(*now, g, Result{})
			return g.Item
		}
		if wait == Forever {
			return nil
		}
		*now = now.Add(max(wait, time.Nanosecond))
	}
	t.Fatal("no grant after 1000 calls")
	return nil
}

// TestFirst: First items go before the other pages of their host in the order of their admission, need no share, and
// their host goes before the hosts that wait for the same server. Delays hold, and Turn tells the times.
func TestFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Options{HostDelay: 10 * time.Second, HostDelayMin: 10 * time.Second, ServerDelay: time.Second,
		ServerDelayMin: time.Second, MaxPerHost: 4}, now)
	admit := func(it *Item) {
		t.Helper()
		if v := s.Admit(now, it); v.Kind != Admitted {
			t.Fatalf("item of host %d: %+v", it.Host, v)
		}
	}
	for range 4 {
		admit(firstItem(1, 1, false))
	}
	grantAt(t, s, &now) // host 1 is in its delay
	for h := uint64(2); h < 8; h++ {
		admit(firstItem(h, 1, false)) // they wait for the server
	}
	a, b, c := firstItem(1, 1, true), firstItem(1, 1, true), firstItem(7, 1, true)
	began := now
	var turns []time.Duration
	for _, it := range []*Item{a, b} {
		turns = append(turns, s.Turn(now, 1, 1, 0, nil).Wait)
		admit(it)
	}
	admit(c)
	for range 3 {
		admit(firstItem(1, 1, true)) // beyond MaxPerHost
	}
	var order []*Item
	var at []time.Duration
	for range 10 {
		order, at = append(order, grantAt(t, s, &now)), append(at, now.Sub(began))
	}
	if order[0] != c || at[0] != time.Second {
		t.Errorf("the first grant is of host %d after %v, want host 7 after 1s", order[0].Host, at[0])
	}
	for i, want := range []*Item{a, b} {
		for k, it := range order {
			if it == want && (at[k]-turns[i]).Abs() > time.Second {
				t.Errorf("First item %d of host 1 was granted after %v, Turn said %v", i, at[k], turns[i])
			} else if it.Host == 1 && !it.First {
				t.Errorf("grant %d is of another page of host 1", k)
			}
		}
	}
	if turns[0] != 10*time.Second || turns[1] != 20*time.Second {
		t.Errorf("turns %v, want 10s and 20s", turns)
	}
	if g := s.Gaps(); g.Host < 10*time.Second || g.Server < time.Second {
		t.Errorf("gaps %+v", g)
	}
}

// TestFirstEvicted: First items leave as others do, and those left stay in front.
func TestFirstEvicted(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Options{HostDelay: time.Second, HostDelayMin: time.Second}, now)
	a, b, c := firstItem(1, 1, true), firstItem(1, 1, true), firstItem(1, 1, false)
	for _, it := range []*Item{c, a, b} {
		s.Admit(now, it)
	}
	if out := s.EvictItems(now, []*Item{b}); len(out) != 1 {
		t.Fatalf("%d items evicted", len(out))
	}
	d := firstItem(1, 1, true)
	s.Admit(now, d)
	if got := [3]*Item{grantAt(t, s, &now), grantAt(t, s, &now), grantAt(t, s, &now)}; got != [3]*Item{a, d, c} {
		t.Errorf("granted in another order")
	}
	if q, f := s.Len(); q+f != 0 {
		t.Errorf("%d items left", q+f)
	}
}

// TestEvictForFirst: room for a First item is made of other items only, also in a host that has both.
func TestEvictForFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Options{HostDelay: 10 * time.Second, HostDelayMin: 10 * time.Second, MaxItems: 7,
		MaxPerPLD: Unlimited, MaxPerServer: Unlimited}, now)
	for _, it := range []*Item{firstItem(1, 1, true), firstItem(1, 1, true), firstItem(2, 2, false),
		firstItem(2, 2, false), firstItem(3, 3, true), firstItem(3, 3, false), firstItem(3, 3, false)} {
		if v := s.Admit(now, it); v.Kind != Admitted {
			t.Fatalf("item of host %d: %+v", it.Host, v)
		}
	}
	if v := s.Admit(now, firstItem(4, 4, true)); v.Kind != Full {
		t.Fatalf("item 8 of 7: %+v", v)
	}
	out := s.EvictForFirst(now, 100)
	by := map[uint64]int{}
	for _, it := range out {
		if by[it.Host]++; it.First {
			t.Errorf("a First item of host %d was evicted", it.Host)
		}
	}
	if len(out) != 3 || by[2] != 1 || by[3] != 2 {
		t.Errorf("evicted %v, want the one of host 2 that is not due, and the two of host 3", by)
	}
	if out := s.EvictLater(now, 0, 100); len(out) != 1 || !out[0].First {
		t.Errorf("EvictLater took %d, want the First item that is not due", len(out))
	}
}
