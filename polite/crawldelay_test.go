package polite

import (
	"net/netip"
	"testing"
	"time"
)

// TestCrawlDelayHoldsForRobotsRequests: a robots request redirected from another host keeps the host's
// Crawl-delay, known only to its pages, from the pages before and after it.
func TestCrawlDelayHoldsForRobotsRequests(t *testing.T) {
	const delay = 10 * time.Second
	now := time.Now()
	s := New(Options{HostDelay: time.Second, HostDelayMin: time.Second, ServerDelayMin: time.Millisecond}, now)
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	visit := func(it *Item, at time.Time) {
		t.Helper()
		if v := s.Admit(now, it); v.Kind != Admitted {
			t.Fatalf("not admitted: %+v", v)
		}
		for ; now.Before(at); now = now.Add(100 * time.Millisecond) {
			if g, _ := s.Next(now); g != nil {
				t.Fatalf("granted %v too early", at.Sub(now))
			}
		}
		now = at
		g, _ := s.Next(now)
		if g == nil {
			t.Fatal("not granted when its time has come")
		}
		s.Done(now, g, Result{})
	}
	page := func() *Item { return &Item{Host: 1, PLD: 1, Addrs: addrs, CrawlDelay: delay} }
	robots := func() *Item { return &Item{Host: 1, PLD: 1, Addrs: addrs, Robots: true} }
	visit(page(), now)
	visit(robots(), now.Add(delay))
	visit(page(), now.Add(delay))
	visit(robots(), now.Add(delay))
	visit(robots(), now.Add(delay))
}
