package polite

import (
	"encoding/binary"
	"net/netip"
	"time"

	"drumbeat/internal/list"
)

// The lines: of the items of a host, of due hosts at a server or a PLD, and of servers at a network. An item, a host or a server
// stands in one at most.
type (
	itemLink   = list.Link[Item]
	hostLink   = list.Link[host]
	serverLink = list.Link[server]
	itemLine   = list.List[Item, *Item]
	hostLine   = list.List[host, *host]
	serverLine = list.List[server, *server]
)

// host is a FQDN with queued items, one in flight, or a delay that has not passed. It is in exactly one of:
// the host heap (in its delay), the line of its PLD (pausing != nil) or of a server (waiting != nil), or in flight (busy).
type host struct {
	node
	hostLink
	key           uint64
	robots, pages itemLine
	lineIndex     int // index in Scheduler.lines + 1; 0 = no queued items
	busy          bool
	resting       bool          // counted in Scheduler.resting
	bare          bool          // counted in Scheduler.bare
	notBefore     int64         // no visit before, whatever end and base say
	visited       bool          // end, base and plain mean something
	end           int64         // end of the last exchange
	base          time.Duration // delay after it that the exchange itself asked for
	plain         time.Duration // what that delay would have been without a special reason
	cause         Binding       // what makes base as long as it is
	crawlDelay    time.Duration // as Result told; 0 = none known
	usual         time.Duration // response time, smoothed
	turns         uint64        // grants, for taking servers in turn
	kept          serverKey     // where the last exchange left a connection open, if hasKept
	hasKept       bool

	urgent  bool    // its turn at a server came while its PLD's had not: it goes in front the next time
	waiting *server // in whose line it stands
	pausing *pld    // in whose line it stands
}

func (h *host) len() int { return h.robots.Len() + h.pages.Len() }

func (h *host) front() *Item {
	if it := h.robots.Front(); it != nil {
		return it
	}
	return h.pages.Front()
}

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

// addr is an address of the server, the first one.
func (k serverKey) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.AddrFrom16(b).Unmap()
}

// server is an IP address with items, or a delay that has not passed. node.when is when it may be visited
// next. It is in the server heap if hosts wait and it is not held, or in its network's line if its turn came and the
// network's had not; in the idle heap if it has no items; else in none.
type server struct {
	node
	serverLink
	key     serverKey
	held    bool  // granted, request not started
	rest    int64 // end of its last back-off
	line    hostLine
	robots  int   // queued robots items that name it
	items   int   // items that name it, those in flight included
	flights int   // grants that have not ended
	budgets int64 // sum of the items' budgets

	net    *network // nil without limits for networks
	inLine bool     // in the network's line
}

func (s *Scheduler) pushHeap(hp *heap, n *node) {
	s.seq++
	n.seq = s.seq
	hp.push(n)
}

// place puts the server into the heap where its state says it belongs, or drops it. Call after every change
// of held, waiting or items, and after setWhen.
func (s *Scheduler) place(v *server, now int64) {
	var want *heap
	switch {
	case v.held:
	case v.line.Len() > 0 && v.inLine && v.when <= now:
		return // it waits for its network
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

// dropServer forgets a server that is in no heap.
func (s *Scheduler) dropServer(v *server, now int64) {
	delete(s.servers, v.key)
	if v.net != nil {
		v.net.servers--
		s.placeNet(v.net, now)
	}
	signal(s.room)
}

// setWhen moves the time of next visit of a server that is in no heap.
func (v *server) setWhen(at int64) {
	if v.in != nil {
		panic("BUG: polite: server is in a heap")
	}
	v.when = max(v.when, at)
}
