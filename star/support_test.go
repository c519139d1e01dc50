package star

import (
	"math"
	"slices"
	"testing"
)

// TestSupportCodes: the codes are in the order of trust and supporters, and give them back.
func TestSupportCodes(t *testing.T) {
	last := Support(0)
	for standing := 0.; standing < 1; standing += 1. / 5000 {
		s := newSupport(standing, 1e6)
		if s < last || s == 0 || s.Supporters() != 0 || math.Abs(s.Standing()-standing) > 1./500 {
			t.Fatalf("standing %v: code %d after %d, standing %v", standing, s, last, s.Standing())
		}
		last = s
	}
	for n := 0.; n < 1e9; n = n*1.1 + 0.1 {
		s := newSupport(1, n)
		if s <= last || s.Standing() != 1 || math.Abs(s.Supporters()-n) > 0.0002*(n+1) {
			t.Fatalf("%v supporters: code %d after %d, %v", n, s, last, s.Supporters())
		}
		last = s
	}
	if s := newSupport(math.Inf(1), math.MaxFloat64); s != math.MaxUint16 {
		t.Errorf("the most has code %d", s)
	}
}

// TestSupportedPages: over many turns a PLD without standing gets its fraction of pages, and with spare at least one.
func TestSupportedPages(t *testing.T) {
	c := newCurve(Budgets{Function: Supporters, Default: 2, Max: 50, Ranks: 10, QueuePages: Unscaled}, 1000, nil)
	c.by([]uint32{9000, 8000, 7000, 6000, 5000, 4000, 3000, 2500, 2000, 1500, 1400, 1300})
	for _, s := range []Support{0, 1, 100, 700, 1023} {
		for _, key := range []uint64{0, 1 << 40, math.MaxUint64} {
			sum := 0
			const turns = 4096
			for turn := range uint32(turns) {
				_, pages := c.supported(key, s, turn, false)
				sum += int(pages)
				if _, spare := c.supported(key, s, turn, true); spare < 1 {
					t.Fatalf("code %d: no page with spare", s)
				}
			}
			if got, want := float64(sum)/turns, c.share(s); math.Abs(got-want) > 0.01 {
				t.Errorf("code %d: %.3f pages a turn, want %.3f", s, got, want)
			}
		}
	}
	var got []uint32
	for _, s := range []Support{9000, 5000, 1500, 1400, 1024} {
		_, pages := c.supported(1, s, 0, false)
		got = append(got, pages)
	}
	if want := []uint32{20, 13, 4, 2, 2}; !slices.Equal(got, want) { // ranks 1, 5, 10, and below
		t.Errorf("budgets by rank: %d, want %d", got, want)
	}
}

// TestManySeeds: of more seeds than fit, those with the lowest keys stay.
func TestManySeeds(t *testing.T) {
	var s Star
	for i := range uint64(MostSeeds + 1000) {
		s.Trust([]uint64{i * 0x9e3779b97f4a7c15, 7})
	}
	if s.Trusted() != MostSeeds || !slices.IsSorted(s.seeds) || s.seeds[0] != 0 || !slices.Contains(s.seeds, 7) {
		t.Errorf("%d seeds, first %d", s.Trusted(), s.seeds[0])
	}
	if top := s.seeds[MostSeeds-1]; top > math.MaxUint64/100*99 {
		t.Errorf("highest key %x is above the sample", top)
	}
}
