package account

import (
	"drumbeat/cluster"
	"drumbeat/state"
	"drumbeat/weburl"
)

// A node of a cluster counts its loads by slot, with the accounts and under their mutex: a checkpoint has both of the
// same moment. Keys must have slots (weburl.Hasher.WithSlots).

// CountLoads begins to count loads by slot, from those of a checkpoint. Accounts keeps l. No transaction runs yet.
func (a *Accounts) CountLoads(l *cluster.Loads) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loads = l
}

// Loads returns a copy of the loads by slot; nil if they are not counted.
func (a *Accounts) Loads() *cluster.Loads {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loads == nil {
		return nil
	}
	l := *a.loads
	return &l
}

// TakeLoad returns the load of a slot, and sets it to zero: the slot has moved to another node. Like AddLoad it belongs
// to the transaction, or to the moment of the exclusive lock, that changes the owner. It does nothing if loads are not
// counted.
func (a *Accounts) TakeLoad(slot int) (l cluster.Load) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loads != nil {
		l, a.loads.Slots[slot] = a.loads.Slots[slot], cluster.Load{}
	}
	return l
}

// AddLoad adds a load to that of a slot: the slot has moved here.
func (a *Accounts) AddLoad(slot int, l cluster.Load) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loads != nil {
		a.loads.Slots[slot].Add(l)
	}
}

// fetched is a final response for a URL.
type fetched struct {
	key   uint64
	page  bool
	bytes int64
}

// Fetched notes a final response for the slot of a URL; page says whether it counts as one (state.CountPages). The
// caller counts the totals.
func (tx *Tx) Fetched(key uint64, page bool, bytes int64) {
	tx.fetched = append(tx.fetched, fetched{key, page, bytes})
}

// addLoads adds what tx has recorded to the loads. The mutex is held.
func (a *Accounts) addLoads(tx *Tx) {
	for _, m := range tx.moves {
		l := &a.loads.Slots[weburl.SlotOf(m.key)]
		if m.from == asUnique {
			l.Known++
		}
		if waits(m.from) {
			l.Waiting--
		}
		if waits(m.to) {
			l.Waiting++
		}
	}
	for _, f := range tx.fetched {
		l := &a.loads.Slots[weburl.SlotOf(f.key)]
		if f.page {
			l.Pages++
		}
		l.Bytes += f.bytes
	}
}

// waits reports whether a URL of a place counts in state.Accounts.Waiting.
func waits(p state.Place) bool { return p >= 0 && p != state.PlaceFetched && p != state.PlaceRefused }
