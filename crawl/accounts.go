package crawl

import (
	"sync"

	"drumbeat/crawl/state"
	"drumbeat/weburl"
)

// accounts keeps number and key sum of every place. The files are the truth; these are what the progress shows, what
// `audit` compares each file with, and, for ended URLs, the only memory of them.
type accounts struct {
	mu sync.Mutex // guards all; held for a few additions only
	s  state.Accounts
}

// transaction collects the moves of one transaction; it is applied under one hold of the lock.
type transaction struct {
	moves     []move
	named     weburl.Sum // new names
	counts    [state.NumCounters]int64
	dirty     bool
	status    int // hundreds of a response's status, 0 for others; valid if hasStatus
	hasStatus bool
	wakes     []signal
	nothing   bool // the transaction changed nothing: nobody need look at what it did
}

// wake raises a signal once the transaction has been accounted for.
func (tx *transaction) wake(s signal) { tx.wakes = append(tx.wakes, s) }

// response counts a response by its status.
func (tx *transaction) response(status int) {
	tx.status, tx.hasStatus, tx.dirty = status/100, true, true
	if tx.status < 1 || tx.status > 5 {
		tx.status = 0
	}
}

// count adds to a counter.
func (tx *transaction) count(c state.Counter, n int64) { tx.counts[c] += n; tx.dirty = true }

type move struct {
	key      uint64
	from, to state.Place
	reason   state.Reason
	was      state.Reason
}

// enter notes a new unique URL.
func (tx *transaction) enter(key uint64, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: -1, to: to})
}

// move notes that a URL changed its place.
func (tx *transaction) move(key uint64, from, to state.Place) {
	tx.moves = append(tx.moves, move{key: key, from: from, to: to})
}

func (a *accounts) apply(tx *transaction) {
	if len(tx.moves) == 0 && !tx.dirty && tx.named.N == 0 {
		return
	}
	a.mu.Lock()
	for _, m := range tx.moves {
		if m.from < 0 {
			a.s.Unique.Add(m.key)
		} else {
			a.s.Places[m.from].Sub(m.key)
		}
		a.s.Places[m.to].Add(m.key)
		if m.to == state.PlaceRefused || m.to == state.PlaceHeld {
			a.s.Refused[m.reason]++
		}
		if m.from == state.PlaceHeld {
			a.s.Refused[m.was]--
		}
		if m.to == state.PlaceDeferred {
			a.s.Deferred[m.reason]++
		}
		if m.from == state.PlaceDeferred {
			a.s.Deferred[m.was]--
		}
	}
	a.s.Names.Merge(tx.named)
	if tx.dirty {
		for i, n := range tx.counts {
			a.s.Counters[i] += n
		}
		if tx.hasStatus {
			a.s.Status[tx.status]++
		}
	}
	a.mu.Unlock()
	tx.reset()
}

func (tx *transaction) reset() {
	tx.moves, tx.named = tx.moves[:0], weburl.Sum{}
	if tx.dirty {
		tx.counts = [state.NumCounters]int64{}
		tx.dirty, tx.hasStatus = false, false
	}
}

// copy returns the accounts of this moment.
func (a *accounts) copy() state.Accounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s
}

// places returns the number of URLs in a few places.
func (a *accounts) in(places ...state.Place) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var n int64
	for _, p := range places {
		n += a.s.Places[p].N
	}
	return n
}

// stock is what the paper's right half holds: the URLs that BEAST has released and that do not wait for a due time.
func (a *accounts) stock() int64 {
	return a.in(state.PlaceRobotsCheck, state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM)
}
