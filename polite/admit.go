package polite

import "time"

// Admit offers an item. Admitted: the scheduler owns it until Next or an eviction. Deferred: a share is
// exceeded; offer it again at Due, which is also set in the item. Full: RAM or a table is full; offer it
// again after Room. Items for robots.txt have a separate share at each server and none at their host.
func (s *Scheduler) Admit(now time.Time, it *Item) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	defer s.tell(at)
	return s.admit(at, it)
}

// AdmitNow is Admit followed by Next for one item that takes precedence. It returns the grant if the item
// can be granted at once, else nil, and the item is not admitted.
func (s *Scheduler) AdmitNow(now time.Time, it *Item) *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	defer s.tell(at)
	if s.admit(at, it).Kind != Admitted {
		return nil
	}
	h := it.host
	if !h.busy && h.in != nil && h.when <= at {
		s.heaps.unschedule(h)
		s.heaps.arrive(h, at)
	}
	if v := h.waiting; v != nil && h.front() == it && it.names(v) && v.line.Front() == h &&
		(v.in == &s.heaps.servers.due || v.in == &s.heaps.servers.first) && v.when <= at &&
		s.heaps.plds.ready(it.pld, at) &&
		(v.net == nil || v.net.line.Len() == 0 && s.nets.mayVisit(v.net, v, at)) {
		return s.grant(s.heaps.pick(v, at), v, at)
	}
	s.withdraw(it, at)
	return nil
}

func (s *Scheduler) admit(at int64, it *Item) Verdict {
	if len(it.Addrs) == 0 {
		panic("BUG: polite: item without addresses")
	}
	if due, why := s.overShare(at, it); why != None {
		it.Due = s.time(due)
		return Verdict{Deferred, it.Due, why}
	}
	if s.items > 0 && (s.items >= s.opt.MaxItems || s.bytesFull(it)) {
		return Verdict{Kind: Full}
	}
	if s.tableFull(it) {
		s.heaps.moveDue(at, len(s.heaps.delayed.nodes))
		if s.tableFull(it) {
			return Verdict{Kind: Full}
		}
	}
	s.hosts.several = s.hosts.several || it.Connection > 0
	h := s.hosts.table[it.key()]
	if h == nil {
		h = s.hosts.add(it.key(), at)
		if it.Terms != nil && it.Terms.Connections > 1 {
			s.hosts.each(it.Host, func(other *host) { h.notBefore = max(h.notBefore, other.notBefore) })
		}
	}
	if h.terms.same(it.Terms) {
		h.terms = it.Terms
	} else {
		s.heaps.setTerms(h, it.Host, it.Terms)
	}
	if visited, counts := s.opt.countsVisited(it.PLD); counts && !h.visited {
		h.visited, h.end = true, visited
		s.hosts.setDelay(h, it.Host, it.Budget, it.CrawlDelay, Result{})
	}
	if it.CrawlDelay > 0 {
		// It also separates requests that do not know it, such as for a robots.txt of another host
		// redirected here.
		h.crawlDelay = it.CrawlDelay
	}
	s.items++
	s.bytes += it.bytes()
	s.heaps.link(it, at)
	s.heaps.enqueue(h, it, at)
	return Verdict{Kind: Admitted}
}

// withdraw removes a queued item.
func (s *Scheduler) withdraw(it *Item, at int64) {
	s.heaps.dequeue(it, at)
	s.free(it, at)
}

// free removes an item that has been granted.
func (s *Scheduler) free(it *Item, at int64) {
	s.items--
	s.bytes -= it.bytes()
	s.heaps.unlink(it, at)
}

// tableFull reports whether the item needs an entry in a full table. An item may add up to three servers
// beyond the bound.
func (s *Scheduler) tableFull(it *Item) bool {
	if s.hosts.table[it.key()] == nil && len(s.hosts.table) >= s.opt.MaxHosts {
		return true
	}
	plds, servers := s.heaps.plds.table, s.heaps.servers.table
	if len(plds) >= s.opt.MaxHosts && plds[it.PLD] == nil {
		return true
	}
	if len(servers) < s.opt.MaxHosts && len(s.nets.table) < s.opt.MaxHosts {
		return false
	}
	for _, a := range it.Addrs {
		k := serverOf(a)
		if servers[k] == nil && (len(servers) >= s.opt.MaxHosts || s.nets.gated && s.nets.table[k.network()] == nil) {
			return true
		}
	}
	return false
}
