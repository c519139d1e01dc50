package polite

import (
	"net/netip"
	"slices"
	"time"
)

// Delay says that a host or a server must not be visited before a time, for another reason than the plain
// delay: a back-off, a Crawl-delay, a slow response. It is what a restart must not forget.
type Delay struct {
	Host   uint64     // key of the host; 0 if Server is valid
	Server netip.Addr // an IPv4 address, or the first of an IPv6 /64; not valid = the delay of a host
	Until  time.Time  // wall clock
}

// Delays returns every host and server that must not be visited yet though its plain delay (Options.HostDelay
// or ServerDelay, scaled) may have passed. At most one entry for each entry of the tables; no order. It takes
// the lock for O(entries).
func (s *Scheduler) Delays(now time.Time) []Delay {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, wall := s.at(now), now.Round(0) // the wall clock may have been set since New
	longer := func(n *node) bool {
		return n.when > at && (!n.host.visited || n.when > n.host.end+int64(n.host.plain))
	}
	count := 0
	for _, n := range s.hostHeap {
		if longer(n) {
			count++
		}
	}
	out := make([]Delay, 0, count)
	for _, n := range s.hostHeap {
		if h := n.host; longer(n) {
			out = append(out, Delay{Host: h.key, Until: wall.Add(time.Duration(n.when - at))})
		}
	}
	for _, g := range s.flights {
		if h := g.host; h.notBefore > at {
			out = append(out, Delay{Host: h.key, Until: wall.Add(time.Duration(h.notBefore - at))})
		}
	}
	for _, v := range s.servers {
		if v.rest > at {
			out = append(out, Delay{Server: v.key.addr(), Until: wall.Add(time.Duration(v.rest - at))})
		}
	}
	return out
}

// Restore makes the hosts and servers of Delays of an earlier run wait until their time by the wall clock, if
// that is to come; also those without items. Of more than MaxHosts hosts or servers, those whose time comes
// first are forgotten. A time later than MaxDefer from now counts as that: the clock was wrong, then or now.
func (s *Scheduler) Restore(now time.Time, ds []Delay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, wall := s.at(now), now.Round(0)
	if len(ds) > s.opt.MaxHosts {
		ds = slices.Clone(ds)
		slices.SortFunc(ds, func(a, b Delay) int { return b.Until.Compare(a.Until) })
	}
	for _, d := range ds {
		left := min(d.Until.Sub(wall), s.opt.MaxDefer)
		if left <= 0 {
			continue
		}
		if d.Server.IsValid() {
			s.restoreServer(serverOf(d.Server), at, at+int64(left))
		} else {
			s.restoreHost(d.Host, at, at+int64(left))
		}
	}
	signal(s.ready)
}

func (s *Scheduler) restoreHost(key uint64, now, until int64) {
	h := s.hosts[key]
	if h == nil {
		if len(s.hosts) >= s.opt.MaxHosts {
			return
		}
		h = s.newHost(key, now)
	}
	h.notBefore = max(h.notBefore, until)
	s.leave(h, now)
	if !h.busy {
		s.schedule(h)
	}
}

func (s *Scheduler) restoreServer(k serverKey, now, until int64) {
	v := s.servers[k]
	if v == nil {
		if len(s.servers) >= s.opt.MaxHosts+maxAddrs-1 {
			return
		}
		v = s.newServer(k, now)
	}
	s.restServer(v, now, until)
	v.rest = max(v.rest, until)
}

// restServer lets nobody visit the server before until, which is a back-off if it is more than the plain delay.
func (s *Scheduler) restServer(v *server, now, until int64) {
	if v.in != nil {
		v.in.remove(&v.node)
	}
	v.setWhen(until)
	if until-now > s.serverDelay(v) {
		v.rest = max(v.rest, until)
	}
	s.place(v, now)
}
