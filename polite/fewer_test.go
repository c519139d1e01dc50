package polite

import (
	"net/netip"
	"testing"
	"time"
)

// termsOf returns terms for host and PLD 1.
func termsOf(connections int, delay time.Duration) map[uint64]*Terms {
	return map[uint64]*Terms{1: {HostDelay: delay, Connections: connections, Own: true}}
}

// fourConnections returns a scheduler with so many items for each of four connections of host 1.
func fourConnections(t *testing.T, now time.Time, items int, delay time.Duration) *Scheduler {
	s := New(Options{StartAtGrant: true}, now)
	for i := range 4 * items {
		it := &Item{Host: 1, PLD: 1, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Connection: uint8(i % 4),
			Terms: termsOf(4, delay)[1]}
		if v := s.Admit(now, it); v.Kind != Admitted {
			t.Fatalf("%+v", v)
		}
	}
	return s
}

// begin returns all grants of now.
func begin(s *Scheduler, now time.Time) (flights []*Grant) {
	for g, _ := s.Next(now); g != nil; g, _ = s.Next(now) {
		flights = append(flights, g)
	}
	return flights
}

// TestFewerConnections: when a host gets fewer connections while more are in flight, no flight begins until fewer are,
// and never more than allowed are under way, whatever items the former ones still have. Afterwards nothing is stopped.
func TestFewerConnections(t *testing.T) {
	for allowed := 1; allowed <= 3; allowed++ {
		now := time.Unix(1000, 0)
		s := fourConnections(t, now, 5, 0)
		flights := begin(s, now)
		if len(flights) != 4 {
			t.Fatalf("%d flights with four connections", len(flights))
		}
		if n := s.SetTerms(now, termsOf(allowed, 0), termsOf(allowed, 0)); n != 1 {
			t.Errorf("%d hosts and PLDs changed, want 1", n)
		}
		done := 0
		for ; len(flights) > 0; done++ {
			now = now.Add(time.Millisecond)
			i := done % len(flights)
			s.Done(now, flights[i], Result{})
			flights = append(flights[:i], flights[i+1:]...)
			left := len(flights)
			flights = append(flights, begin(s, now)...)
			if len(flights) > max(left, allowed) {
				t.Fatalf("%d flights of %d allowed", len(flights), allowed)
			}
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

// TestStoppedConnectionsNewDelay: a connection that is stopped while its host gets a longer delay keeps to it when it
// is released.
func TestStoppedConnectionsNewDelay(t *testing.T) {
	now := time.Unix(1000, 0)
	s := fourConnections(t, now, 2, 0)
	flights := begin(s, now)
	s.SetTerms(now, termsOf(2, 0), termsOf(4, 0))
	s.Done(now, flights[0], Result{})
	s.SetTerms(now, termsOf(2, time.Minute), termsOf(2, time.Minute))
	for _, g := range flights[1:] {
		s.Done(now, g, Result{})
	}
	if g, _ := s.Next(now.Add(time.Second)); g != nil {
		t.Errorf("connection %d began after a second, with a delay of a minute", g.Item.Connection)
	}
	if g, _ := s.Next(now.Add(time.Minute)); g == nil {
		t.Error("no flight after the delay")
	}
}

// TestCrowdedForgotten: a host that is not visited again after it got fewer connections leaves nothing behind.
func TestCrowdedForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	s := fourConnections(t, now, 1, time.Second)
	for _, g := range begin(s, now) {
		s.Done(now, g, Result{})
	}
	s.SetTerms(now, termsOf(1, time.Second), nil)
	if len(s.hosts.crowded) != 1 {
		t.Fatalf("%d crowded hosts", len(s.hosts.crowded))
	}
	now = now.Add(time.Hour)
	s.Next(now)
	s.SetTerms(now, nil, nil)
	if len(s.hosts.crowded) != 0 {
		t.Errorf("%d crowded hosts after an hour without visits", len(s.hosts.crowded))
	}
}
