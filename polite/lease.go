package polite

import (
	"net/netip"
	"time"
)

// With Options.Leased several crawlers share the networks. A network is visited only between Hold and Release: the
// caller sees to it that no other crawler holds it then. Package exchange/lease is that caller in a cluster.

// Holding is what is known of a network that another crawler may have visited until now.
type Holding struct {
	Open    int           // exchanges that may still be in progress there; they count as connections of the network
	OpenFor time.Duration // when they must have ended
	Rests   []Rest        // back-offs of its servers
}

// Rest is the rest of a server's back-off.
type Rest struct {
	Server netip.Addr // an IPv4 address, or the first of an IPv6 /64
	Left   time.Duration
}

// Lease is the state of a network for whoever holds it.
type Lease struct {
	Held    bool
	Items   int // queued and in flight, by address
	Pending int // grants whose request has not begun
	Open    int // exchanges in progress, those of earlier holders too, and connections left open
}

// wantedFor is how long a network counts as wanted after its last item has left: AdmitNow offers items again and again.
const wantedFor = 10 * time.Second

// leaseWait is what a host's choice among its servers assumes of the time until a network is held.
const leaseWait = 20 * time.Second

// Hold allows visits of a network, given by any of its addresses. Its servers and its limits count as just visited: it
// returns how long the first visit waits for them.
func (s *Scheduler) Hold(now time.Time, addr netip.Addr, h Holding) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	n := s.entryOf(serverOf(addr).network(), at)
	n.held, n.wanted = true, false
	n.next = max(n.next, at+max(int64(s.opt.ServerDelay), s.netWindow))
	if n.foreign = h.Open; n.foreign > 0 {
		n.foreignUntil = at + int64(h.OpenFor)
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
	n.held = false
	if n.items > 0 {
		s.want(n, at)
	}
	// Hosts that have addresses elsewhere need not wait for this network.
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
			v.line.PushBack(h) // so all keep their order
			continue
		}
		s.leave(h, now)
		s.joinLine(h, now)
	}
}

// Lease returns the state of a network.
func (s *Scheduler) Lease(now time.Time, addr netip.Addr) Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nets[serverOf(addr).network()]
	if n == nil {
		return Lease{}
	}
	at := s.at(now)
	return Lease{n.held, n.items, n.pending, n.flights + n.open(at) + n.others(at)}
}

// Rests returns the back-offs of a network's servers that have not passed, but for the shortest ones beyond most.
// If there are any, it holds the lock for O(servers in RAM).
func (s *Scheduler) Rests(now time.Time, addr netip.Addr, most int) (rests []Rest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, key := s.at(now), serverOf(addr).network()
	n := s.nets[key]
	if n == nil || n.restUntil <= at {
		return nil
	}
	for k, v := range s.servers {
		if v.rest <= at || k.network() != key {
			continue
		}
		r := Rest{k.addr(), time.Duration(v.rest - at)}
		if len(rests) < most {
			rests = append(rests, r)
			continue
		}
		for i := range rests { // the longest ones stay
			if rests[i].Left < r.Left {
				rests[i], r = r, rests[i]
			}
		}
	}
	return rests
}

// Wanted is signalled when TakeWanted may have networks. It has one receiver.
func (s *Scheduler) Wanted() <-chan struct{} { return s.wanted }

// TakeWanted returns the networks that are not held and have got items since the last call. Each is returned once,
// until StillWanted has returned false for it.
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

// StillWanted reports whether a network that TakeWanted has returned is still wanted.
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

// EvictUnheld removes and returns the pages of hosts that wait for a network which is not held, and have waited for longer
// than over. It sets their Due to now+over.
func (s *Scheduler) EvictUnheld(now time.Time, over time.Duration) (out []*Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	for i := len(s.lines) - 1; i >= 0; i-- { // a host without items leaves lines
		h := s.lines[i]
		if v := h.waiting; v == nil || v.net == nil || v.net.held || at-v.net.wantedAt < int64(over) {
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
	return out
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

// others returns the exchanges of others that may be in progress in the network.
func (n *network) others(now int64) int {
	if n.foreignUntil <= now {
		n.foreign = 0
	}
	return n.foreign
}
