package polite

import (
	"net/netip"
	"time"
)

// Grant is permission to fetch one item now, from Addr only. Done or Drop must end it. Landed may come before
// Done.
type Grant struct {
	Item *Item
	Addr netip.Addr
	// Again estimates the time from this grant to the host's next visit, to decide whether to keep the
	// connection. 0: the host has no other item queued, or the network has enough idle connections.
	Again time.Duration

	host    *host
	server  *server
	index   int // index in Scheduler.flights, or in Scheduler.landed if landed
	landed  bool
	started bool
	keeps   bool // counted in network.keeps
}

// Result is the outcome of an exchange.
type Result struct {
	Elapsed       time.Duration // the site's response time; 0: unknown or no response
	Backoff       time.Duration // lower bound of the host's delay (429, 503, timeouts); 0: none
	ServerBackoff time.Duration // the same for the server, from now (refused or timed out); 0: none
	// CrawlDelay is the Crawl-delay of a robots.txt just read. The host keeps it (capped) for all visits
	// while it is in the table, even if its items say less; 0: nothing new.
	CrawlDelay time.Duration
	// Sign says whether the exchange shows strain, for adaptive delays. A back-off always does.
	Sign Sign
	// Kept bounds how long a connection to the grant's address is left open; 0: it was closed. The host's
	// next item uses it unless another server is ready earlier. Set it only if Grant.Again is positive.
	Kept time.Duration
}

// Next grants the item whose host, PLD, server and network are all ready and whose server became ready
// first. Otherwise it returns nil and how long to wait before the next call, unless Ready is signalled
// earlier; Forever if nothing is scheduled. A wait of 0 means that it examined many entities that were not
// ready, and should be called again.
func (s *Scheduler) Next(now time.Time) (*Grant, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	g, wait := s.next(at)
	if s.told = int64(Forever); wait != Forever {
		s.told = at + int64(wait)
	}
	return g, wait
}

func (s *Scheduler) next(at int64) (*Grant, time.Duration) {
	// Due hosts are moved in small lots so that a burst, as after a restart, does not hold the lock for
	// long. Each call moves some.
	const lot, tries = 64, 256
	for range tries {
		more := s.moveDue(at, lot)
		more = s.movePLDs(at, lot) || more
		if g, turn := s.turn(at); g != nil {
			return g, 0
		} else if !turn && !more {
			return nil, s.wait(at)
		}
	}
	return nil, 0
}

// turn serves a ready server of firstHeap, or else the server or network that became ready first. It returns false if
// none is ready.
func (s *Scheduler) turn(now int64) (*Grant, bool) {
	v, n := s.serverHeap.top(), s.netHeap.top()
	f := s.firstHeap.top()
	switch {
	case f != nil && f.when <= now:
		return s.serverTurn(f.server, now), true
	case n != nil && n.when <= now && (v == nil || n.when <= v.when):
		return s.networkTurn(n.net, now), true
	case v != nil && v.when <= now:
		return s.serverTurn(v.server, now), true
	}
	return nil, false
}

// NextReady returns the earliest time at which Next may have something to do, or false if nothing is
// scheduled.
func (s *Scheduler) NextReady(now time.Time) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	w := s.wait(at)
	if w == Forever {
		return time.Time{}, false
	}
	return now.Add(w), true
}

func (s *Scheduler) wait(now int64) time.Duration {
	w := Forever
	for _, h := range [...]*heap{&s.hostHeap, &s.serverHeap, &s.firstHeap, &s.idleServers, &s.pldHeap, &s.netHeap,
		&s.idlePLDs, &s.idleNets} {
		if n := h.top(); n != nil {
			w = min(w, max(time.Duration(n.when-now), 0))
		}
	}
	return w
}

// moveDue moves up to n hosts whose delay has passed to the line of a server or of their PLD, and drops idle
// entries; more says that some are left.
func (s *Scheduler) moveDue(now int64, n int) (more bool) {
	for ; ; n-- {
		t := s.hostHeap.top()
		if t == nil || t.when > now {
			break
		}
		if n <= 0 {
			return true
		}
		h := t.host
		s.unschedule(h)
		if h.len() == 0 {
			if keep := h.end + adaptedKept*int64(s.opt.HostDelay); h.steps > 0 && keep > now {
				h.when = keep
				s.pushHeap(&s.hostHeap, &h.node)
				continue
			}
			s.setSteps(h, 0)
			delete(s.hosts, h.key)
			signal(s.room)
			continue
		}
		s.arrive(h, now)
	}
	s.dropIdle(now)
	return false
}

