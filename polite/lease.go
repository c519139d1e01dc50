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
// visited: Hold returns the wait of the first visit for them.
func (s *Scheduler) Hold(now time.Time, addr netip.Addr, h Holding) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	n := s.entryOf(serverOf(addr).network(), at)
	if !n.held {
		s.unheld -= n.items
	}
	n.held, n.wanted = true, false
	n.next = max(n.next, at+max(int64(s.opt.ServerDelay), s.netWindow))
	n.foreign = nil
	for _, o := range h.Open {
		if o.N > 0 && o.Left > 0 {
			n.foreign = append(n.foreign, foreign{n: o.N, until: at + int64(o.Left)})
		}
	}
	for _, r := range h.Rests {
		if k := serverOf(r.Server); k.network() == n.key && r.Left > 0 {
			s.restoreServer(k, at, at+min(int64(r.Left), int64(s.opt.MaxDefer)))
		}
	}
	n.stuck = false
	s.placeNet(n, at)
	s.tell(at)
	return time.Duration(n.next - at)
}

// Release forbids further grants for a network. Grants whose request has not begun remain: see Lease.
func (s *Scheduler) Release(now time.Time, addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nets[serverOf(addr).network()]
	if n == nil {
		return
	}
	at := s.at(now)
	if n.held {
		s.unheld += n.items
	}
	n.held = false
	if n.items > 0 {
		s.want(n, at)
	}
	// Hosts with addresses elsewhere need not wait for this network.
	for v := n.line.Front(); v != nil; {
		next := n.line.Next(v)
		s.rejoin(v, at)
		v = next
	}
	s.placeNet(n, at)
	signal(s.room)
}

// rejoin moves the hosts in a server's line to the lines of their best servers.
func (s *Scheduler) rejoin(v *server, now int64) {
	for i := v.line.Len(); i > 0; i-- {
		h := v.line.Front()
		if h.front().nservers < 2 {
			v.line.Remove(h)
			v.line.PushBack(h) // in order
			continue
		}
		s.leave(h, now)
		s.joinLine(h, now)
	}
}

// Others notes that another crawler, who, has n connections in a held network, for left at most. It replaces
// the last note of that crawler. It reports whether the network is held.
func (s *Scheduler) Others(now time.Time, addr netip.Addr, who, n int, left time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, at := s.nets[serverOf(addr).network()], s.at(now)
	if v == nil || !v.held {
		return false
	}
	v.foreign = slices.DeleteFunc(v.foreign, func(f foreign) bool { return f.who == who+1 })
	if n > 0 && left > 0 {
		v.foreign = append(v.foreign, foreign{n, at + int64(left), who + 1})
	}
	s.placeNet(v, at)
	s.tell(at)
	return true
}

// Lease returns the state of a network.
func (s *Scheduler) Lease(now time.Time, addr netip.Addr) Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nets[serverOf(addr).network()]
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
	at, key := s.at(now), serverOf(addr).network()
	n := s.nets[key]
	if n == nil {
		return h
	}
	if n.flights > 0 {
		h.Open = append(h.Open, Open{n.flights, longest})
	}
	if idle := n.open(at); idle > 0 {
		last := slices.MaxFunc(n.idle, func(a, b idleConn) int { return cmp.Compare(a.until, b.until) })
		h.Open = append(h.Open, Open{idle, time.Duration(last.until - at)})
	}
	n.others(at)
	for _, f := range n.foreign {
		if len(h.Open) == maxOpens {
			h.Open[maxOpens-1].N += f.n
			h.Open[maxOpens-1].Left = max(h.Open[maxOpens-1].Left, time.Duration(f.until-at))
			continue
		}
		h.Open = append(h.Open, Open{f.n, time.Duration(f.until - at)})
	}
	if n.restUntil > at {
		h.Rests = s.rests(key, at, most)
	}
	return h
}

// maxOpens bounds the Holding.Open of HandOver. Beyond it, connections count for longer than they can be
// open.
const maxOpens = 16

// rests returns the back-offs of a network's servers.
func (s *Scheduler) rests(key serverKey, at int64, most int) (rests []Rest) {
	for k, v := range s.servers {
		if v.rest <= at || k.network() != key {
			continue
		}
		r := Rest{k.addr(), time.Duration(v.rest - at)}
		if len(rests) < most {
			rests = append(rests, r)
			continue
		}
		for i := range rests { // keep the longest
			if rests[i].Left < r.Left {
				rests[i], r = r, rests[i]
			}
		}
	}
	return rests
}

// overLease reports whether a network's next item must wait on disk: another crawler holds the network, and
// the items that wait for such networks fill their share of RAM. The rest of RAM is for held networks.
func (s *Scheduler) overLease(n *network, now int64) bool {
	return s.opt.Leased && n != nil && n.wanted && now-n.wantedAt >= int64(uncontendedDelay) && s.unheld >= s.opt.MaxUnheld
}

// uncontendedDelay is the time to acquire a free network.
const uncontendedDelay = time.Second

// Wanted signals that TakeWanted may have networks. It has one receiver.
func (s *Scheduler) Wanted() <-chan struct{} { return s.wanted }

// TakeWanted returns the networks that are not held and have received items since the last call. It returns
// each once, until StillWanted has returned false for it.
func (s *Scheduler) TakeWanted() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]netip.Addr, 0, len(s.wants))
	for _, k := range s.wants {
		all = append(all, k.addr())
	}
	s.wants = s.wants[:0]
	return all
}

// StillWanted reports whether a network returned by TakeWanted is still wanted.
func (s *Scheduler) StillWanted(now time.Time, addr netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, at := s.nets[serverOf(addr).network()], s.at(now)
	switch {
	case n == nil || n.held:
		return false
	case n.items > 0 || at-n.wantedAt < int64(wantedFor):
		return true
	}
	n.wanted = false
	s.placeNet(n, at)
	signal(s.room)
	return false
}

// EvictUnheld removes and returns the pages of hosts that have waited for an unheld network for longer than
// over. It sets their Due to now+over. left is the number of queued items of all other hosts that wait for
// such a network.
func (s *Scheduler) EvictUnheld(now time.Time, over time.Duration) (out []*Item, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	for i := len(s.lines) - 1; i >= 0; i-- { // a host without items leaves the lines
		h := s.lines[i]
		v := h.waiting
		if v == nil || v.net == nil || v.net.held {
			continue
		}
		if at-v.net.wantedAt < int64(over) {
			left += h.len()
			continue
		}
		for it := h.pages.Back(); it != nil; it = h.pages.Back() {
			it.Due = now.Add(over)
			s.dequeue(it, at)
			s.unlink(it, at)
			out = append(out, it)
		}
	}
	s.tell(at)
	return out, left
}

// want notes that a network is wanted.
func (s *Scheduler) want(n *network, now int64) {
	if n.held || n.wanted {
		return
	}
	n.wanted, n.wantedAt = true, now
	s.wants = append(s.wants, n.key)
	signal(s.wanted)
}

// foreign are connections of others.
type foreign struct {
	n     int
	until int64
	who   int // the who of Others plus one; 0: noted by Hold
}

// others returns the number of connections of others that may be open in the network.
func (n *network) others(now int64) (sum int) {
	n.foreign = slices.DeleteFunc(n.foreign, func(f foreign) bool { return f.until <= now })
	for _, f := range n.foreign {
		sum += f.n
	}
	return sum
}
