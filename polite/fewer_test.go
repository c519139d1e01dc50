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

// TestStoppedLanesNewDelay: a lane that is stopped while its host gets a longer delay keeps to it when it is released.
func TestStoppedLanesNewDelay(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Options{StartAtGrant: true}, now)
	terms := func(lanes int, delay time.Duration) map[uint64]*Terms {
		return map[uint64]*Terms{1: {HostDelay: delay, PLDDelay: 0, Lanes: lanes, Own: true}}
	}
	four := terms(4, 0)
	for range 2 {
		for lane := range uint8(4) {
			it := &Item{Host: 1, PLD: 1, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Lane: lane, Terms: four[1]}
			if v := s.Admit(now, it); v.Kind != Admitted {
				t.Fatalf("%+v", v)
			}
		}
	}
	var flights []*Grant
	for range 4 {
		g, _ := s.Next(now)
		if g == nil {
			t.Fatal("no flight")
		}
		flights = append(flights, g)
	}
	s.SetTerms(now, terms(2, 0), four)
	s.Done(now, flights[0], Result{})
	slow := terms(2, time.Minute)
	s.SetTerms(now, slow, slow)
	for _, g := range flights[1:] {
		s.Done(now, g, Result{})
	}
	if g, _ := s.Next(now.Add(time.Second)); g != nil {
		t.Errorf("lane %d was visited again after a second, with a delay of a minute", g.Item.Lane)
	}
	if g, _ := s.Next(now.Add(time.Minute)); g == nil {
		t.Error("no flight after the delay")
	}
}

// TestCrowdedForgotten: a host that is not visited again after it got fewer lanes leaves nothing behind.
func TestCrowdedForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(Options{StartAtGrant: true}, now)
	terms := func(lanes int) map[uint64]*Terms {
		return map[uint64]*Terms{1: {HostDelay: time.Second, PLDDelay: 0, Lanes: lanes, Own: true}}
	}
	for lane := range uint8(4) {
		it := &Item{Host: 1, PLD: 1, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Lane: lane, Terms: terms(4)[1]}
		if v := s.Admit(now, it); v.Kind != Admitted {
			t.Fatalf("%+v", v)
		}
		g, _ := s.Next(now)
		s.Done(now, g, Result{})
	}
	s.SetTerms(now, terms(1), terms(1))
	if len(s.lanes.crowded) != 1 {
		t.Fatalf("%d crowded hosts", len(s.lanes.crowded))
	}
	now = now.Add(time.Hour)
	s.Next(now)
	s.SetTerms(now, nil, nil)
	if len(s.lanes.crowded) != 0 {
		t.Errorf("%d crowded hosts after an hour without visits", len(s.lanes.crowded))
	}
}