// dropIdle drops servers, PLDs and networks that have no items and whose delay has passed.
func (s *Scheduler) dropIdle(now int64) {
	for {
		t := s.idleServers.top()
		if t == nil || t.when > now {
			break
		}
		s.idleServers.remove(t)
		s.dropServer(t.server, now)
	}
	for t := s.idlePLDs.top(); t != nil && t.when <= now; t = s.idlePLDs.top() {
		s.placePLD(t.pld, now)
		signal(s.room)
	}
	for t := s.idleNets.top(); t != nil && t.when <= now; t = s.idleNets.top() {
		s.placeNet(t.net, now)
		signal(s.room)
	}
}

// joinLine adds a due host to the line of the server of its front item that will be ready first. atOnce says
// that it is ready now.
func (s *Scheduler) joinLine(h *host, now int64) (atOnce bool) {
	it := h.front()
	first := int(h.turns % maxAddrs)
	for i, v := range it.servers[:it.nservers] {
		if v.key == h.kept && h.hasKept {
			first = i
		}
	}
	var best *server
	var bestTurn int64
	for i := range it.nservers {
		v := it.servers[(i+first)%it.nservers]
		turn := max(v.when, now) + int64(v.line.Len())*s.serverDelay(v)
		if v.held {
			turn += s.serverDelay(v)
		}
		if n := v.net; n != nil {
			turn = max(turn, n.next+int64(n.line.Len())*s.netApart)
			if s.opt.Leased && !n.held {
				turn += int64(leaseWait)
			}
		}
		if best == nil || turn < bestTurn {
			best, bestTurn = v, turn
		}
	}
	urgent := h.urgent || it.First
	atOnce = !best.held && best.when <= now && (best.line.Len() == 0 || urgent)
	if n := best.net; n != nil && atOnce {
		atOnce = n.line.Len() == 0 && s.mayVisit(n, best, now)
	}
	h.waiting = best
	if urgent {
		best.line.PushFront(h)
	} else {
		best.line.PushBack(h)
	}
	s.place(best, now)
	return atOnce
}

// grant grants the front item of the host that pick selects in the server's line. It returns nil if there is
// none; some hosts have then left the line.
func (s *Scheduler) grant(v *server, now int64) *Grant {
	h := s.pick(v, now)
	if h == nil {
		s.place(v, now)
		return nil
	}
	v.line.Remove(h)
	h.waiting, h.urgent = nil, false
	it := h.front()
	g := &Grant{Item: it, host: h, server: v, index: len(s.flights)}
	for i, w := range it.servers[:it.nservers] {
		if w == v {
			g.Addr = it.Addrs[it.addrs[i]]
		}
	}
	h.busy = true
	h.turns++
	s.dequeue(it, now)
	s.take(h)
	if next := h.front(); next != nil && (v.net == nil || s.mayKeep(v.net, now)) {
		if g.keeps = v.net != nil; g.keeps {
			v.net.keeps++
		}
		g.Again = time.Duration(max(s.hostSpacing(h, next), int64(it.pld.hosts)*s.pldDelay(it.pld)))
	}
	s.flights = append(s.flights, g)
	s.crowd(it.Host, now)
	v.held = true
	v.flights++
	s.place(v, now)
	s.hold(g, now)
	if s.opt.StartAtGrant {
		s.start(g, now)
	}
	return g
}

// Started says that the request is about to be written: the server's τs counts from now. Without it, τs
// counts from Done. Further calls for the same grant have no effect.
func (s *Scheduler) Started(now time.Time, g *Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(g, s.at(now))
}

func (s *Scheduler) start(g *Grant, now int64) {
	if g.started || g.host == nil {
		return
	}
	g.started = true
	v := g.server
	if g.host.visited {
		s.gaps.Host = min(s.gaps.Host, time.Duration(now-g.host.end))
	}
	if v.visited {
		s.gaps.Server = min(s.gaps.Server, time.Duration(now-v.last))
	}
	v.visited, v.last = true, now
	v.setWhen(now + s.serverDelay(v))
	v.held = false
	s.place(v, now)
	s.began(g, now, true)
	s.tell(now)
}

