package polite

import "time"

// A spread hands out times of their own to deferred items of one owner, one spacing apart. Items deferred
// before have a cursor for each number of past deferrals: those that return as a batch must not queue up
// behind the far end, and their batch was kept in a slot as long as the time to the next one.
type spread struct {
	cursor [8]backlog
}

// backlog is a virtual queue: n items were handed a slot and one is served every spacing. It is kept as a number, not
// as a time, so that a host that answered slowly once is not thought slow for as long as it would have taken.
type backlog struct {
	n       float64
	at      int64 // when n was true
	spacing int64
}

// waiting returns n at a later time.
func (l *backlog) waiting(now, spacing int64) float64 {
	if l.spacing == 0 {
		return 0
	}
	return max(0, l.n-float64(now-l.at)/float64(spacing))
}

type spreadKey struct {
	kind Reason
	key  serverKey // of a server; of a host or a PLD, in lo, its key
}

// robotsAhead is for how long ahead robots items of one server are kept, if that is more than their share.
const robotsAhead = 4 * time.Second

// limit is a share: the set number, or what can be sent within Options.Ahead (or IdleAhead) if that is more (half
// of RAM at most).
func (s *Scheduler) limit(share int, spacing int64) int {
	if share < 0 {
		return s.opt.MaxItems
	}
	ahead := int64(s.opt.Ahead)
	if s.items < s.opt.IdleItems {
		ahead = max(ahead, int64(s.opt.IdleAhead))
	}
	ahead /= max(spacing, 1)
	return max(share, int(min(ahead, int64(s.opt.MaxItems/2))))
}

// overShare returns None, or why the item exceeds a share and when to offer it again.
func (s *Scheduler) overShare(now int64, it *Item) (due int64, why Reason) {
	h := s.hosts[it.Host]
	spacing := s.hostSpacing(h, it)
	if h != nil && !it.Robots && h.pages.Len() >= s.limit(s.opt.MaxPerHost, spacing) {
		from := max(now, s.dueAt(h)) + int64(h.pages.Len())*spacing
		return s.deferTo(spreadKey{HostShare, serverKey{lo: h.key}}, now, from, spacing, it), HostShare
	}
	if p := s.plds[it.PLD]; p != nil {
		apart := max(spacing/int64(max(p.hosts, 1)), int64(time.Millisecond), s.pldDelay(p))
		why, n, limit := PLDShare, p.items, s.limit(s.opt.MaxPerPLD, spacing)
		if s.gatePLDs {
			limit = s.gateLimit(s.opt.MaxPerPLD, s.pldDelay(p))
			if it.Robots {
				why, n, limit = RobotsShare, p.robots, s.robotsLimit(s.pldDelay(p))
			}
		}
		key := spreadKey{PLDShare, serverKey{lo: it.PLD}}
		if why == RobotsShare {
			key.key.hi = 1 // a line of their own
		}
		if n >= limit {
			return s.deferTo(key, now, now+int64(n)*apart, apart, it), why
		}
	}
	return s.overServers(now, it)
}

// gateLimit is the share of a PLD or a network whose visits are at least spacing apart: what it can be sent in time,
// minGateShare at least, and no more than the set number.
func (s *Scheduler) gateLimit(share int, spacing int64) int {
	if share < 0 {
		return s.opt.MaxItems
	}
	return min(share, s.limit(minGateShare, spacing))
}

// minGateShare is the least share of a PLD or a network with a limit of its own: enough for a few hosts to take turns.
const minGateShare = 64

// robotsLimit is the share of robots items of a server, PLD or network whose visits are spacing apart.
func (s *Scheduler) robotsLimit(spacing int64) int {
	if s.opt.MaxRobotsPerServer < 0 {
		return s.opt.MaxItems
	}
	// Each holds a request's slot while it waits, so Ahead may be too much.
	limit := max(s.opt.MaxRobotsPerServer, int(int64(robotsAhead)/max(spacing, int64(time.Millisecond))))
	if s.opt.MostRobotsPerServer > 0 {
		limit = min(limit, s.opt.MostRobotsPerServer)
	}
	return limit
}

// overServers is overShare for the shares at servers and their networks: one that has room is enough.
func (s *Scheduler) overServers(now int64, it *Item) (due int64, why Reason) {
	var first *server
	var net *network // if the share that is exceeded is that of first's network
	for _, a := range it.Addrs[:min(len(it.Addrs), maxAddrs)] {
		k := serverOf(a)
		v := s.servers[k]
		roomy := v == nil || !s.overServer(v, it.Robots)
		n := s.nets[k.network()]
		if roomy && (n == nil || !s.overNetwork(n, it.Robots)) {
			return 0, None
		}
		if first == nil && net == nil {
			if first = v; roomy {
				net = n
			}
		}
	}
	if net != nil {
		key, apart, ahead := net.key, max(s.netApart, int64(time.Millisecond)), net.items
		if it.Robots {
			key.lo |= 1 // a line of their own; no network has that bit
			ahead = net.robots
		}
		return s.deferTo(spreadKey{NetworkShare, key}, now, max(now, net.next)+int64(ahead)*apart, apart, it), NetworkShare
	}
	why = ServerShare
	apart := max(s.serverDelay(first), int64(time.Millisecond))
	ahead := first.items
	if it.Robots { // a robots item waits for the hosts in line only
		why, ahead = RobotsShare, max(first.line.Len(), first.robots)
	}
	from := max(now, first.when) + int64(ahead)*apart
	return s.deferTo(spreadKey{why, first.key}, now, from, apart, it), why
}

// overServer tells whether a server has its share of items, or of robots items.
func (s *Scheduler) overServer(v *server, robots bool) bool {
	if robots {
		return v.robots >= s.robotsLimit(s.serverDelay(v))
	}
	return v.items >= s.limit(s.opt.MaxPerServer, s.serverDelay(v))
}

// overNetwork is overServer for a network. Without a rate there is nothing that its share could follow from.
func (s *Scheduler) overNetwork(n *network, robots bool) bool {
	switch {
	case s.netApart == 0:
		return false
	case robots:
		return n.robots >= s.robotsLimit(s.netApart)
	}
	return n.items >= s.gateLimit(s.opt.MaxPerServer, s.netApart)
}

// deferTo takes the next slot of the owner's spread, from on.
func (s *Scheduler) deferTo(k spreadKey, now, from, spacing int64, it *Item) int64 {
	sp := s.spreads[k]
	if sp == nil {
		s.sweepSpreads(now)
		sp = &spread{}
		s.spreads[k] = sp
	}
	c := &sp.cursor[min(int(it.Waits), len(sp.cursor)-1)]
	n := c.waiting(now, spacing) + 1
	*c = backlog{n, now, spacing}
	return int64(min(float64(from)+n*float64(spacing), float64(now+int64(s.opt.MaxDefer))))
}

// sweepSpreads looks at a few random lines, drops those that are over, and any one if there are too many.
func (s *Scheduler) sweepSpreads(now int64) {
	looked := 0
	for k, sp := range s.spreads {
		over := true
		for _, c := range sp.cursor {
			over = over && c.waiting(now, c.spacing) == 0
		}
		if over || len(s.spreads) >= s.opt.MaxHosts {
			delete(s.spreads, k)
		}
		if looked++; looked == 3 {
			return
		}
	}
}
