package polite

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
)

// pld is what one PLD has in RAM, and when it may be visited. It is in the PLD heap, by the time at which its next host may
// go to a server's line, if hosts stand in its own line and it is not held; in the idle heap, if it has no items but
// its delay has not passed; else in none.
type pld struct {
	node
	key    uint64
	budget uint32 // Bx as its items told last; 0 = none did
	items  int    // queued and in flight
	robots int    // queued robots items
	hosts  int    // lines with queued items
	held   bool   // granted, request not started
	next   int64  // no start before
	entry  int64  // no further host goes to a server that could be visited at once before
	line   hostLine
}

// network is an IPv4 /24 or an IPv6 /48. It is in the network heap, by the time at which it may be visited next, if servers
// stand in its line and that time is known; in the idle heap, if no servers are left but its limits haven't
// forgotten the last visits; else in none.
type network struct {
	node
	key     serverKey // with the bits behind the network's prefix cleared
	servers int       // in the server table
	items   int       // sum of their items
	robots  int       // sum of their queued robots items
	flights int       // grants that have not ended
	pending int       // those of them whose request has not started
	next    int64     // no grant before: they are spread over the window
	starts  []int64   // of requests, those within the window; at most Scheduler.netBurst
	keeps   int       // flights that may leave their connection open
	idle    []idleConn
	stuck   bool // each server in line has as many flights as are free: one of the network must end first

	line serverLine
}

// idleConn is a connection that was left open for the next item of a host. It counts as one of its network's connections, so
// no more than half of those are left open: the other half is always there for whose turn it is.
type idleConn struct {
	host  uint64
	until int64
}

// mayKeep tells whether another connection of the network may be left open.
func (s *Scheduler) mayKeep(n *network, now int64) bool {
	c := s.opt.NetworkConnections
	return c == 0 || n.keeps+n.open(now) < c/2
}

// open is how many connections of the network are idle.
func (n *network) open(now int64) int {
	n.idle = slices.DeleteFunc(n.idle, func(c idleConn) bool { return c.until <= now })
	return len(n.idle)
}

// take forgets the host's idle connection: it is used now, or closed.
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

// setGates computes the form in which the limits of networks are kept: at most netBurst starts in a window, 1/rate for
// each. Counting over a window, not from one start to the next, allows that connections are set up side by side.
func (s *Scheduler) setGates() {
	s.gatePLDs = s.opt.PLDDelay > 0
	s.gateNets = s.opt.NetworkRate > 0 || s.opt.NetworkConnections > 0
	if s.opt.NetworkRate > 0 {
		s.netBurst = int(math.Min(math.Ceil(s.opt.NetworkRate), maxNetBurst))
		s.netApart = int64(1e9 / s.opt.NetworkRate)
		s.netWindow = int64(float64(s.netBurst) * 1e9 / s.opt.NetworkRate)
	}
}

// network clears the bits of a server's key behind its network's prefix.
func (k serverKey) network() serverKey {
	if k.hi == 0 && k.lo>>32 == 0xffff {
		return serverKey{0, k.lo &^ 0xff}
	}
	return serverKey{k.hi &^ 0xffff, 0}
}

// Network returns the first address of the network that an address belongs to.
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

// pldDelay is the PLD's delay from start to start, scaled by its budget.
func (s *Scheduler) pldDelay(p *pld) int64 {
	return int64(scale(s.opt.PLDDelay, s.opt.PLDDelayMin, float64(s.opt.DefaultBudget), float64(p.budget)))
}

// arrive takes a host whose delay has passed to its PLD's line or, if the PLD's turn is now, to a server's.
func (s *Scheduler) arrive(h *host, now int64) {
	if !s.gatePLDs {
		s.joinLine(h, now)
		return
	}
	p := h.front().pld
	if p.held || p.line.Len() > 0 || max(p.next, p.entry) > now {
		h.pausing = p
		p.line.PushBack(h)
		s.placePLD(p, now)
		return
	}
	if s.joinLine(h, now) {
		p.entry = now + s.pldDelay(p)
	}
}

// movePLDs takes up to n hosts of PLDs whose turn has come to the lines of servers; more tells that some are left. One
// whose server can be visited at once makes the others wait, by the PLD's delay or until its request starts; one that
// will stand in a line lets the next one pass, so that a server that rests doesn't keep its PLD from visiting others. What
// in truth holds the delay is pick.
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

