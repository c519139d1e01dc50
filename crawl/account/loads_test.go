package account

import (
	"log/slog"
	"math/rand/v2"
	"testing"

	"drumbeat/cluster"
	"drumbeat/state"
	"drumbeat/weburl"
)

// TestLoads: after transactions of all kinds, the loads of slots have the sums of the accounts, and each slot those of
// its URLs.
func TestLoads(t *testing.T) {
	r := New(slog.New(slog.DiscardHandler), nil, nil)
	r.Accounts.CountLoads(new(cluster.Loads))
	rng := rand.New(rand.NewPCG(1, 2))
	places := [...]state.Place{state.PlaceStar, state.PlaceReady, state.PlaceRAM, state.PlaceDeferred,
		state.PlaceFetched, state.PlaceRefused}
	at, orders, known, fetched := map[uint64]state.Place{}, map[uint64]bool{}, [cluster.Slots]int64{}, int64(0)
	for range 5000 {
		key := rng.Uint64() % 1000 << 16 // a slot each
		to := places[rng.IntN(len(places))]
		if err := r.Transact(func(tx *Tx) error {
			from, is := at[key]
			switch {
			case !is && rng.IntN(2) == 0:
				tx.Enter(key, to)
				known[weburl.SlotOf(key)]++
			case !is:
				tx.EnterOrder(key, to)
				orders[key] = true
			case orders[key] && rng.IntN(3) == 0:
				tx.Adopt(key)
				known[weburl.SlotOf(key)]++
				delete(orders, key)
				to = from
			case orders[key] && rng.IntN(3) == 0:
				tx.Leave(key, from, state.ReasonNone)
				delete(orders, key)
				delete(at, key)
				return nil
			case from == state.PlaceRAM && to == state.PlaceFetched:
				tx.Count(state.CountBytesWire, 7)
				tx.Fetched(key, rng.IntN(2) == 0, 7)
				fetched++
				fallthrough
			default:
				tx.Move(key, from, to)
			}
			at[key] = to
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	l, a := r.Accounts.Loads(), r.Accounts.Copy()
	sum := l.Sum()
	if sum.Known != a.Unique.N || sum.Waiting != a.Waiting() || sum.Bytes != 7*fetched || sum.Waiting == 0 ||
		fetched < 50 || sum.Pages < fetched/4 || sum.Pages > fetched*3/4 || a.Orders.N == 0 {
		t.Errorf("%+v, of %d responses; accounts %d, %d, %d", sum, fetched, a.Unique.N, a.Waiting(), a.Orders.N)
	}
	for slot, n := range known {
		if l.Slots[slot].Known != n {
			t.Errorf("slot %d has %d known URLs, want %d", slot, l.Slots[slot].Known, n)
		}
	}
}
