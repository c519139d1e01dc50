package polite

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// With Options.Leased several crawlers share the networks. A crawler visits a network only between Hold and
// Release; the caller ensures that no other crawler holds it then. In a cluster, package cluster/lease is
// the caller.

// Holding describes a network that another crawler may have visited until now.
type Holding struct {
	Open  []Open // connections of others that may be open there; they count for the network
	Rests []Rest // back-offs of its servers
	// Own says that no other crawler has visited it since the Scheduler before this one, of which Options.Recent tells.
	Own bool
}

// Open are connections that end within a time.
type Open struct {
	N    int
	Left time.Duration
}

// Rest is the rest of a server's back-off.
type Rest struct {
	Server netip.Addr // an IPv4 address, or the first of an IPv6 /64
	Left   time.Duration
}

// Lease is the state of a network for its holder.
type Lease struct {
	Held    bool
	Items   int // queued and in flight, by address
	Pending int // grants whose request has not begun
	Flights int // grants that have not ended
}

// wantedFor is the time for which a network counts as wanted after its last item has left: AdmitNow offers
// items repeatedly.
const wantedFor = 10 * time.Second

// leaseWait is the time to a lease that a host assumes when it chooses among its servers.
const leaseWait = 20 * time.Second

// Hold allows visits of a network, given by any of its addresses. Its servers and its limits count as just
// visited, unless it is this crawler's Own: Hold returns the wait of the first visit for them.
func (s *Scheduler) Hold(now time.Time, addr netip.Addr, h Holding) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	n := s.nets.hold(serverOf(addr).network(), &h, at)
	for _, r := range h.Rests {
		if k := serverOf(r.Server); k.network() == n.key && r.Left > 0 {
			s.heaps.servers.restore(k, at, at+min(int64(r.Left), int64(s.opt.MaxDefer)))
		}
	}
	s.nets.place(n, at)
	s.tell(at)
	return time.Duration(n.next - at)
}

// Release forbids further grants for a network. Grants whose request has not begun remain: see Lease.
func (s *Scheduler) Release(now time.Time, addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, at := s.nets.at(addr), s.at(now)
	if n == nil {
		return
	}
	s.nets.release(n, at)
	// Hosts with addresses elsewhere need not wait for this network.
	for v := n.line.Front(); v != nil; {
		next := n.line.Next(v)
		s.heaps.rejoin(v, at)
		v = next
	}
	s.nets.place(n, at)
	signal(s.heaps.room)
}

// rejoin moves the hosts in a server's line to the lines of their best servers.
func (hs *heaps) rejoin(v *server, now int64) {
	for i := v.line.Len(); i > 0; i-- {
		h := v.line.Front()
		if h.front().nservers < 2 {
			v.line.Remove(h)
			v.line.PushBack(h) // in order
			continue
		}
		hs.leave(h, now)
		hs.joinLine(h, now)
	}
}

// Others notes that another crawler, who, has n connections in a held network, for left at most. It replaces
// the last note of that crawler. It reports whether the network is held.
func (s *Scheduler) Others(now time.Time, addr netip.Addr, who, n int, left time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	net, at := s.nets.at(addr), s.at(now)
	if net == nil || !net.held {
		return false
	}
	net.note(who, n, at+int64(left), at)
	s.nets.place(net, at)
	s.tell(at)
	return true
}

// Lease returns the state of a network.
func (s *Scheduler) Lease(now time.Time, addr netip.Addr) Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nets.at(addr)
	if n == nil {
		return Lease{}
	}
	return Lease{n.held, n.items, n.pending, n.flights}
}

// HandOver returns the state of a network for its next holder. Exchanges in progress end within longest.
// HandOver returns the most longest back-offs. If there are any, it holds the lock for O(servers in RAM).
func (s *Scheduler) HandOver(now time.Time, addr netip.Addr, longest time.Duration, most int) (h Holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, at := s.nets.at(addr), s.at(now)
	if n == nil {
		return h
	}
	h.Open = n.opens(longest, at)
	if n.restUntil > at {
		h.Rests = s.heaps.servers.rests(n.key, at, most)
	}
	return h
}

// Wanted signals that TakeWanted may have networks. It has one receiver.
func (s *Scheduler) Wanted() <-chan struct{} { return s.nets.wanted }

