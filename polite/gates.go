package polite

import (
	"math"
	"net/netip"
	"slices"
)

// pld is the state of a PLD in RAM. It is in the PLD heap, by the time at which its next host may go to a
// server's line, if hosts wait in its line and it is not held; in the idle heap if it has no items but its
// delay has not passed; and otherwise in no heap.
type pld struct {
	node
	key    uint64
	budget uint32 // Bx of its latest item; 0: unknown
	items  int    // queued and in flight
	robots int    // queued robots items
	hosts  int    // hosts with queued items
	held   bool   // granted, but the request has not started
	next   int64  // no request starts before
	entry  int64  // no further host moves to a server that can be visited at once before
	line   hostLine
	terms  *Terms // of its latest item; nil: none
}

// network is an IPv4 /24 or an IPv6 /48. It is in the network heap, by the time at which it may be visited
// next, if servers wait in its line and that time is known; in the idle heap if it has no servers but its
// last visits still count; and otherwise in no heap.
type network struct {
	node
	key     serverKey // with the bits after the network's prefix cleared
	servers int       // number in the server table
	items   int       // sum of their items
	robots  int       // sum of their queued robots items
	flights int       // grants that have not ended
	pending int       // grants whose request has not started
	next    int64     // no grant before, so that grants spread over the window
	starts  []int64   // of requests within the window; at most Scheduler.netBurst
	keeps   int       // flights that may leave their connection open
	idle    []idleConn
	stuck   bool // all servers in line have too many flights: one must end first

	// With Options.Leased:
	held      bool  // between Hold and Release
	wanted    bool  // announced by TakeWanted
	wantedAt  int64 // since when
	foreign   []foreign
	restUntil int64 // no back-off of its servers ends later

	line serverLine
}

// idleConn is a connection left open for the next item of a host. It counts as a connection of its network.
// At most half of a network's connections are left open, so the other half remains for other hosts.
type idleConn struct {
	host  uint64
	until int64
}

// mayKeep reports whether another connection of the network may be left open.
func (s *Scheduler) mayKeep(n *network, now int64) bool {
	c := s.opt.NetworkConnections
	return c == 0 || n.keeps+n.open(now) < c/2
}

// open returns the number of idle connections of the network.
func (n *network) open(now int64) int {
	n.idle = slices.DeleteFunc(n.idle, func(c idleConn) bool { return c.until <= now })
	return len(n.idle)
}

// take forgets the host's idle connection, which is now reused or closed.
func (s *Scheduler) take(h *host) {
	if !h.hasKept || s.opt.NetworkConnections == 0 {
		return
	}
	if n := s.nets[h.kept.network()]; n != nil {
		n.idle = slices.DeleteFunc(n.idle, func(c idleConn) bool { return c.host == h.key })
	}
}

// maxNetBurst bounds how many starts of a network are remembered.
const maxNetBurst = 1024

// setGates converts the limits of networks: at most netBurst starts in a window of netBurst/rate seconds. A
// window, unlike a gap between starts, allows connections to be set up concurrently.
func (s *Scheduler) setGates() {
	s.gatePLDs = s.opt.PLDDelay > 0 || s.opt.UseTerms
	s.gateNets = s.opt.NetworkRate > 0 || s.opt.NetworkConnections > 0 || s.opt.Leased
	if s.opt.NetworkRate > 0 {
		s.netBurst = int(math.Min(math.Ceil(s.opt.NetworkRate), maxNetBurst))
		s.netApart = int64(1e9 / s.opt.NetworkRate)
		s.netWindow = int64(float64(s.netBurst) * 1e9 / s.opt.NetworkRate)
	}
}

// network clears the bits of a server's key after its network's prefix.
func (k serverKey) network() serverKey {
	if k.hi == 0 && k.lo>>32 == 0xffff {
		return serverKey{0, k.lo &^ 0xff}
	}
	return serverKey{k.hi &^ 0xffff, 0}
}

// Network returns the first address of the network of a.
func Network(a netip.Addr) netip.Addr { return serverOf(a).network().addr() }

func (s *Scheduler) newPLD(key uint64, now int64) *pld {
	p := &pld{key: key, next: now}
	p.node.pld = p
	if s.hasVisited {
		p.next = max(now, s.visited+int64(s.opt.PLDDelay))
	}
	s.plds[key] = p
	return p
}

// pldDelay returns the PLD's delay from start to start: that of its terms, or scaled by its budget.
func (s *Scheduler) pldDelay(p *pld) int64 {
	if p.terms != nil && p.terms.PLDDelay >= 0 {
		return int64(p.terms.PLDDelay)
	}
	return int64(scale(s.opt.PLDDelay, s.opt.PLDDelayMin, float64(s.opt.DefaultBudget), float64(p.budget)))
}

