package polite

import (
	"net/netip"
	"testing"
	"time"
)

// TestFewerLanes: when a host gets fewer lanes while more are in flight, no flight begins until fewer are, and never
// more than allowed are under way, whatever items the former lanes still have. Afterwards nothing is stopped.
func TestFewerLanes(t *testing.T) {
	for allowed := 1; allowed <= 3; allowed++ {
		now := time.Unix(1000, 0)
		s := New(Options{StartAtGrant: true}, now)
		four := &Terms{HostDelay: 0, PLDDelay: 0, Lanes: 4, Own: true}
		for range 5 {
			for lane := range uint8(4) {
				it := &Item{Host: 1, PLD: 1, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Lane: lane, Terms: four}
				if v := s.Admit(now, it); v.Kind != Admitted {
					t.Fatalf("%+v", v)
				}
			}
		}
		var flights []*Grant
		begin := func() {
			for {
				g, _ := s.Next(now)
				if g == nil {
					return
				}
				flights = append(flights, g)
			}
		}
		if begin(); len(flights) != 4 {
			t.Fatalf("%d flights with four lanes", len(flights))
		}
		less := &Terms{HostDelay: 0, PLDDelay: 0, Lanes: allowed, Own: true}
		if n := s.SetTerms(now, map[uint64]*Terms{1: less}, map[uint64]*Terms{1: less}); n != 1 {
			t.Errorf("%d hosts and PLDs changed, want 1", n)
		}
		done := 0
		for len(flights) > 0 {
			now = now.Add(time.Millisecond)
			s.Done(now, flights[done%len(flights)], Result{})
			flights = append(flights[:done%len(flights)], flights[done%len(flights)+1:]...)
			left := len(flights)
			begin()
			if len(flights) > max(left, allowed) {
				t.Fatalf("%d flights of %d allowed", len(flights), allowed)
			}
			done++
		}
		if done != 20 {
			t.Errorf("%d of 20 items were granted", done)
		}
		now = now.Add(time.Hour)
		s.Next(now)
		if hosts, _ := s.Tables(); hosts != 0 {
			t.Errorf("%d hosts are left in the table", hosts)
		}
	}
}
