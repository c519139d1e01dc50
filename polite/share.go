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
	if h != nil && !it.Robots && h.pages.n >= s.limit(s.opt.MaxPerHost, spacing) {
		from := max(now, s.dueAt(h)) + int64(h.pages.n)*spacing
		return s.deferTo(spreadKey{HostShare, serverKey{lo: h.key}}, now, from, spacing, it), HostShare
	}
	if p := s.plds[it.PLD]; p != nil && p.items >= s.limit(s.opt.MaxPerPLD, spacing) {
		apart := max(spacing/int64(max(p.hosts, 1)), int64(time.Millisecond))
		return s.deferTo(spreadKey{PLDShare, serverKey{lo: it.PLD}}, now, now+int64(p.items)*apart, apart, it), PLDShare
	}
	return s.overServers(now, it)
}

// overServers is overShare for the shares at servers: one that has room is enough.
func (s *Scheduler) overServers(now int64, it *Item) (due int64, why Reason) {
	why, share := ServerShare, s.opt.MaxPerServer
	if it.Robots {
		why, share = RobotsShare, s.opt.MaxRobotsPerServer
	}
	var first *server
	for _, a := range it.Addrs[:min(len(it.Addrs), maxAddrs)] {
		v := s.servers[serverOf(a)]
		if v == nil {
			return 0, None
		}
		limit := s.limit(share, s.serverDelay(v))
		if it.Robots && share >= 0 { // each holds a request's slot while it waits, so Ahead may be too much
			limit = max(share, int(int64(robotsAhead)/max(s.serverDelay(v), int64(time.Millisecond))))
			if s.opt.MostRobotsPerServer > 0 {
				limit = min(limit, s.opt.MostRobotsPerServer)
			}
		}
		if v.count(it.Robots) < limit {
			return 0, None
		}
		if first == nil {
			first = v
		}
	}
	apart := max(s.serverDelay(first), int64(time.Millisecond))
	ahead := first.items
	if it.Robots { // a robots item waits for the hosts in line only
		ahead = max(first.waiting, first.robots)
	}
	from := max(now, first.when) + int64(ahead)*apart
	return s.deferTo(spreadKey{why, first.key}, now, from, apart, it), why
}

// count is what counts against the server's share of robots items, or of all.
func (v *server) count(robots bool) int {
	if robots {
		return v.robots
	}
	return v.items
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
