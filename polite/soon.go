package polite

import "time"

// Soon returns how many hosts with queued items may be sent one within a time from now: those whose delay ends
// until then, of the ones in line at a server no more than it is sent until then. Few while RAM is full means
// that it is full of slow hosts. It takes the lock for O(hosts with items).
func (s *Scheduler) Soon(now time.Time, within time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	limit := at + int64(max(within, 0))
	n := 0
	for _, h := range s.lines {
		switch {
		case h.busy:
			if at+s.hostSpacing(h, h.front()) <= limit {
				n++
			}
		case h.waiting == nil && h.when <= limit:
			n++
		}
	}
	for _, t := range s.serverHeap {
		n += s.turns(t.server, max(t.when, at), limit)
	}
	for _, g := range s.flights {
		if v := g.server; v.held && !g.started { // the one that holds it
			n += s.turns(v, at+s.serverDelay(v), limit)
		}
	}
	return n
}

// turns is how many of the hosts in the server's line get their turn until limit if the first gets it at from.
func (s *Scheduler) turns(v *server, from, limit int64) int {
	if from > limit {
		return 0
	}
	return int(min(int64(v.waiting), 1+(limit-from)/max(s.serverDelay(v), 1)))
}
