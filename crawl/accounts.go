package crawl

import (
	"sync"

	"drumbeat/crawl/state"
)

// accounts keeps number and key sum of every place. The files are the truth; these are what the progress shows, what
// `audit` compares each file with, and, for ended URLs, the only memory of them.
type accounts struct {
	mu sync.Mutex // guards all; held for a few additions only
	s  state.Accounts
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
