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
	if !h.busy && h.in == &s.hostHeap && h.when <= at {
		s.unschedule(h)
		s.arrive(h, at)
	}
	if v := h.waiting; v != nil && h.front() == it && it.names(v) && v.line.Front() == h &&
		(v.in == &s.serverHeap || v.in == &s.firstHeap) && v.when <= at &&
		(!s.gatePLDs || !it.pld.held && it.pld.next <= at) &&
		(v.net == nil || v.net.line.Len() == 0 && s.mayVisit(v.net, v, at)) {
		return s.grant(v, at)
	}
	s.dequeue(it, at)
	s.unlink(it, at)
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
		s.moveDue(at, len(s.hostHeap))
		if s.tableFull(it) {
			return Verdict{Kind: Full}
		}
	}
	s.lanes = s.lanes || it.Lane > 0
	h := s.hosts[it.key()]
	if h == nil {
		h = s.newHost(it.key(), at)
		if it.Terms != nil && it.Terms.Lanes > 1 {
			s.eachLane(it.Host, func(lane *host) { h.notBefore = max(h.notBefore, lane.notBefore) })
		}
	}
	if h.terms.same(it.Terms) {
		h.terms = it.Terms
	} else {
		s.setTerms(h, it.Host, it.Terms)
	}
	if s.hasVisited && !h.visited {
		h.visited, h.end = true, s.visited
		h.plain = s.plainDelayOf(it.Host, h, it.Budget, h.terms)
		h.base = s.opt.delayAfter(h.plain, it.CrawlDelay, Result{}, h.terms)
		h.cause = s.causeOf(h, it.CrawlDelay, Result{})
	}
	if it.CrawlDelay > 0 {
		// It also separates requests that do not know it, such as for a robots.txt of another host
		// redirected here.
		h.crawlDelay = it.CrawlDelay
	}
	s.link(it, at)
	s.enqueue(h, it, at)
	return Verdict{Kind: Admitted}
}

// tableFull reports whether the item needs an entry in a full table. An item may add up to three servers
// beyond the bound.
func (s *Scheduler) tableFull(it *Item) bool {
	if s.hosts[it.key()] == nil && len(s.hosts) >= s.opt.MaxHosts {
		return true
	}
	if len(s.plds) >= s.opt.MaxHosts && s.plds[it.PLD] == nil {
		return true
	}
	if len(s.servers) < s.opt.MaxHosts && len(s.nets) < s.opt.MaxHosts {
		return false
	}
	for _, a := range it.Addrs {
		k := serverOf(a)
		if s.servers[k] == nil && (len(s.servers) >= s.opt.MaxHosts || s.gateNets && s.nets[k.network()] == nil) {
			return true
		}
	}
	return false
}

func (s *Scheduler) newHost(key uint64, now int64) *host {
	h := &host{key: key, notBefore: now}
	h.node.host = h
	s.hosts[key] = h
	return h
}

func (s *Scheduler) newServer(k serverKey, now int64) *server {
	v := &server{key: k, net: s.networkOf(k, now)}
	v.node.server = v
	v.when = now
	if s.hasVisited {
		v.when = max(now, s.visited+int64(s.opt.ServerDelay))
	}
	s.servers[k] = v
	return v
}

// link counts the item at its servers and its PLD.
func (s *Scheduler) link(it *Item, now int64) {
	it.nservers = 0
	for i, a := range it.Addrs {
		if it.nservers == maxAddrs || i > 255 {
			break
		}
		k := serverOf(a)
		v := s.servers[k]
		if v == nil {
			v = s.newServer(k, now)
		}
		if it.names(v) {
			continue
		}
		it.servers[it.nservers], it.addrs[it.nservers] = v, uint8(i)
		it.nservers++
		v.items++
		v.budgets += s.budgetOf(it)
		if v.net != nil {
			v.net.items++
			if s.opt.Leased && !v.net.held {
				s.unheld++
				s.want(v.net, now)
			}
		}
		s.place(v, now)
	}
	p := s.plds[it.PLD]
	if p == nil {
		p = s.newPLD(it.PLD, now)
	}
	it.pld = p
	p.terms = it.Terms
	p.items++
	if it.Budget > 0 {
		p.budget = it.Budget
	}
	s.placePLD(p, now)
	s.items++
	s.bytes += it.bytes()
}

