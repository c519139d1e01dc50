package polite

import (
	"net/netip"
	"time"
)

// Grant is leave to fetch one item now, from Addr and no other. It must be ended by Done.
type Grant struct {
	Item *Item
	Addr netip.Addr
	// Again is when the host's next visit is to be expected, from this grant on, if it has another item queued: whether a
	// connection is worth keeping. 0: it has none.
	Again time.Duration

	host    *host
	server  *server
	index   int // in Scheduler.flights
	started bool
}

// Result is what the caller says of an exchange.
type Result struct {
	Elapsed       time.Duration // from request to the end of the response; 0 = unknown
	Backoff       time.Duration // the host's delay is at least this (429, 503, time-outs); 0 = none
	ServerBackoff time.Duration // so is the server's, from now (connection refused or timed out); 0 = none
	// CrawlDelay is what the robots.txt just read asks for. The host keeps it (capped) for this and all further
	// visits as long as it is in the table, whatever its items say if that is less; 0 = nothing new.
	CrawlDelay time.Duration
	// Kept says that a connection to the grant's address was kept open: as long as no other server's turn comes earlier the
	// host's next item goes there too.
	Kept bool
}

// Next grants the item whose host and server are both ready and whose server's turn came first. If there is
// none it returns nil and how long to wait before asking again, unless Ready is signalled; Forever if nothing
// is scheduled.
func (s *Scheduler) Next(now time.Time) (*Grant, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	// Due hosts are moved in small lots, so that a burst (all delays pass at once after a restart) does not
	// hold the lock for long; every grant pays for some.
	const lot = 64
	for {
		more := s.moveDue(at, lot)
		if n := s.serverHeap.top(); n != nil && n.when <= at {
			if g := s.grant(n.server, at); g != nil {
				return g, 0
			}
			continue
		}
		if !more {
			return nil, s.wait(at)
		}
	}
}

// NextReady returns the earliest time at which Next may have something to do; false if nothing is scheduled.
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
	for _, h := range [...]heap{s.hostHeap, s.serverHeap, s.idleServers} {
		if n := h.top(); n != nil {
			w = min(w, max(time.Duration(n.when-now), 0))
		}
	}
	return w
}

// moveDue moves up to n hosts whose delay has passed to the line of a server, and drops idle hosts and
// servers; more tells that some are left.
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
		s.hostHeap.remove(t)
		if h.len() == 0 {
			delete(s.hosts, h.key)
			signal(s.room)
			continue
		}
		s.joinLine(h, now)
	}
	for {
		t := s.idleServers.top()
		if t == nil || t.when > now {
			return false
		}
		s.idleServers.remove(t)
		delete(s.servers, t.server.key)
		signal(s.room)
	}
}

// joinLine puts a due host into the line of that server of its front item whose turn will come first.
func (s *Scheduler) joinLine(h *host, now int64) {
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
		turn := max(v.when, now) + int64(v.waiting)*s.serverDelay(v)
		if v.held {
			turn += s.serverDelay(v)
		}
		if best == nil || turn < bestTurn {
			best, bestTurn = v, turn
		}
	}
	best.pushWait(h)
	s.place(best, now)
}

// grant takes the front item of the first host in the server's line. It returns nil if that item is not to be
// had from this server: a robots item came to the front meanwhile; then the host goes to another line.
func (s *Scheduler) grant(v *server, now int64) *Grant {
	h := v.head
	v.removeWait(h)
	it := h.front()
	if !it.names(v) {
		s.place(v, now)
		s.joinLine(h, now)
		return nil
	}
	g := &Grant{Item: it, host: h, server: v, index: len(s.flights)}
	for i, w := range it.servers[:it.nservers] {
		if w == v {
			g.Addr = it.Addrs[it.addrs[i]]
		}
	}
	h.busy = true
	h.turns++
	s.dequeue(it, now)
	if next := h.front(); next != nil {
		g.Again = time.Duration(s.hostSpacing(h, next))
	}
	s.flights = append(s.flights, g)
	v.held = true
	s.place(v, now)
	if s.opt.StartAtGrant {
		s.start(g, now)
	}
	return g
}

// Started says that the request is about to be written: τs of the server counts from now. Without it, it
// counts from Done. Calling it twice for one grant has no effect.
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
	v.setWhen(now + s.serverDelay(v))
	v.held = false
	s.place(v, now)
	if v.waiting > 0 {
		signal(s.ready)
	}
}

// Done ends a grant: the connection is closed or free, the item is the caller's. The host's delay counts from
// now.
func (s *Scheduler) Done(now time.Time, g *Grant, r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	h, v := g.host, g.server
	if h == nil {
		panic("BUG: polite: grant is done already")
	}
	s.start(g, at)
	if r.ServerBackoff > 0 {
		s.restServer(v, at, at+int64(r.ServerBackoff))
	}
	s.land(g)
	h.busy, h.visited = false, true
	h.end = at
	h.usual += (r.Elapsed - h.usual) / 8
	if r.CrawlDelay > 0 {
		h.crawlDelay = r.CrawlDelay
	}
	h.kept, h.hasKept = v.key, r.Kept
	h.base = s.opt.DelayAfter(g.Item.Budget, max(g.Item.CrawlDelay, h.crawlDelay), r)
	h.plain = s.opt.plainDelay(g.Item.Budget)
	s.schedule(h)
	s.unlink(g.Item, at)
	signal(s.ready)
}

// Drop ends a grant for which nothing was sent, so that it doesn't count as a visit: host and server are as ready as
// before. The item is the caller's.
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
	}
	s.land(g)
	h.busy = false
	s.schedule(h)
	s.unlink(g.Item, at)
	signal(s.ready)
}

// land takes a grant out of the flights.
func (s *Scheduler) land(g *Grant) {
	g.host, g.server = nil, nil
	last := s.flights[len(s.flights)-1]
	s.flights[g.index], last.index = last, g.index
	s.flights[len(s.flights)-1] = nil
	s.flights = s.flights[:len(s.flights)-1]
}
