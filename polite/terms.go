package polite

import "time"

// Terms are delays that replace those of Options for the hosts of a site. They are immutable. A nil *Terms
// replaces nothing.
//
// A host may have several connections, numbered from 0. Each is scheduled as a host of its own, with its own delay and
// its own share of RAM. A back-off, and the limits of servers, PLDs and networks, hold for all of them together. The
// caller decides which item goes to which connection; robots items go to connection 0.
type Terms struct {
	HostDelay time.Duration // replaces τh·B0/Bx of a host; negative: does not
	HostLeast time.Duration // lower bound of the delay of a host
	PLDDelay  time.Duration // replaces the delay of a PLD; negative: does not
	// Connections to a host, at most MaxConnections; 0 is 1. HostLeast and a delay of SetHostDelay are those of all of
	// them together.
	Connections int
	// Own says that the site is the operator's: the Crawl-delay and ResponseFactor do not apply. Back-offs do.
	Own bool
}

// MaxConnections is the largest number of connections to a host.
const MaxConnections = 16

// together returns the delay of each connection so that all together have the delay d.
func (t *Terms) together(d time.Duration) time.Duration {
	if t != nil && t.Connections > 1 {
		return d * time.Duration(t.Connections)
	}
	return d
}

// pldDelay returns the delay of a PLD; negative for none.
func (t *Terms) pldDelay() time.Duration {
	if t == nil {
		return -1
	}
	return max(t.PLDDelay, -1)
}

// connections returns the number of connections.
func (t *Terms) connections() int {
	if t == nil {
		return 1
	}
	return max(t.Connections, 1)
}

// same reports whether both say the same.
func (t *Terms) same(other *Terms) bool {
	return t == other || t != nil && other != nil && *t == *other
}

func (t *Terms) own() bool { return t != nil && t.Own }

// fixed reports whether a host has a delay that does not follow from its budget.
func (t *Terms) fixed() bool { return t != nil && t.HostDelay >= 0 }

// SetTerms replaces the terms of hosts and PLDs in RAM, by their keys. A host that is in its delay gets the
// new one at once, but not before the end of a back-off; a PLD gets it with its next visit. If a host has
// fewer connections than before, a flight begins only while fewer than so many of all its connections are in
// flight; the caller evicts the items of the connections that are gone. SetTerms returns the number of hosts
// and PLDs whose terms have changed.
func (s *Scheduler) SetTerms(now time.Time, hosts, plds map[uint64]*Terms) (changed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	for key := range s.hosts.crowded { // forget those not visited again whose connections have left the table
		s.heaps.crowd(key, at)
	}
	for key, t := range plds {
		if p := s.heaps.plds.table[key]; p != nil {
			if !p.terms.same(t) && p.terms.pldDelay() != t.pldDelay() {
				changed++
			}
			p.terms = t
		}
	}
	for key, t := range hosts {
		other := false
		s.hosts.each(key, func(h *host) {
			other = other || !h.terms.same(t)
			s.heaps.setTerms(h, key, t)
		})
		if other {
			changed++
			s.heaps.fewer(key, t.connections(), at)
		}
	}
	s.tell(at)
	return changed
}

// fewer notes that a host has n connections now. If the table has more, crowd keeps their flights to n.
func (hs *heaps) fewer(key uint64, n int, at int64) {
	if !hs.hosts.several {
		return
	}
	delete(hs.hosts.crowded, key)
	if hs.hosts.beyond(key, n) {
		hs.hosts.crowded[key] = n
	} else {
		n = MaxConnections
	}
	hs.stop(key, n, at)
}

// crowd stops or releases the connections of a host that had more of them than now. Call it after each begin and end of
// a flight, and when a connection gets its first item.
func (hs *heaps) crowd(key uint64, at int64) {
	n, ok := hs.hosts.crowded[key]
	if !ok {
		return
	}
	if !hs.hosts.beyond(key, n) {
		delete(hs.hosts.crowded, key)
		n = MaxConnections
	}
	hs.stop(key, n, at)
}

// stop stops the connections of a host that are not in flight if n or more are, else it releases them.
func (hs *heaps) stop(key uint64, n int, at int64) {
	busy := 0
	hs.hosts.each(key, func(h *host) {
		if h.busy {
			busy++
		}
	})
	hs.hosts.each(key, func(h *host) {
		switch {
		case h.busy:
		case busy >= n && !h.stopped:
			hs.leave(h, at)
			h.stopped, h.urgent = true, false
			hs.unschedule(h)
		case busy < n && h.stopped:
			h.stopped = false
			hs.schedule(h)
			hs.setTerms(h, key, h.terms) // they may have changed while it was not in the heap
		}
	})
}

// setTerms replaces the terms of one connection of a host.
func (hs *heaps) setTerms(h *host, key uint64, t *Terms) {
	if hs.hosts.setTerms(h, key, t) {
		hs.schedule(h)
	}
}

// setTerms replaces the terms of one connection of a host. It reports whether the host is in its delay, which may have
// changed.
func (ht *hosts) setTerms(h *host, key uint64, t *Terms) bool {
	if h.terms = t; t.fixed() {
		ht.setSteps(h, 0)
	}
	if !h.visited || h.in == nil {
		return false
	}
	budget, crawlDelay := uint32(0), h.crawlDelay
	if it := h.front(); it != nil {
		budget, crawlDelay = it.Budget, max(crawlDelay, it.CrawlDelay)
	}
	if h.cause == BindsBackoff {
		h.plain = ht.plainDelay(key, h, budget, t)
		h.base = max(h.base, h.plain)
	} else {
		ht.setDelay(h, key, budget, crawlDelay, Result{Elapsed: h.elapsed})
	}
	return true
}
