package polite

import "time"

// evictable is a host as a candidate for EvictLater. Its last item is due at when.
type evictable struct {
	when int64
	host *host
	left int // pages not taken yet
	step int64
}

// EvictLater removes and returns up to n items that are due after now+over, the latest first. It makes room
// when connections idle while slow hosts fill RAM. It sets the Due at which to offer each item again. It
// does not take robots items.
func (s *Scheduler) EvictLater(now time.Time, over time.Duration, n int) []*Item {
	return s.evictLater(now, over, n, false)
}

// EvictForFirst is EvictLater to make room for a First item. It takes no First items.
func (s *Scheduler) EvictForFirst(now time.Time, n int) []*Item { return s.evictLater(now, 0, n, true) }

func (s *Scheduler) evictLater(now time.Time, over time.Duration, n int, keepFirst bool) []*Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	defer s.tell(at)
	limit := at + int64(max(over, 0))
	var q []evictable
	kept := func(h *host) bool { return keepFirst && h.pages.Back() == h.lastFirst } // its pages are First items
	for _, h := range s.hosts.queued {
		if e := s.evictable(h, at); e.left > 0 && e.when > limit && !kept(h) {
			q = append(q, e)
		}
	}
	for i := len(q)/2 - 1; i >= 0; i-- {
		siftDown(q, i)
	}
	var out []*Item
	for len(out) < n && len(q) > 0 {
		e := &q[0]
		out = append(out, s.takeLast(e, at))
		if e.left == 0 || e.when <= limit || kept(e.host) {
			q[0] = q[len(q)-1]
			q = q[:len(q)-1]
		}
		siftDown(q, 0)
	}
	return out
}

// EvictHost removes and returns all pages of a host that are due after now+over, the latest first, for a
// host in a long back-off. It sets the Due at which to offer each item again.
func (s *Scheduler) EvictHost(now time.Time, key uint64, over time.Duration) []*Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	defer s.tell(at)
	limit := at + int64(max(over, 0))
	var out []*Item
	s.hosts.each(key, func(h *host) {
		for e := s.evictable(h, at); e.left > 0 && e.when > limit; {
			out = append(out, s.takeLast(&e, at))
		}
	})
	return out
}

// evictable estimates when the host's last item is due: after its other items and after the hosts before it
// in the line of its server or PLD.
func (s *Scheduler) evictable(h *host, now int64) evictable {
	e := evictable{host: h, left: h.pages.Len()}
	if e.left == 0 {
		return e
	}
	last := h.pages.Back()
	p := last.pld
	e.step = max(s.hosts.spacing(h, last), int64(p.hosts)*s.opt.pldDelay(p))
	e.when = max(now, s.opt.dueAt(h)) + int64(h.len()-1)*e.step
	if h.busy {
		e.when += e.step
	}
	if v := h.waiting; v != nil {
		e.when = max(e.when, v.when+int64(v.line.Len()-1)*s.opt.serverDelay(v))
	}
	if p := h.pausing; p != nil {
		e.when = max(e.when, p.next+int64(p.line.Len()-1)*s.opt.pldDelay(p))
	}
	return e
}

// takeLast removes the host's last page.
func (s *Scheduler) takeLast(e *evictable, now int64) *Item {
	it := e.host.pages.Back()
	it.Due = s.time(min(e.when, now+int64(s.opt.MaxDefer)))
	s.withdraw(it, now)
	e.left--
	e.when -= e.step
	return it
}

// siftDown restores the max-heap q, ordered by when, below i.
func siftDown(q []evictable, i int) {
	for {
		c := 2*i + 1
		if c >= len(q) {
			return
		}
		if c+1 < len(q) && q[c+1].when > q[c].when {
			c++
		}
		if q[i].when >= q[c].when {
			return
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
}

// EvictItems removes and returns those of the given items that are still queued, except robots items, for
// instance because they may no longer be requested. It sets their Due to now. Items are identified by
// pointer.
func (s *Scheduler) EvictItems(now time.Time, items []*Item) (out []*Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	defer s.tell(at)
	for _, it := range items {
		if it.host == nil || it.Robots {
			continue
		}
		s.withdraw(it, at)
		it.Due = now
		out = append(out, it)
	}
	return out
}

// EvictUnheld removes and returns the pages of hosts that have waited for an unheld network for longer than
// over. It sets their Due to now+over. left is the number of queued items of all other hosts that wait for
// such a network.
func (s *Scheduler) EvictUnheld(now time.Time, over time.Duration) (out []*Item, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	for i := len(s.hosts.queued) - 1; i >= 0; i-- { // a host without items leaves the lines
		h := s.hosts.queued[i]
		v := h.waiting
		if v == nil || v.net == nil || v.net.held {
			continue
		}
		if at-v.net.wantedAt < int64(over) {
			left += h.len()
			continue
		}
		for it := h.pages.Back(); it != nil; it = h.pages.Back() {
			it.Due = now.Add(over)
			s.withdraw(it, at)
			out = append(out, it)
		}
	}
	s.tell(at)
	return out, left
}
