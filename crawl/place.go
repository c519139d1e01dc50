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

// delta collects the moves of one step; it is applied under one hold of the lock.
type delta struct {
	moves     []move
	named     weburl.Sum // new names
	counts    [state.NumCounters]int64
	dirty     bool
	status    int // hundreds of a response's status, 0 for others; valid if hasStatus
	hasStatus bool
	wakes     []signal
	nothing   bool // the step changed nothing: nobody need look at what it did
}

// wake raises a signal once the step has been accounted for.
func (d *delta) wake(s signal) { d.wakes = append(d.wakes, s) }

// response counts a response by its status.
func (d *delta) response(status int) {
	d.status, d.hasStatus, d.dirty = status/100, true, true
	if d.status < 1 || d.status > 5 {
		d.status = 0
	}
}

// count adds to a counter.
func (d *delta) count(c state.Counter, n int64) { d.counts[c] += n; d.dirty = true }

type move struct {
	key      uint64
	from, to state.Place
	reason   state.Reason
	was      state.Reason
}

// enter notes a new unique URL.
func (d *delta) enter(key uint64, to state.Place) {
	d.moves = append(d.moves, move{key: key, from: -1, to: to})
}

// move notes that a URL changed its place.
func (d *delta) move(key uint64, from, to state.Place) {
	d.moves = append(d.moves, move{key: key, from: from, to: to})
}

func (a *accounts) apply(d *delta) {
	if len(d.moves) == 0 && !d.dirty && d.named.N == 0 {
		return
	}
	a.mu.Lock()
	for _, m := range d.moves {
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
		if m.to == state.PlaceLater {
			a.s.Later[m.reason]++
		}
		if m.from == state.PlaceLater {
			a.s.Later[m.was]--
		}
	}
	a.s.Names.Merge(d.named)
	if d.dirty {
		for i, n := range d.counts {
			a.s.Counters[i] += n
		}
		if d.hasStatus {
			a.s.Status[d.status]++
		}
	}
	a.mu.Unlock()
	d.reset()
}

func (d *delta) reset() {
	d.moves, d.named = d.moves[:0], weburl.Sum{}
	if d.dirty {
		d.counts = [state.NumCounters]int64{}
		d.dirty, d.hasStatus = false, false
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
