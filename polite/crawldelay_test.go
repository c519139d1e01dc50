package polite

import (
	"net/netip"
	"testing"
	"time"
)

// TestCrawlDelayHoldsForRobotsRequests: a robots request that another host's redirect leads to a host keeps that host's
// Crawl-delay, which only its pages know.
func TestCrawlDelayHoldsForRobotsRequests(t *testing.T) {
	now := time.Now()
	s := New(Options{HostDelay: time.Second, HostDelayMin: time.Second}, now)
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	const delay = 10 * time.Second
	for _, it := range []*Item{
		{Host: 1, PLD: 1, Addrs: addrs, Robots: true},
		{Host: 1, PLD: 1, Addrs: addrs, CrawlDelay: delay},
		{Host: 1, PLD: 1, Addrs: addrs, CrawlDelay: delay},
	} {
		if v := s.Admit(now, it); v.Kind != Admitted {
			t.Fatalf("not admitted: %+v", v)
		}
	}
	g, _ := s.Next(now)
	if g == nil || !g.Item.Robots {
		t.Fatalf("first grant %+v, want the robots request", g)
	}
	s.Done(now, g, Result{})
	for at := now; at.Before(now.Add(delay)); at = at.Add(100 * time.Millisecond) {
		if g, _ := s.Next(at); g != nil {
			t.Fatalf("a page %v after the robots request, Crawl-delay %v", at.Sub(now), delay)
		}
	}
	if g, _ = s.Next(now.Add(delay)); g == nil {
		t.Error("no page when its time has come")
	}
}
