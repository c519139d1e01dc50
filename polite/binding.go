package polite

import "time"

// Binding is the constraint that delays a host's next visit: of several, the one that ends last.
type Binding uint8

// The constraints.
const (
	BindsNothing    Binding = iota
	BindsHost               // Options.HostDelay
	BindsCrawlDelay         // robots.txt
	BindsAnswer             // Options.ResponseFactor: the last response was slow
	BindsBackoff            // a back-off of the host or the server
	BindsServer             // Options.ServerDelay
	BindsPLD                // Options.PLDDelay
	BindsNetwork            // Options.NetworkRate and NetworkConnections
	BindsLease              // Options.Leased: others hold the network
	numBindings
)

// maxBindings bounds the number of hosts that Binding examines.
const maxBindings = 1024

// Bound says what delays the hosts of a sample.
type Bound struct {
	By   Binding // the constraint that delays most of them
	Held int     // hosts that it delays
	All  int     // hosts that are delayed at all
	Rec  []byte  // the record of the next URL of one that it delays; shared with its Item
	// Longest is the time that the delays of a host alone let its queued items take, for the host with the longest.
	Longest time.Duration
}

// Binding examines a sample of at most maxBindings hosts with queued items.
func (s *Scheduler) Binding(now time.Time) (b Bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	var counts [numBindings]int
	var recs [numBindings][]byte
	for _, h := range s.hosts.queued[:min(len(s.hosts.queued), maxBindings)] {
		b.Longest = max(b.Longest, time.Duration(h.len())*max(h.base, s.opt.HostDelay))
		if h.busy {
			continue
		}
		if k := s.binds(h, at); k != BindsNothing {
			counts[k]++
			b.All++
			if it := h.front(); !it.Robots {
				recs[k] = it.Rec
			}
		}
	}
	for k, n := range counts {
		if n > b.Held {
			b.By, b.Held, b.Rec = Binding(k), n, recs[k]
		}
	}
	return b
}

// binds returns the constraint of a host with items.
func (s *Scheduler) binds(h *host, now int64) Binding {
	it := h.front()
	kind, last := BindsNothing, now
	later := func(k Binding, at int64) {
		if at > last {
			kind, last = k, at
		}
	}
	if due := s.opt.dueAt(h); h.notBefore >= due {
		later(BindsBackoff, due)
	} else {
		later(h.cause, due)
	}
	v := h.waiting
	for _, w := range it.servers[:it.nservers] {
		if v == nil || h.waiting == nil && w.when < v.when {
			v = w
		}
	}
	if v != nil {
		k := BindsServer
		if v.rest >= v.when {
			k = BindsBackoff
		}
		later(k, v.when)
		if v.net != nil {
			if s.opt.Leased && !v.net.held {
				return BindsLease
			}
			later(BindsNetwork, v.net.next)
		}
	}
	if it.pld != nil {
		later(BindsPLD, max(it.pld.next, it.pld.entry))
	}
	switch { // its time has come, but others precede it in a line
	case kind != BindsNothing:
	case h.pausing != nil:
		return BindsPLD
	case h.waiting != nil && h.waiting.inLine:
		return BindsNetwork
	case h.waiting != nil:
		return BindsServer
	}
	return kind
}

// causeOf returns the constraint that determined the delay after an exchange.
func (o *settings) causeOf(h *host, crawlDelay time.Duration, r Result) Binding {
	switch {
	case h.base <= h.plain:
		return BindsHost
	case r.Backoff >= h.base:
		return BindsBackoff
	case min(max(crawlDelay, r.CrawlDelay), o.MaxCrawlDelay) >= h.base:
		return BindsCrawlDelay
	}
	return BindsAnswer
}