// names reports whether v is one of the item's servers.
func (it *Item) names(v *server) bool {
	for _, w := range it.servers[:it.nservers] {
		if v == w {
			return true
		}
	}
	return false
}

// unlink undoes link.
func (s *Scheduler) unlink(it *Item, now int64) {
	for i, v := range it.servers[:it.nservers] {
		v.items--
		v.budgets -= s.budgetOf(it)
		if v.net != nil {
			v.net.items--
			if s.opt.Leased && !v.net.held {
				s.unheld--
			}
		}
		s.place(v, now)
		it.servers[i] = nil
	}
	it.nservers = 0
	it.pld.items--
	s.placePLD(it.pld, now)
	it.pld = nil
	s.items--
	s.bytes -= it.bytes()
	signal(s.room)
}

// enqueue adds a linked item to its host's line.
func (s *Scheduler) enqueue(h *host, it *Item, now int64) {
	it.host = h
	switch {
	case it.Robots:
		h.robots.PushBack(it)
		it.countRobots(1)
	case it.First:
		h.pages.InsertAfter(it, h.lastFirst)
		h.lastFirst = it
	default:
		h.pages.PushBack(it)
	}
	if h.len() > 1 {
		if it.First && h.front() == it && (h.waiting != nil || h.pausing != nil) { // it is due: go before other hosts
			s.leave(h, now)
			s.arrive(h, now)
		}
		return
	}
	s.lines = append(s.lines, h)
	s.filled++
	h.lineIndex = len(s.lines)
	it.pld.hosts++
	if !h.busy {
		s.schedule(h)
		s.crowd(it.Host, now)
	}
	s.setBare(h)
}

// dequeue removes the item from its host's line, and an empty host from the lists of hosts with items.
func (s *Scheduler) dequeue(it *Item, now int64) {
	h := it.host
	if it.Robots {
		h.robots.Remove(it)
		it.countRobots(-1)
	} else {
		if h.lastFirst == it {
			if h.lastFirst = h.pages.Prev(it); h.lastFirst != nil && !h.lastFirst.First {
				panic("BUG: polite: a First item is behind another")
			}
		}
		h.pages.Remove(it)
	}
	it.host = nil
	if h.len() > 0 {
		return
	}
	last := s.lines[len(s.lines)-1]
	s.lines[h.lineIndex-1], last.lineIndex = last, h.lineIndex
	s.lines[len(s.lines)-1] = nil
	s.lines = s.lines[:len(s.lines)-1]
	h.lineIndex = 0
	it.pld.hosts--
	if h.waiting != nil || h.pausing != nil {
		s.leave(h, now)
		s.schedule(h)
	}
	h.urgent = false
	s.setBare(h)
}

// countRobots counts a queued robots item at its PLD, servers and networks.
func (it *Item) countRobots(n int) {
	it.pld.robots += n
	for _, v := range it.servers[:it.nservers] {
		v.robots += n
		if v.net != nil {
			v.net.robots += n
		}
	}
}

// schedule adds a host that is not busy to the host heap at its due time.
func (s *Scheduler) schedule(h *host) {
	s.unschedule(h)
	if h.stopped {
		return
	}
	h.when = s.dueAt(h)
	s.pushHeap(&s.hostHeap, &h.node)
	if rest := time.Duration(h.when - h.end); h.visited && rest > 0 &&
		rest <= max(s.opt.HostDelay, s.opt.MaxCrawlDelay) {
		h.resting = true
		s.resting++
	}
	s.setBare(h)
}

// unschedule removes a host from the host heap, if it is there.
func (s *Scheduler) unschedule(h *host) {
	if h.in != nil {
		h.in.remove(&h.node)
	}
	if h.resting {
		h.resting = false
		s.resting--
	}
	s.setBare(h)
}

// setBare updates whether Scheduler.bare counts the host.
func (s *Scheduler) setBare(h *host) {
	bare := h.len() == 0 && (h.resting || h.busy)
	if bare && !h.bare {
		s.bare++
	} else if !bare && h.bare {
		s.bare--
	}
	h.bare = bare
}
