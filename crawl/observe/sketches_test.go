package observe

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"drumbeat/crawl/testworld"
	"drumbeat/state/snapshot"
)

// TestPagesBelow compares the shares of PLDs with exact ones. Additions that a crash repeats must not count,
// and a checkpoint must keep the sketches.
func TestPagesBelow(t *testing.T) {
	rng := rand.New(rand.NewPCG(*testworld.Seed, 1))
	s := NewSketches()
	if got := s.pagesBelow(); got != [len(snapshot.PLDShares)]int64{} {
		t.Errorf("without PLDs: %v", got)
	}
	var pages []uint32
	for range 50_000 {
		pld, all := rng.Uint64(), uint32(1/(1-rng.Float64())) // half have 1, a quarter 2 or 3 …
		all = min(all, 1<<20)
		pages = append(pages, all)
		for n := uint32(0); n < all; {
			next := min(all, n+1+rng.Uint32N(all))
			for range 1 + rng.IntN(2) {
				s.AddPages(pld, n, next)
			}
			n = next
		}
	}
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again := NewSketches()
	if err := again.Decode(data); err != nil {
		t.Fatal(err)
	}
	slices.Sort(pages)
	for i, below := range again.pagesBelow() {
		share := snapshot.PLDShares[i]
		// The estimate may be off by a few percent of the PLDs above.
		rank := func(off float64) int { return int((1 - (1-share)*off) * float64(len(pages)-1)) }
		low, high := pages[rank(1.05)], pages[rank(0.95)]
		if below <= int64(low) || below > 2*int64(high) {
			t.Errorf("share %v: below %d, want above %d and at most twice %d", share, below, low, high)
		}
	}
	if s.pagesBelow() != again.pagesBelow() {
		t.Errorf("%v, after decoding %v", s.pagesBelow(), again.pagesBelow())
	}
}

// TestServersWithoutNames: an address that answers is a server, also if no name led there; an address that was looked
// up counts once.
func TestServersWithoutNames(t *testing.T) {
	s := NewSketches()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	s.AddServers([]netip.Addr{a})
	s.AddAnswer([]byte("a.example"), 1, a)
	s.AddAnswer([]byte("2001:db8::1"), 2, b)
	var snap snapshot.Snapshot
	if s.Show(&snap); snap.Servers != 2 || snap.ServersAnswered != 2 {
		t.Errorf("%d servers, %d answered; want 2 and 2", snap.Servers, snap.ServersAnswered)
	}
}