// arrive moves a host whose delay has passed to its PLD's line or, if the PLD is ready, to a server's line.
func (s *Scheduler) arrive(h *host, now int64) {
	if !s.gatePLDs {
		s.joinLine(h, now)
		return
	}
	p := h.front().pld
	if p.held || p.line.Len() > 0 || max(p.next, p.entry) > now {
		h.pausing = p
		if h.first() {
			p.line.PushFront(h)
		} else {
			p.line.PushBack(h)
		}
		s.placePLD(p, now)
		return
	}
	if s.joinLine(h, now) {
		p.entry = now + s.pldDelay(p)
	}
}

// movePLDs moves up to n hosts of ready PLDs to the lines of servers; more says that some are left. A host
// whose server can be visited at once makes the others wait, for the PLD's delay or until its request
// starts. A host that has to wait in the server's line lets the next one pass, so a server in back-off does
// not stop its PLD's other hosts. pick enforces the PLD's delay.
func (s *Scheduler) movePLDs(now int64, n int) (more bool) {
	for ; ; n-- {
		t := s.pldHeap.top()
		if t == nil || t.when > now {
			return false
		}
		if n <= 0 {
			return true
		}
		p := t.pld
		h := p.line.Front()
		p.line.Remove(h)
		h.pausing = nil
		if s.joinLine(h, now) {
			p.entry = now + s.pldDelay(p)
		}
		s.placePLD(p, now)
	}
}

// maxLook bounds how many hosts or servers at the front of a line are examined.
const maxLook = 16

// pick returns the first host in the server's line whose PLD is ready. If there is none among the first
// maxLook, these return to the front of their PLDs' lines, and later to the front of the server's line.
func (s *Scheduler) pick(v *server, now int64) *host {
	var looked [maxLook]*host
	n := 0
	for h := v.line.Front(); h != nil && n < maxLook; {
		it, next := h.front(), v.line.Next(h)
		if !it.names(v) { // a robots item is now in front
			s.leave(h, now)
			s.joinLine(h, now)
			h = next
			continue
		}
		if p := it.pld; !s.gatePLDs || !p.held && p.next <= now {
			return h
		}
		looked[n] = h
		n++
		h = next
	}
	for i := n - 1; i >= 0; i-- {
		h := looked[i]
		p := h.front().pld
		v.line.Remove(h)
		h.waiting, h.pausing, h.urgent = nil, p, true
		p.line.PushFront(h)
		s.placePLD(p, now)
	}
	return nil
}

// leave removes a host from its line, if it is in one.
func (s *Scheduler) leave(h *host, now int64) {
	if v := h.waiting; v != nil {
		v.line.Remove(h)
		h.waiting = nil
		s.place(v, now)
	}
	if p := h.pausing; p != nil {
		p.line.Remove(h)
		h.pausing = nil
		s.placePLD(p, now)
	}
}

// placePLD is place for a PLD. Call it after each change of held, next, entry, the line or items.
func (s *Scheduler) placePLD(p *pld, now int64) {
	switch {
	case p.held:
		s.hang(&p.node, nil, 0)
	case p.line.Len() > 0:
		s.hang(&p.node, &s.pldHeap, max(p.next, p.entry))
	case p.items > 0:
		s.hang(&p.node, nil, 0)
	case p.next > now:
		s.hang(&p.node, &s.idlePLDs, p.next)
	default:
		s.hang(&p.node, nil, 0)
		delete(s.plds, p.key)
	}
}

// hang moves a node to the heap want at the given time, or to no heap if want is nil.
func (s *Scheduler) hang(n *node, want *heap, when int64) {
	if n.in == want && (want == nil || n.when == when) {
		return
	}
	if n.in != nil {
		n.in.remove(n)
	}
	if want != nil {
		n.when = when
		s.pushHeap(want, n)
	}
}

// networkOf returns the server's network and adds the server to its count. It returns nil if networks have
// no limits.
func (s *Scheduler) networkOf(k serverKey, now int64) *network {
	if !s.gateNets {
		return nil
	}
	n := s.entryOf(k.network(), now)
	n.servers++
	return n
}

// entryOf returns the entry of a network. The caller calls placeNet.
func (s *Scheduler) entryOf(k serverKey, now int64) *network {
	n := s.nets[k]
	if n == nil {
		n = &network{key: k, next: now}
		n.node.net = n
		if s.hasVisited {
			n.next = max(now, s.visited+s.netWindow)
		}
		s.nets[k] = n
	}
	return n
}

func (n *network) push(v *server) {
	v.inLine = true
	if v.line.Len() > 0 && v.line.Front().first() {
		n.line.PushFront(v)
		return
	}
	n.line.PushBack(v)
}

func (n *network) remove(v *server) {
	v.inLine = false
	n.line.Remove(v)
}

