package polite

import "time"

// robotsAhead is the time for which robots items of one server are kept in RAM, if that exceeds their share.
const robotsAhead = 4 * time.Second

// From Options.CrowdedItems on, an owner keeps what can be sent within crowdedAhead, or crowdedShare items: RAM is to
// have room for other hosts. What waits on disk may return two seconds late.
const (
	crowdedAhead = 4 * time.Second
	crowdedShare = 64
)

// limit returns a share: the configured number, or what can be sent within Options.Ahead (or IdleAhead, or
// crowdedAhead) if that is more, but at most half of MaxItems.
func (s *Scheduler) limit(share int, spacing int64) int {
	if share < 0 {
		return s.opt.MaxItems
	}
	ahead := int64(s.opt.Ahead)
	if s.items < s.opt.IdleItems {
		ahead = max(ahead, int64(s.opt.IdleAhead))
	} else if s.opt.CrowdedItems > 0 && s.items >= s.opt.CrowdedItems {
		ahead = min(ahead, max(int64(crowdedAhead), crowdedShare*spacing))
	}
	ahead /= max(spacing, 1)
	return max(share, int(min(ahead, int64(s.opt.MaxItems/2))))
}

// overShare returns None, or the share that the item exceeds and when to offer it again.
func (s *Scheduler) overShare(now int64, it *Item) (due int64, why Reason) {
	if it.First {
		return 0, None
	}
	h := s.hosts.table[it.key()]
	spacing := s.hosts.spacing(h, it)
	if h != nil && !it.Robots && h.pages.Len() >= s.limit(s.opt.MaxPerHost, spacing) {
		n := float64(h.pages.Len()) + s.spreads.nextSlot(spreadKey{HostShare, serverKey{lo: h.key}}, now, spacing, it)
		return s.spreads.later(max(now, s.opt.dueAt(h)), s.hosts.ramp(h, it, n, spacing), now), HostShare
	}
	if p := s.heaps.plds.table[it.PLD]; p != nil {
		apart := max(spacing/int64(max(p.hosts, 1)), int64(leastSpacing), s.opt.pldDelay(p))
		why, n, limit := PLDShare, p.items, s.limit(s.opt.MaxPerPLD, spacing)
		if s.heaps.plds.gated {
			limit = s.gateLimit(s.opt.MaxPerPLD, s.opt.pldDelay(p))
			if it.Robots {
				why, n, limit = RobotsShare, p.robots, s.robotsLimit(s.opt.pldDelay(p))
			}
		}
		key := spreadKey{PLDShare, serverKey{lo: it.PLD}}
		if why == RobotsShare {
			key.key.hi = 1 // a separate line
		}
		if n >= limit {
			return s.spreads.deferTo(key, now, now+int64(n)*apart, apart, it), why
		}
	}
	return s.overServers(now, it)
}

// gateLimit returns the share of a PLD or network whose visits are at least spacing apart: what can be sent
// to it in time, at least minGateShare, and at most the configured number.
func (s *Scheduler) gateLimit(share int, spacing int64) int {
	if share < 0 {
		return s.opt.MaxItems
	}
	return min(share, s.limit(minGateShare, spacing))
}

// minGateShare is the least share of a limited PLD or network: enough for a few hosts to alternate.
const minGateShare = 64

// robotsLimit returns the share of robots items of a server, PLD or network whose visits are spacing apart.
func (s *Scheduler) robotsLimit(spacing int64) int {
	if s.opt.RobotsPerServer < 0 {
		return s.opt.MaxItems
	}
	// Each item occupies a request slot while it waits, so Ahead may be too long.
	limit := max(s.opt.RobotsPerServer, int(int64(robotsAhead)/max(spacing, int64(time.Millisecond))))
	if s.opt.MaxRobotsPerServer > 0 {
		limit = min(limit, s.opt.MaxRobotsPerServer)
	}
	return limit
}

// overServers is overShare for servers and their networks. One with room suffices.
func (s *Scheduler) overServers(now int64, it *Item) (due int64, why Reason) {
	var first *server
	var net *network // set if the network of first, not first itself, is over its share
	var lease *network
	for _, a := range it.Addrs[:min(len(it.Addrs), maxAddrs)] {
		k := serverOf(a)
		v := s.heaps.servers.table[k]
		roomy := v == nil || !s.overServer(v, it.Robots)
		n := s.nets.table[k.network()]
		taken := !it.Robots && s.nets.overLease(n, now)
		if roomy && !taken && (n == nil || !s.overNetwork(n, it.Robots)) {
			return 0, None
		}
		if taken {
			lease = n
		}
		if first == nil && net == nil {
			if first = v; roomy {
				net = n
			}
		}
	}
	if lease != nil {
		from, apart := now+int64(leaseWait)/2, max(s.nets.apart, int64(time.Millisecond))
		return s.spreads.deferTo(spreadKey{LeaseShare, lease.key}, now, from, apart, it), LeaseShare
	}
	if net != nil {
		key, apart, ahead := net.key, max(s.nets.apart, int64(leastSpacing)), net.items
		if it.Robots {
			key.lo |= 1 // a separate line; no network has this bit
			ahead = net.robots
		}
		from := max(now, net.next) + int64(ahead)*apart
		return s.spreads.deferTo(spreadKey{NetworkShare, key}, now, from, apart, it), NetworkShare
	}
	why = ServerShare
	apart := max(s.opt.serverDelay(first), int64(leastSpacing))
	ahead := first.items
	if it.Robots { // a robots item waits only for the hosts in line
		why, ahead = RobotsShare, max(first.line.Len(), first.robots)
	}
	from := max(now, first.when) + int64(ahead)*apart
	return s.spreads.deferTo(spreadKey{why, first.key}, now, from, apart, it), why
}

// overServer reports whether a server has reached its share of items, or of robots items.
func (s *Scheduler) overServer(v *server, robots bool) bool {
	if robots {
		return v.robots >= s.robotsLimit(s.opt.serverDelay(v))
	}
	return v.items >= s.limit(s.opt.MaxPerServer, s.opt.serverDelay(v))
}

// overNetwork is overServer for a network. Without a rate there is no basis for a share.
func (s *Scheduler) overNetwork(n *network, robots bool) bool {
	switch {
	case s.nets.apart == 0:
		return false
	case robots:
		return n.robots >= s.robotsLimit(s.nets.apart)
	}
	return n.items >= s.gateLimit(s.opt.MaxPerServer, s.nets.apart)
}

// Glutted reports whether a host has its share of items in RAM and, with those that it was deferred for, more than it
// can be sent within ahead. Another item of it would wait at least that long.
func (s *Scheduler) Glutted(now time.Time, key uint64, ahead time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts.table[key]
	if h == nil || h.pages.Len() == 0 {
		return false
	}
	it := h.pages.Back()
	spacing := s.hosts.spacing(h, it)
	if h.pages.Len() < s.limit(s.opt.MaxPerHost, spacing) {
		return false
	}
	n := float64(h.pages.Len())
	if sp := s.spreads.lines[spreadKey{HostShare, serverKey{lo: h.key}}]; sp != nil {
		for i := range sp.cursor {
			n += sp.cursor[i].waiting(s.at(now), sp.cursor[i].spacing)
		}
	}
	return s.hosts.ramp(h, it, n, spacing) > float64(ahead)
}
