package polite

import (
	"math"
	"slices"
)

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
	starts  []int64   // of requests within the window; at most networks.burst
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

// open returns the number of idle connections of the network.
func (n *network) open(now int64) int {
	n.idle = slices.DeleteFunc(n.idle, func(c idleConn) bool { return c.until <= now })
	return len(n.idle)
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

// maxNetBurst bounds how many starts of a network are remembered.
const maxNetBurst = 1024

// networks are the networks in RAM with their limits and leases, by the time of their next visit. Of servers they know
// the flights and who is in front of the line.
type networks struct {
	opt    *settings
	gated  bool  // they have limits or leases; else the table is empty
	burst  int   // most starts of a network in a window; 0: no limit
	window int64 // in ns
	apart  int64 // window/burst
	table  map[serverKey]*network
	due    heap          // networks with waiting servers whose next visit time is known
	idle   heap          // networks without servers whose last visits still count
	unheld int           // items of networks that are not held, with Options.Leased
	wants  []serverKey   // of networks that TakeWanted returns
	wanted chan struct{} // see Wanted
}

// init converts the limits: at most burst starts in a window of burst/rate seconds. A window, unlike a gap between
// starts, allows connections to be set up concurrently.
func (ns *networks) init(opt *settings) {
	ns.opt, ns.table, ns.wanted = opt, map[serverKey]*network{}, make(chan struct{}, 1)
	ns.gated = opt.NetworkRate > 0 || opt.NetworkConnections > 0 || opt.Leased
	if opt.NetworkRate > 0 {
		ns.burst = int(math.Min(math.Ceil(opt.NetworkRate), maxNetBurst))
		ns.apart = int64(1e9 / opt.NetworkRate)
		ns.window = int64(float64(ns.burst) * 1e9 / opt.NetworkRate)
	}
}

// add counts an item at the network of one of its servers.
func (ns *networks) add(n *network, now int64) {
	n.items++
	if ns.opt.Leased && !n.held {
		ns.unheld++
		ns.want(n, now)
	}
}

// sub undoes add.
func (ns *networks) sub(n *network) {
	n.items--
	if ns.opt.Leased && !n.held {
		ns.unheld--
	}
}

// left notes that a server has left the table.
func (ns *networks) left(n *network, now int64) {
	n.servers--
	ns.place(n, now)
}

// granted counts a grant.
func (ns *networks) granted(n *network, now int64) {
	n.flights++
	n.pending++
	n.next = now + ns.apart
	ns.place(n, now)
}

// keep notes that the exchange of a host left its connection open.
func (ns *networks) keep(n *network, host uint64, until int64) {
	if ns.opt.NetworkConnections > 0 {
		n.idle = append(n.idle, idleConn{host, until})
	}
}

// began counts the start of a grant's request, or that there will be none.
func (ns *networks) began(n *network, now int64, started bool) {
	n.pending--
	if !started {
		n.next -= ns.apart
	} else if ns.burst > 0 {
		n.starts = append(n.starts, now)
	}
	ns.place(n, now)
}

// ended counts the end of a grant, and of one that might have left its connection open.
func (ns *networks) ended(n *network, keeps bool, now int64) {
	n.flights--
	if keeps {
		n.keeps--
	}
	n.stuck = false
	ns.place(n, now)
}

// of returns a server's network and adds the server to its count. It returns nil if networks have no limits.
func (ns *networks) of(k serverKey, now int64) *network {
	if !ns.gated {
		return nil
	}
	n := ns.entry(k.network(), now)
	n.servers++
	return n
}

// entry returns the entry of a network. The caller calls place.
func (ns *networks) entry(k serverKey, now int64) *network {
	n := ns.table[k]
	if n == nil {
		n = &network{key: k, next: ns.opt.firstVisit(now, ns.window)}
		n.node.net = n
		ns.table[k] = n
	}
	return n
}

// time returns when the network may be visited next, or, with all its connections in use, when the first of them ends.
// known is false if that depends on the start or end of a visit.
func (ns *networks) time(n *network, now int64) (at int64, known bool) {
	if ns.opt.Leased && !n.held {
		return 0, false
	}
	if c := ns.opt.NetworkConnections; c > 0 && n.flights+n.open(now)+n.others(now) >= c {
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
	if ns.burst == 0 {
		return n.next, true
	}
	n.forget(now - ns.window)
	// This number of starts, and one more, must leave the window first.
	over := n.pending + len(n.starts) - ns.burst
	switch {
	case over < 0:
		return n.next, true
	case over < len(n.starts):
		return max(n.next, n.starts[over]+ns.window), true
	}
	return 0, false
}

// mayVisit reports whether the network may be visited now, at server v. A server has at most as many flights
// as its network has free connections, or one. So a slow server leaves half of the connections to the
// others, and two leave a third.
func (ns *networks) mayVisit(n *network, v *server, now int64) bool {
	at, known := ns.time(n, now)
	return known && at <= now && ns.fair(n, v)
}

// fair reports whether the server has not used up its part of the network's connections.
func (ns *networks) fair(n *network, v *server) bool {
	c := ns.opt.NetworkConnections
	return c == 0 || v.flights == 0 || v.flights < c-n.flights-len(n.idle)-n.others(0)
}

// mayKeep reports whether another connection of the network may be left open.
func (ns *networks) mayKeep(n *network, now int64) bool {
	c := ns.opt.NetworkConnections
	return c == 0 || n.keeps+n.open(now) < c/2
}

// forgetKept forgets the host's idle connection, which is now reused or closed.
func (ns *networks) forgetKept(h *host) {
	if !h.hasKept || ns.opt.NetworkConnections == 0 {
		return
	}
	if n := ns.table[h.kept.network()]; n != nil {
		n.idle = slices.DeleteFunc(n.idle, func(c idleConn) bool { return c.host == h.key })
	}
}

// place moves the network to the heap that matches its state, or drops it. Call it after each change.
func (ns *networks) place(n *network, now int64) {
	if n.line.Len() > 0 {
		if at, known := ns.time(n, now); known && !n.stuck {
			hang(&n.node, &ns.due, at)
		} else {
			hang(&n.node, nil, 0)
		}
		return
	}
	if n.servers > 0 || n.held || n.wanted {
		hang(&n.node, nil, 0)
		return
	}
	until := n.next
	if k := len(n.starts); k > 0 {
		until = max(until, n.starts[k-1]+ns.window)
	}
	for _, c := range n.idle {
		until = max(until, c.until)
	}
	if until > now {
		hang(&n.node, &ns.idle, until)
		return
	}
	hang(&n.node, nil, 0)
	delete(ns.table, n.key)
}
