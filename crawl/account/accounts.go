package account

import (
	"sync"

	"drumbeat/cluster"
	"drumbeat/state"
)

// Accounts holds the number and the key sum of the URLs in each place. The files are authoritative. The
// accounts feed the progress display, and `audit` compares each file with them. For URLs that have ended,
// the accounts are the only record. It is safe for concurrent use.
type Accounts struct {
	mu    sync.Mutex // guards s and loads; held for a few additions only
	s     state.Accounts
	loads *cluster.Loads // nil: a crawl of one node
}

// Apply adds what tx has recorded, under one hold of the mutex, and empties tx.
func (a *Accounts) Apply(tx *Tx) {
	if len(tx.moves) == 0 && !tx.dirty && tx.named.N == 0 {
		return
	}
	a.mu.Lock()
	for _, m := range tx.moves {
		switch m.from {
		case asUnique:
			a.s.Unique.Add(m.key)
		case asOrder:
			a.s.Orders.Add(m.key)
		case asMoved:
			a.s.Moved.Add(m.key)
			a.s.Got.Waiting.Add(m.key)
		default:
			a.s.Places[m.from].Sub(m.key)
		}
		switch m.to {
		case asOrder:
			a.s.Orders.Sub(m.key)
		case asMoved:
			a.s.Moved.Sub(m.key)
			a.s.Got.Known.Add(m.key)
		case asGiven:
			a.s.Moved.Sub(m.key)
			a.s.Given.Waiting.Add(m.key)
		default:
			a.s.Places[m.to].Add(m.key)
		}
		if m.from >= 0 && m.to >= 0 {
			if c, ok := state.FlowOf(m.from, m.to); ok {
				a.s.Counters[c]++
			}
		}
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
	if a.loads != nil {
		a.addLoads(tx)
	}
	a.s.Names.Merge(tx.named)
	if tx.dirty {
		for i, n := range tx.counts {
			a.s.Counters[i] += n
		}
		if tx.hasStatus {
			a.s.Status[tx.status]++
			a.s.Codes[tx.code]++
		}
		if tx.failed != state.ReasonNone {
			a.s.Failed[tx.failed]++
		}
	}
	a.mu.Unlock()
	tx.Reset()
}

// Do calls f with the accounts, under their mutex. f may read and change them; it must not wait.
func (a *Accounts) Do(f func(s *state.Accounts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.s)
}

// Copy returns a copy of the current accounts.
func (a *Accounts) Copy() state.Accounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s
}

// Counter returns the value of a counter.
func (a *Accounts) Counter(n state.Counter) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s.Counters[n]
}

// Ordered is state.Accounts.Ordered.
func (a *Accounts) Ordered() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s.Ordered()
}

// In returns the total number of URLs in the given places.
func (a *Accounts) In(places ...state.Place) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var n int64
	for _, p := range places {
		n += a.s.Places[p].N
	}
	return n
}

// DeferredFor returns the number of URLs deferred for a reason.
func (a *Accounts) DeferredFor(why state.Reason) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s.Deferred[why]
}

// Stock returns the number of URLs that BEAST has released and that do not wait for a due time.
func (a *Accounts) Stock() int64 {
	return a.In(state.PlaceRobotsCheck, state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM)
}

// RaisePeak raises the peaks to those of p.
func (a *Accounts) RaisePeak(p state.Peak) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.s.Peak.Pages, a.s.Peak.Bits = max(a.s.Peak.Pages, p.Pages), max(a.s.Peak.Bits, p.Bits)
}
