package stock

import (
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/polite"
	"drumbeat/state"
)

// TestStockShares: BEAST leaves a sixteenth of the stock to URLs that return. After four of them in a row it is BEAST's
// turn, if it has URLs. Either has room in the smallest stock.
func TestStockShares(t *testing.T) {
	for _, c := range []struct {
		target           int
		stock, beast     int64
		returned         int
		fresh, returning bool
	}{
		{160, 149, 9, 0, true, true},
		{160, 150, 9, 0, false, true}, // the share of what returns
		{160, 159, 9, 3, false, true},
		{160, 160, 9, 0, false, false},
		{160, 150, 9, 4, false, false}, // BEAST's turn, as soon as there is room for it
		{160, 149, 9, 4, true, true},
		{160, 150, 0, 4, false, true}, // BEAST has none
		{1, 0, 9, 0, true, true},
		{1, 1, 9, 0, false, false},
		{2, 1, 9, 0, false, true},
	} {
		run := account.New(nil, nil, nil)
		run.Accounts.Do(func(a *state.Accounts) {
			a.Places[state.PlaceRAM].N, a.Places[state.PlaceBeast].N = c.stock, c.beast
		})
		s := New(run, Options{Target: int64(c.target)})
		s.Wire(Others{Heaps: func() Heaps { return polite.New(polite.Options{}, time.Now()) }})
		for range c.returned {
			s.NoteReturn()
		}
		if fresh, returning := !s.Stocked(), s.RoomForReturning(); fresh != c.fresh || returning != c.returning {
			t.Errorf("%+v: room for new URLs %v, for returning ones %v", c, fresh, returning)
		}
		s.NoteFresh()
		if returning := s.RoomForReturning(); returning != (c.stock < int64(c.target)) {
			t.Errorf("%+v: after a new URL, room for returning ones %v", c, returning)
		}
	}
}