// TakeWanted returns the networks that are not held and have received items since the last call. It returns
// each once, until StillWanted has returned false for it.
func (s *Scheduler) TakeWanted() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]netip.Addr, 0, len(s.nets.wants))
	for _, k := range s.nets.wants {
		all = append(all, k.addr())
	}
	s.nets.wants = s.nets.wants[:0]
	return all
}

// StillWanted reports whether a network returned by TakeWanted is still wanted.
func (s *Scheduler) StillWanted(now time.Time, addr netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, at := s.nets.at(addr), s.at(now)
	switch {
	case n == nil || n.held:
		return false
	case n.items > 0 || at-n.wantedAt < int64(wantedFor):
		return true
	}
	n.wanted = false
	s.nets.place(n, at)
	signal(s.heaps.room)
	return false
}

// foreign are connections of others.
type foreign struct {
	n     int
	until int64
	who   int // the who of Others plus one; 0: noted by Hold
}

// at returns the network of an address, or nil.
func (ns *networks) at(addr netip.Addr) *network { return ns.table[serverOf(addr).network()] }

// hold allows visits of a network, where others may have connections open. The caller calls place.
func (ns *networks) hold(k serverKey, h *Holding, now int64) *network {
	n := ns.entry(k, now)
	if !n.held {
		ns.unheld -= n.items
	}
	n.held, n.wanted, n.stuck = true, false, false
	if !h.Own || !ns.opt.known {
		n.next = max(n.next, now+max(int64(ns.opt.ServerDelay), ns.window))
	}
	n.foreign = nil
	for _, o := range h.Open {
		if o.N > 0 && o.Left > 0 {
			n.foreign = append(n.foreign, foreign{n: o.N, until: now + int64(o.Left)})
		}
	}
	return n
}

// release forbids visits of a network. The caller calls place.
func (ns *networks) release(n *network, now int64) {
	if n.held {
		ns.unheld += n.items
	}
	n.held = false
	if n.items > 0 {
		ns.want(n, now)
	}
}

// want notes that a network is wanted.
func (ns *networks) want(n *network, now int64) {
	if n.held || n.wanted {
		return
	}
	n.wanted, n.wantedAt = true, now
	ns.wants = append(ns.wants, n.key)
	signal(ns.wanted)
}

// overLease reports whether a network's next item must wait on disk: another crawler holds the network, and
// the items that wait for such networks fill their share of RAM. The rest of RAM is for held networks.
func (ns *networks) overLease(n *network, now int64) bool {
	return ns.opt.Leased && n != nil && n.wanted && now-n.wantedAt >= int64(uncontendedDelay) &&
		ns.unheld >= ns.opt.MaxUnheld
}

// uncontendedDelay is the time to acquire a free network.
const uncontendedDelay = time.Second

// note replaces the connections of another crawler in the network.
func (n *network) note(who, open int, until, now int64) {
	n.foreign = slices.DeleteFunc(n.foreign, func(f foreign) bool { return f.who == who+1 })
	if open > 0 && until > now {
		n.foreign = append(n.foreign, foreign{open, until, who + 1})
	}
}

// others returns the number of connections of others that may be open in the network.
func (n *network) others(now int64) (sum int) {
	n.foreign = slices.DeleteFunc(n.foreign, func(f foreign) bool { return f.until <= now })
	for _, f := range n.foreign {
		sum += f.n
	}
	return sum
}

// maxOpens bounds the Holding.Open of HandOver. Beyond it, connections count for longer than they can be
// open.
const maxOpens = 16

// opens returns the connections of all crawlers in the network. Exchanges in progress end within longest.
func (n *network) opens(longest time.Duration, now int64) (opens []Open) {
	if n.flights > 0 {
		opens = append(opens, Open{n.flights, longest})
	}
	if idle := n.open(now); idle > 0 {
		last := slices.MaxFunc(n.idle, func(a, b idleConn) int { return cmp.Compare(a.until, b.until) })
		opens = append(opens, Open{idle, time.Duration(last.until - now)})
	}
	n.others(now)
	for _, f := range n.foreign {
		if len(opens) == maxOpens {
			last := &opens[maxOpens-1]
			last.N, last.Left = last.N+f.n, max(last.Left, time.Duration(f.until-now))
			continue
		}
		opens = append(opens, Open{f.n, time.Duration(f.until - now)})
	}
	return opens
}
