package polite

import (
	"net/netip"
	"slices"
	"time"
)

// Delay says that a host or server must not be visited before a time for a reason other than the plain
// delay: a back-off, a Crawl-delay, a slow response. A restart must preserve it.
type Delay struct {
	Host   uint64     // key of the host; 0 if Server is valid
	Server netip.Addr // an IPv4 address, or the first of an IPv6 /64; invalid: the delay of a host
	Until  time.Time  // by the wall clock
}

// SlotsCome says that another Scheduler has visited hosts until now that this one visits from now on. Of the PLDs for
// which hosts returns true, those hosts count as visited now that no exchange has visited. hosts is a function of the
// key alone.
func (s *Scheduler) SlotsCome(now time.Time, hosts func(pld uint64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.coming, s.opt.comingAt = hosts, s.at(now)
}

// Delays returns each host and server whose delay exceeds its plain delay (Options.HostDelay or ServerDelay,
// scaled) and has not passed. There is at most one entry for each table entry, in no particular order. It
// holds the lock for O(entries).
func (s *Scheduler) Delays(now time.Time) []Delay {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, wall := s.at(now), now.Round(0) // the wall clock may have been set since New
	longer := func(h *host) (due int64, is bool) {
		due = s.opt.dueAt(h) // the node's time may be later: moveDue keeps hosts whose delay has adapted
		return due, due > at && (!h.visited || due > h.end+int64(h.plain))
	}
	count := 0
	for _, n := range s.heaps.delayed.nodes {
		if _, is := longer(n.host); is {
			count++
		}
	}
	out := make([]Delay, 0, count)
	for _, n := range s.heaps.delayed.nodes {
		if due, is := longer(n.host); is {
			out = append(out, Delay{Host: n.host.key, Until: wall.Add(time.Duration(due - at))})
		}
	}
	for _, g := range s.flights {
		if h := g.host; h.notBefore > at {
			out = append(out, Delay{Host: h.key, Until: wall.Add(time.Duration(h.notBefore - at))})
		}
	}
	for _, v := range s.heaps.servers.table {
		if v.rest > at {
			out = append(out, Delay{Server: v.key.addr(), Until: wall.Add(time.Duration(v.rest - at))})
		}
	}
	return out
}

// Restore applies the Delays of an earlier run, by the wall clock, even to hosts and servers without items.
// If there are more than MaxHosts of either, it ignores those that end first. A delay of more than MaxDefer
// counts as MaxDefer, because a clock was wrong, then or now.
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
			s.heaps.servers.restore(serverOf(d.Server), at, at+int64(left))
		} else {
			s.heaps.restoreHost(d.Host, at, at+int64(left))
		}
	}
	s.tell(at)
}
