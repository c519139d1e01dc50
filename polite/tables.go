package polite

import (
	"encoding/binary"
	"net/netip"
	"time"

	"drumbeat/internal/list"
)

// Lines: of a host's items, of due hosts at a server or a PLD, and of servers at a network. Each item, host
// and server is in at most one.
type (
	itemLink   = list.Link[Item]
	hostLink   = list.Link[host]
	serverLink = list.Link[server]
	itemLine   = list.List[Item, *Item]
	hostLine   = list.List[host, *host]
	serverLine = list.List[server, *server]
)

// host is a FQDN with queued items, an item in flight, or a delay that has not passed. It is in exactly one
// of: the host heap (in its delay), the line of its PLD (pausing != nil), the line of a server (waiting !=
// nil), or in flight (busy).
type host struct {
	node
	hostLink
	key           uint64
	robots, pages itemLine
	lastFirst     *Item // the last First item of pages, all of which are at its front; nil: none
	lineIndex     int   // index in Scheduler.lines + 1; 0: no queued items
	busy          bool
	resting       bool          // counted in Scheduler.resting
	bare          bool          // counted in Scheduler.bare
	notBefore     int64         // no visit before, regardless of end and base
	visited       bool          // end, base and plain are valid
	end           int64         // end of the last exchange
	base          time.Duration // the delay that this exchange requires
	plain         time.Duration // the plain part of that delay
	cause         Binding       // the constraint that determined base
	steps         uint8         // steps of the adaptive delay: adapt.go
	answer        uint32        // mean answer time of the adaptive delay in µs; 0: unknown
	crawlDelay    time.Duration // from Result; 0: unknown
	usual         time.Duration // smoothed response time
	elapsed       time.Duration // last response time; 0: unknown
	turns         uint64        // number of grants, to rotate servers
	terms         *Terms        // of its latest item; nil: none
	kept          serverKey     // server of the connection that the last exchange left open, if hasKept
	hasKept       bool

	stopped bool    // a lane that must wait for the end of other lanes' flights; in no heap and no line (crowd)
	urgent  bool    // was ready at a server before its PLD was: next time it goes to the front
	waiting *server // the server in whose line it is
	pausing *pld    // the PLD in whose line it is
}

func (h *host) len() int { return h.robots.Len() + h.pages.Len() }

func (h *host) front() *Item {
	if it := h.robots.Front(); it != nil {
		return it
	}
	return h.pages.Front()
}

// first reports whether the host's next item takes precedence over other hosts.
func (h *host) first() bool { it := h.front(); return it != nil && it.First }

// serverKey is an IPv4 address (mapped) or an IPv6 /64.
type serverKey struct{ hi, lo uint64 }

func serverOf(a netip.Addr) serverKey {
	b := a.As16()
	k := serverKey{binary.BigEndian.Uint64(b[:8]), 0}
	if a.Is4() || a.Is4In6() {
		k.lo = binary.BigEndian.Uint64(b[8:])
	}
	return k
}

// addr returns the first address of the server.
func (k serverKey) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.AddrFrom16(b).Unmap()
}

// server is an IP address with items or a delay that has not passed. node.when is the earliest time of its
// next visit. It is in the server heap (or firstHeap) if hosts wait and it is not held, or in its network's line if it
// became ready before the network; in the idle heap if it has no items; and otherwise in no heap.
type server struct {
	node
	serverLink
	key     serverKey
	held    bool  // granted, but the request has not started
	visited bool  // last is valid
	last    int64 // start of the last request
	rest    int64 // end of its last back-off
	line    hostLine
	robots  int   // queued robots items at it
	items   int   // items at it, including those in flight
	flights int   // grants that have not ended
	budgets int64 // sum of the items' budgets

	net    *network // nil if networks have no limits
	inLine bool     // in the network's line
}

func (s *Scheduler) pushHeap(hp *heap, n *node) {
	s.seq++
	n.seq = s.seq
	hp.push(n)
}

// place moves the server to the heap that matches its state, or drops it. Call it after each change of held,
// waiting or items, and after setWhen.
func (s *Scheduler) place(v *server, now int64) {
	var want *heap
	switch {
	case v.held:
	case v.line.Len() > 0 && v.inLine && v.when <= now:
		if v.line.Front().first() {
			v.net.remove(v)
			v.net.push(v) // to the front
		}
		return // it waits for its network
	case v.line.Len() > 0 && v.line.Front().first():
		want = &s.firstHeap
	case v.line.Len() > 0:
		want = &s.serverHeap
	case v.items > 0:
	case v.when > now:
		want = &s.idleServers
	}
	if v.inLine {
		v.net.remove(v)
		s.placeNet(v.net, now)
	}
	if v.in != want {
		if v.in != nil {
			v.in.remove(&v.node)
		}
		if want != nil {
			s.pushHeap(want, &v.node)
		}
	}
	if want == nil && !v.held && v.items == 0 {
		s.dropServer(v, now)
	}
}

// dropServer removes a server that is in no heap.
func (s *Scheduler) dropServer(v *server, now int64) {
	delete(s.servers, v.key)
	if v.net != nil {
		v.net.servers--
		s.placeNet(v.net, now)
	}
	signal(s.room)
}

// setWhen moves the next visit of a server that is in no heap to at least at.
func (v *server) setWhen(at int64) {
	if v.in != nil {
		panic("BUG: polite: server is in a heap")
	}
	v.when = max(v.when, at)
}
