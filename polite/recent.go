package polite

import "time"

// Recent is what a Scheduler knows of visits that still count, for the next one of the process.
type Recent struct {
	visited  time.Time // when all other servers and networks count as visited; zero: never
	hosts    []Delay
	servers  []recentServer
	networks []recentNetwork
	plds     []recentPLD
}

type (
	recentServer struct {
		key  serverKey
		next time.Time // no visit before
	}
	recentNetwork struct {
		key    serverKey
		next   time.Time
		starts []time.Time // of requests that count for its rate
	}
	recentPLD struct {
		key  uint64
		next time.Time
	}
)

// InDelay returns each host, server, network and PLD whose delay, of any reason, has not passed; a host with an
// exchange in progress counts as just visited. The result is for Options.Recent of the next Scheduler of this process,
// never nil, and has at most one entry for each table entry. InDelay holds the lock for O(entries).
func (s *Scheduler) InDelay(now time.Time) *Recent {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, wall, r := s.at(now), now.Round(0), new(Recent)
	if s.opt.hasVisited { // this Scheduler may have begun a moment ago, after a process of which it knows nothing
		r.visited = s.time(s.opt.serversVisited)
	}
	add := func(h *host, due int64) {
		if due > at {
			r.hosts = append(r.hosts, Delay{Host: h.key, Until: wall.Add(time.Duration(due - at))})
		}
	}
	for _, n := range s.heaps.delayed.nodes {
		add(n.host, s.opt.dueAt(n.host))
	}
	for _, g := range s.flights {
		h, it := g.host, g.Item
		delay := max(h.base, s.hosts.plainDelay(it.Host, h, it.Budget, it.Terms),
			min(it.CrawlDelay, s.opt.MaxCrawlDelay))
		add(h, max(h.notBefore, at+int64(delay)))
	}
	for k, v := range s.heaps.servers.table {
		next := v.when
		if v.flights > 0 { // its request may have begun just now
			next = max(next, at+s.opt.serverDelay(v))
		}
		if next > at {
			r.servers = append(r.servers, recentServer{k, s.time(next)})
		}
	}
	for k, n := range s.nets.table {
		n.forget(at - s.nets.window)
		is := recentNetwork{key: k, next: s.time(n.next)}
		for _, start := range n.starts {
			is.starts = append(is.starts, s.time(start))
		}
		for range min(n.flights, s.nets.burst) {
			is.starts = append(is.starts, now)
		}
		if n.next > at || len(is.starts) > 0 {
			r.networks = append(r.networks, is)
		}
	}
	for k, p := range s.heaps.plds.table {
		next := p.next
		if p.held {
			next = max(next, at+s.opt.pldDelay(p))
		}
		if next > at {
			r.plds = append(r.plds, recentPLD{k, s.time(next)})
		}
	}
	return r
}

// restoreRecent restores the servers, networks and PLDs that were in their delay.
func (s *Scheduler) restoreRecent(now time.Time, r *Recent) {
	at := s.at(now)
	for _, is := range r.servers {
		if next := s.at(is.next); next > at {
			s.heaps.servers.delay(is.key, at, next)
		}
	}
	if s.nets.gated {
		for _, is := range r.networks {
			n := s.nets.entry(is.key, at)
			n.next = max(n.next, s.at(is.next))
			for _, start := range is.starts {
				if s.nets.burst > 0 {
					n.starts = append(n.starts, s.at(start))
				}
			}
			s.nets.place(n, at)
		}
	}
	if s.heaps.plds.gated {
		for _, is := range r.plds {
			if next := s.at(is.next); next > at {
				p := s.heaps.plds.add(is.key, at)
				p.next = max(p.next, next)
				s.heaps.plds.place(p, at)
			}
		}
	}
}
