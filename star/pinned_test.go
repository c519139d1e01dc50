package star_test

import (
	"slices"
	"testing"

	"drumbeat/star"
)

// TestPinned: a pinned budget replaces the one by in-degree, for the queue and for the delays.
func TestPinned(t *testing.T) {
	r := newRig(t, 2, 1, 2)
	pinned, free := r.plds[0], r.plds[1]
	var pages []uint32
	got := map[uint64]uint32{}
	opt := r.opt
	opt.Name = "pinned"
	opt.Budgets = star.Budgets{Default: 10, Max: 1000, Ranks: 8, QueuePages: -1}
	opt.Pinned = func(pld uint64) uint32 {
		if pld == pinned {
			return 77
		}
		return 0
	}
	opt.Place = func(_ *[16]byte, n uint32, _, _ uint8) int64 { pages = append(pages, n); return 1 }
	opt.Emit = func(placed []star.Placed) error {
		for _, p := range placed {
			got[p.PLD] = p.Budget
		}
		return nil
	}
	s, err := star.Open(opt, nil)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	must(t, s.Check([]star.CheckTuple{{PLD: pinned, Aux: []byte("a")}, {PLD: free, Aux: []byte("b")}}))
	_, err = s.PassAll(t.Context())
	must(t, err)
	slices.Sort(pages)
	if !slices.Equal(pages, []uint32{10, 77}) || got[pinned] != 77 || got[free] != 10 {
		t.Errorf("placed with %v pages, budgets %v", pages, got)
	}
}

// TestShare: a PLD whose hosts belong to several Stars gets its part of the budget in pages per queue and of the limit,
// but the delays are those of the whole budget.
func TestShare(t *testing.T) {
	r := newRig(t, 2, 1, 2)
	divided, whole := r.plds[0], r.plds[1]
	pages, over := map[uint32]int{}, map[uint64]int{}
	opt := r.opt
	opt.Name, opt.MaxPlaced = "share", 8
	opt.Budgets = star.Budgets{Default: 10, Max: 1000, Ranks: 8, QueuePages: -1}
	opt.Share = func(pld uint64) float64 {
		if pld == divided {
			return 0.25
		}
		return 1
	}
	opt.Place = func(_ *[16]byte, n uint32, _, _ uint8) int64 { pages[n]++; return 1 }
	opt.Emit = func(placed []star.Placed) error {
		for _, p := range placed {
			if p.Budget != 10 {
				t.Errorf("a budget of %d, want that of the whole PLD", p.Budget)
			}
			if p.Number == star.OverLimit {
				over[p.PLD]++
			}
		}
		return nil
	}
	s, err := star.Open(opt, nil)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	for range 10 {
		must(t, s.Check([]star.CheckTuple{{PLD: divided, Aux: []byte("a")}, {PLD: whole, Aux: []byte("b")}}))
	}
	_, err = s.PassAll(t.Context())
	must(t, err)
	if pages[3] != 2 || pages[10] != 8 || over[divided] != 8 || over[whole] != 2 {
		t.Errorf("URLs by pages per queue: %v; over the limit: %v", pages, over)
	}
}