// netTime returns when the network may be visited next, or, with all its connections in use, when the first of them ends.
// known is false if that depends on the start or end of a visit.
func (s *Scheduler) netTime(n *network, now int64) (at int64, known bool) {
	if s.opt.Leased && !n.held {
		return 0, false
	}
	if c := s.opt.NetworkConnections; c > 0 && n.flights+n.open(now)+n.others(now) >= c {
		if n.flights >= c {
			return 0, false
		}
		first := int64(math.MaxInt64)
		for _, f := range n.foreign {
			first = min(first, f.until)
		}
		for _, idle := range n.idle {
			first = min(first, idle.until)
		}
		return first, true
	}
	if s.netBurst == 0 {
		return n.next, true
	}
	n.forget(now - s.netWindow)
	// This number of starts, and one more, must leave the window first.
	over := n.pending + len(n.starts) - s.netBurst
	switch {
	case over < 0:
		return n.next, true
	case over < len(n.starts):
		return max(n.next, n.starts[over]+s.netWindow), true
	}
	return 0, false
}

// forget drops the starts up to the given time.
func (n *network) forget(until int64) {
	k := 0
	for k < len(n.starts) && n.starts[k] <= until {
		k++
	}
	if k > 0 {
		n.starts = append(n.starts[:0], n.starts[k:]...)
	}
}

// mayVisit reports whether the network may be visited now, at server v. A server has at most as many flights
// as its network has free connections, or one. So a slow server leaves half of the connections to the
// others, and two leave a third.
func (s *Scheduler) mayVisit(n *network, v *server, now int64) bool {
	at, known := s.netTime(n, now)
	return known && at <= now && s.fair(n, v)
}

func (s *Scheduler) fair(n *network, v *server) bool {
	c := s.opt.NetworkConnections
	return c == 0 || v.flights == 0 || v.flights < c-n.flights-len(n.idle)-n.others(0)
}

// serverTurn grants a host of a server that is ready, or adds the server to its network's line.
func (s *Scheduler) serverTurn(v *server, now int64) *Grant {
	if n := v.net; n != nil && (n.line.Len() > 0 || !s.mayVisit(n, v, now)) {
		v.in.remove(&v.node)
		n.push(v)
		n.stuck = false
		s.placeNet(n, now)
		return nil
	}
	return s.grant(v, now)
}

// networkTurn makes a grant for the first server in the line of a ready network that has not used up its
// fair part of the connections.
func (s *Scheduler) networkTurn(n *network, now int64) *Grant {
	// The connection that it waited for has ended; its delay, its rate or other connections may make it wait longer.
	if at, known := s.netTime(n, now); !known || at > now {
		s.placeNet(n, now)
		return nil
	}
	v := n.line.Front()
	for i := 0; v != nil && i < maxLook && !s.fair(n, v); i++ {
		v = n.line.Next(v)
	}
	if v == nil || !s.fair(n, v) {
		n.stuck = true
		s.placeNet(n, now)
		return nil
	}
	n.remove(v)
	g := s.grant(v, now)
	s.placeNet(n, now)
	return g
}

// placeNet is place for a network. Call it after each change.
func (s *Scheduler) placeNet(n *network, now int64) {
	if n.line.Len() > 0 {
		if at, known := s.netTime(n, now); known && !n.stuck {
			s.hang(&n.node, &s.netHeap, at)
		} else {
			s.hang(&n.node, nil, 0)
		}
		return
	}
	if n.servers > 0 || n.held || n.wanted {
		s.hang(&n.node, nil, 0)
		return
	}
	until := n.next
	if k := len(n.starts); k > 0 {
		until = max(until, n.starts[k-1]+s.netWindow)
	}
	for _, c := range n.idle {
		until = max(until, c.until)
	}
	if until > now {
		s.hang(&n.node, &s.idleNets, until)
		return
	}
	s.hang(&n.node, nil, 0)
	delete(s.nets, n.key)
}

// hold counts a grant at its PLD and its network.
func (s *Scheduler) hold(g *Grant, now int64) {
	if s.gatePLDs {
		g.Item.pld.held = true
		s.placePLD(g.Item.pld, now)
	}
	if n := g.server.net; n != nil {
		n.flights++
		n.pending++
		n.next = now + s.netApart
		s.placeNet(n, now)
	}
}

// began counts the start of a grant's request, or that there will be none.
func (s *Scheduler) began(g *Grant, now int64, started bool) {
	if p := g.Item.pld; s.gatePLDs {
		p.held, p.entry = false, now
		if started {
			p.next = max(p.next, now+s.pldDelay(p))
		}
		s.placePLD(p, now)
	}
	if n := g.server.net; n != nil {
		n.pending--
		if !started {
			n.next -= s.netApart
		} else if s.netBurst > 0 {
			n.starts = append(n.starts, now)
		}
		s.placeNet(n, now)
	}
}