// Done ends a grant: the connection is closed or free, and the caller owns the item again. The host's delay
// counts from now. After Landed, the delay counts from that call, and r has no effect.
func (s *Scheduler) Done(now time.Time, g *Grant, r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	switch {
	case g.landed:
		g.landed = false
		s.landed = removeGrant(s.landed, g)
	case g.host == nil:
		panic("BUG: polite: grant is done already")
	default:
		s.endVisit(g, at, r)
	}
	s.unlink(g.Item, at)
	s.tell(at)
}

// Landed ends the exchange of a grant before Done, so that the host's next visit need not wait until the
// caller has processed the response. The host's delay counts from now. The item stays in RAM, as in flight,
// until Done. Landed does nothing if Done came first. If more is true, it returns what Next would return now:
// a grant for the caller, or nil.
func (s *Scheduler) Landed(now time.Time, g *Grant, r Result, more bool) (next *Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.host == nil {
		return nil
	}
	at := s.at(now)
	s.endVisit(g, at, r)
	g.landed, g.index = true, len(s.landed)
	s.landed = append(s.landed, g)
	if more {
		next, _ = s.next(at)
	}
	s.tell(at)
	return next
}

// tell signals Ready if the caller of Next was told to wait too long.
func (s *Scheduler) tell(at int64) {
	if wait := s.wait(at); wait != Forever && at+int64(wait) < s.told {
		signal(s.ready)
	}
}

// endVisit ends the exchange of a grant.
func (s *Scheduler) endVisit(g *Grant, at int64, r Result) {
	h, v := g.host, g.server
	s.start(g, at)
	if r.ServerBackoff > 0 {
		s.restServer(v, at, at+int64(r.ServerBackoff))
	}
	if r.Backoff > 0 {
		h.notBefore = max(h.notBefore, at+int64(r.Backoff)) // whatever becomes of the delay meanwhile
		if s.lanes {
			s.eachLane(g.Item.Host, func(lane *host) {
				if lane != h {
					s.restHost(lane, at, at+int64(r.Backoff))
				}
			})
		}
	}
	if g.keeps && r.Kept > 0 && s.opt.NetworkConnections > 0 {
		v.net.idle = append(v.net.idle, idleConn{h.key, at + int64(r.Kept)})
	}
	s.land(g, at)
	h.busy, h.visited = false, true
	h.end, h.elapsed = at, r.Elapsed
	if r.Elapsed > 0 {
		h.usual += (r.Elapsed - h.usual) / 8
	}
	if r.CrawlDelay > 0 {
		h.crawlDelay = r.CrawlDelay
	}
	h.kept, h.hasKept = v.key, r.Kept > 0
	if s.opt.Adaptive {
		s.adapt(h, g.Item, r)
	}
	h.plain = s.plainDelayOf(g.Item.Host, h, g.Item.Budget, h.terms)
	h.base = s.opt.delayAfter(h.plain, max(g.Item.CrawlDelay, h.crawlDelay), r, h.terms)
	h.cause = s.causeOf(h, max(g.Item.CrawlDelay, h.crawlDelay), r)
	s.schedule(h)
	s.crowd(g.Item.Host, at)
	s.peak.note(s.resting+len(s.flights), at, peakDelays*int64(s.opt.HostDelay))
}

// Drop ends a grant for which nothing was sent. It does not count as a visit: host, PLD, server and network
// are as ready as before. The caller owns the item again.
func (s *Scheduler) Drop(now time.Time, g *Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	h, v := g.host, g.server
	if h == nil {
		panic("BUG: polite: grant is done already")
	}
	if !g.started {
		v.held = false
		s.place(v, at)
		s.began(g, at, false)
	}
	s.land(g, at)
	h.busy = false
	s.schedule(h)
	s.crowd(g.Item.Host, at)
	s.unlink(g.Item, at)
	s.tell(at)
}

// land removes a grant from the flights.
func (s *Scheduler) land(g *Grant, now int64) {
	g.server.flights--
	if n := g.server.net; n != nil {
		n.flights--
		if g.keeps {
			n.keeps--
		}
		n.stuck = false
		s.placeNet(n, now)
	}
	g.host, g.server = nil, nil
	s.flights = removeGrant(s.flights, g)
}

// removeGrant removes g, at its index, from a list.
func removeGrant(list []*Grant, g *Grant) []*Grant {
	end := len(list) - 1
	last := list[end]
	list[g.index], last.index = last, g.index
	list[end] = nil
	return list[:end]
}