// maxLook is how many hosts or servers at the front of a line are looked at for one whose turn it is.
const maxLook = 16

// pick returns the host whose turn it is in the server's line, the first one whose PLD may be visited. If there is none
// among the first maxLook, those go back to wait for their PLDs, each in front of its line; and when they return to the
// server they go in front there too.
func (s *Scheduler) pick(v *server, now int64) *host {
	var looked [maxLook]*host
	n := 0
	for h := v.line.Front(); h != nil && n < maxLook; {
		it, next := h.front(), v.line.Next(h)
		if !it.names(v) { // a robots item came to the front meanwhile
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

// leave takes a host out of the line it stands in, if any.
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

// placePLD is place for a PLD. Call after every change of held, next, entry, the line or items.
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

// hang puts a node into a heap at a time, or into none.
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

// networkOf returns the server's network, which counts it from now on; nil without limits for networks.
func (s *Scheduler) networkOf(k serverKey, now int64) *network {
	if !s.gateNets {
		return nil
	}
	k = k.network()
	n := s.nets[k]
	if n == nil {
		n = &network{key: k, next: now}
		n.node.net = n
		if s.hasVisited {
			n.next = max(now, s.visited+s.netWindow)
		}
		s.nets[k] = n
	}
	n.servers++
	return n
}

func (n *network) push(v *server) {
	v.inLine = true
	n.line.PushBack(v)
}

func (n *network) remove(v *server) {
	v.inLine = false
	n.line.Remove(v)
}

// netTime returns when the network may be visited next; false if that depends on the start or the end of a visit.
func (s *Scheduler) netTime(n *network, now int64) (at int64, known bool) {
	if c := s.opt.NetworkConnections; c > 0 && n.flights+n.open(now) >= c {
		if n.flights >= c {
			return 0, false
		}
		return slices.MinFunc(n.idle, func(a, b idleConn) int { return cmp.Compare(a.until, b.until) }).until, true
	}
	if s.netBurst == 0 {
		return now, true
	}
	n.forget(now - s.netWindow)
	over := n.pending + len(n.starts) - s.netBurst // so many starts must be forgotten, and one more
	switch {
	case over < 0:
		return n.next, true
	case over < len(n.starts):
		return max(n.next, n.starts[over]+s.netWindow), true
	}
	return 0, false
}

// forget drops the starts up to a time.
func (n *network) forget(until int64) {
	k := 0
	for k < len(n.starts) && n.starts[k] <= until {
		k++
	}
	if k > 0 {
		n.starts = append(n.starts[:0], n.starts[k:]...)
	}
}

// mayVisit tells whether the network may be visited now, and the server as a part of it. A server has no more flights than
// are free in its network, or one: so its slow answers leave others of the network half of the connections, and a second
// such server a third.
func (s *Scheduler) mayVisit(n *network, v *server, now int64) bool {
	at, known := s.netTime(n, now)
	return known && at <= now && s.fair(n, v)
}

func (s *Scheduler) fair(n *network, v *server) bool {
	c := s.opt.NetworkConnections
	return c == 0 || v.flights == 0 || v.flights < c-n.flights-len(n.idle)
}

// serverTurn grants the front host of a server whose time has come, or has the server wait for its network.
func (s *Scheduler) serverTurn(v *server, now int64) *Grant {
	if n := v.net; n != nil && (n.line.Len() > 0 || !s.mayVisit(n, v, now)) {
		s.serverHeap.remove(&v.node)
		n.push(v)
		n.stuck = false
		s.placeNet(n, now)
		return nil
	}
	return s.grant(v, now)
}

// networkTurn grants for the first server in the line of a network whose time has come that has less than its part of the
// connections.
func (s *Scheduler) networkTurn(n *network, now int64) *Grant {
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

// placeNet is place for a network. Call after every change of it.
func (s *Scheduler) placeNet(n *network, now int64) {
	if n.line.Len() > 0 {
		if at, known := s.netTime(n, now); known && !n.stuck {
			s.hang(&n.node, &s.netHeap, at)
		} else {
			s.hang(&n.node, nil, 0)
		}
		return
	}
	if n.servers > 0 {
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

// hold counts a grant against its PLD and its network.
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

// began counts the start of a grant's request, or that there won't be one.
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
