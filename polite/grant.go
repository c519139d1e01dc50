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
		more := s.heaps.moveDue(at, lot)
		more = s.heaps.movePLDs(at, lot) || more
		if h, v, turned := s.heaps.turn(at); h != nil {
			return s.grant(h, v, at), 0
		} else if !turned && !more {
			return nil, s.heaps.wait(at)
		}
	}
	return nil, 0
}

// NextReady returns the earliest time at which Next may have something to do, or false if nothing is
// scheduled.
func (s *Scheduler) NextReady(now time.Time) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	w := s.heaps.wait(at)
	if w == Forever {
		return time.Time{}, false
	}
	return now.Add(w), true
}

// grant grants the front item of a host that pick has taken from the server's line.
func (s *Scheduler) grant(h *host, v *server, now int64) *Grant {
	it := h.front()
	g := &Grant{Item: it, host: h, server: v, index: len(s.flights)}
	for i, w := range it.servers[:it.nservers] {
		if w == v {
			g.Addr = it.Addrs[it.addrs[i]]
		}
	}
	h.busy = true
	h.turns++
	s.heaps.dequeue(it, now)
	s.nets.forgetKept(h)
	if next := h.front(); next != nil && (v.net == nil || s.nets.mayKeep(v.net, now)) {
		if g.keeps = v.net != nil; g.keeps {
			v.net.keeps++
		}
		g.Again = time.Duration(max(s.hosts.spacing(h, next), int64(it.pld.hosts)*s.opt.pldDelay(it.pld)))
	}
	s.flights = append(s.flights, g)
	s.heaps.crowd(it.Host, now)
	s.heaps.granted(it.pld, v, now)
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
	s.heaps.began(g.Item.pld, v, now, true)
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
	s.free(g.Item, at)
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

// endVisit ends the exchange of a grant.
func (s *Scheduler) endVisit(g *Grant, at int64, r Result) {
	h, v := g.host, g.server
	s.start(g, at)
	if r.ServerBackoff > 0 {
		s.heaps.servers.rest(v, at, at+int64(r.ServerBackoff))
	}
	if r.Backoff > 0 {
		h.notBefore = max(h.notBefore, at+int64(r.Backoff)) // whatever becomes of the delay meanwhile
		if s.hosts.several {
			s.hosts.each(g.Item.Host, func(other *host) {
				if other != h {
					s.heaps.restHost(other, at, at+int64(r.Backoff))
				}
			})
		}
	}
	if g.keeps && r.Kept > 0 {
		s.nets.keep(v.net, h.key, at+int64(r.Kept))
	}
	s.land(g, at)
	h.kept, h.hasKept = v.key, r.Kept > 0
	s.hosts.visited(h, g.Item, r, at)
	s.heaps.schedule(h)
	s.heaps.crowd(g.Item.Host, at)
	s.peak.note(s.hosts.resting+len(s.flights), at, peakDelays*int64(s.opt.HostDelay))
}

// Drop ends a grant for which nothing was sent. It does not count as a visit: host, PLD, server and network
// are as ready as before. The caller owns the item again.
func (s *Scheduler) Drop(now time.Time, g *Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	h := g.host
	if h == nil {
		panic("BUG: polite: grant is done already")
	}
	if !g.started {
		s.heaps.began(g.Item.pld, g.server, at, false)
	}
	s.land(g, at)
	h.busy = false
	s.heaps.schedule(h)
	s.heaps.crowd(g.Item.Host, at)
	s.free(g.Item, at)
	s.tell(at)
}

// land removes a grant from the flights.
func (s *Scheduler) land(g *Grant, now int64) {
	g.server.flights--
	if n := g.server.net; n != nil {
		s.nets.ended(n, g.keeps, now)
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
