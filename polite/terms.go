package polite

import "time"

// Terms are delays that replace those of Options for the hosts of a site. They are immutable. A nil *Terms
// replaces nothing.
type Terms struct {
	HostDelay time.Duration // replaces τh·B0/Bx of a host; negative: does not
	HostLeast time.Duration // lower bound of the delay of a host
	PLDDelay  time.Duration // replaces the delay of a PLD; negative: does not
	// Own says that the site is the operator's: the Crawl-delay and ResponseFactor do not apply. Back-offs do.
	Own bool
}

func (t *Terms) own() bool { return t != nil && t.Own }

// fixed reports whether a host has a delay that does not follow from its budget.
func (t *Terms) fixed() bool { return t != nil && t.HostDelay >= 0 }

// SetTerms replaces the terms of hosts and PLDs in RAM, by their keys. A host that is in its delay gets the new
// one at once; a host in back-off, the longer of the two.
func (s *Scheduler) SetTerms(now time.Time, hosts, plds map[uint64]*Terms) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	for key, t := range plds {
		if p := s.plds[key]; p != nil {
			p.terms = t
		}
	}
	for key, t := range hosts {
		h := s.hosts[key]
		if h == nil {
			continue
		}
		if h.terms = t; t.fixed() {
			s.setSteps(h, 0)
		}
		if !h.visited || h.in != &s.hostHeap {
			continue
		}
		budget, crawlDelay := uint32(0), h.crawlDelay
		if it := h.front(); it != nil {
			budget, crawlDelay = it.Budget, max(crawlDelay, it.CrawlDelay)
		}
		h.plain = s.plainDelayOf(key, h, budget, t)
		if h.cause == BindsBackoff {
			h.base = max(h.base, h.plain)
		} else {
			r := Result{Elapsed: h.elapsed}
			h.base = s.opt.delayAfter(h.plain, crawlDelay, r, t)
			h.cause = s.causeOf(h, crawlDelay, r)
		}
		s.schedule(h)
	}
	s.tell(at)
}
