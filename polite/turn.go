package polite

import "time"

// Turn says when a host could be visited for one more First item.
type Turn struct {
	Wait  time.Duration // until that visit
	Step  time.Duration // between two visits of the host, as far as is known
	Why   Binding       // the constraint that Wait is due to; BindsNothing if there is none
	InRAM bool          // the host has items or is in its delay; else Wait and Step are those of a new host
}

// Turn estimates when a First item of a host, admitted now, would be granted: behind the host's robots items and First
// items, after its delay, and when one of its servers and its PLD may be visited. What others do meanwhile at the same
// server, PLD or network is not known and may delay it. connection and terms are those of the item.
func (s *Scheduler) Turn(now time.Time, key, pld uint64, connection uint8, terms *Terms) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	h := s.hosts.table[connectionKey(key, connection)]
	item := &Item{Host: key, PLD: pld, Connection: connection, Terms: terms}
	if h == nil {
		t := Turn{Step: s.hosts.plainDelay(key, nil, 0, terms)}
		if visited, counts := s.opt.countsVisited(pld); counts {
			t.later(BindsHost, visited+int64(t.Step)-at)
		}
		s.turnOfPLD(&t, pld, at)
		return t
	}
	t := Turn{InRAM: true}
	if front := h.front(); front != nil {
		item = front
	}
	t.Step = time.Duration(s.hosts.spacing(h, item))
	if h.busy {
		t.later(BindsHost, int64(h.usual+t.Step))
	} else if due := s.opt.dueAt(h); h.notBefore >= due {
		t.later(BindsBackoff, due-at)
	} else {
		t.later(h.cause, due-at)
	}
	if item.nservers > 0 {
		soonest := item.servers[0]
		for _, v := range item.servers[1:item.nservers] {
			if v.when < soonest.when {
				soonest = v
			}
		}
		if soonest.rest >= soonest.when {
			t.later(BindsBackoff, soonest.when-at)
		}
		t.later(BindsServer, soonest.when-at)
	}
	s.turnOfPLD(&t, pld, at)
	ahead := h.robots.Len()
	for it := h.pages.Front(); it != nil && it.First; it = h.pages.Next(it) {
		ahead++
	}
	if ahead > 0 {
		t.later(BindsHost, int64(t.Wait)+int64(ahead)*int64(t.Step))
	}
	return t
}

// turnOfPLD is the part of Turn that concerns the PLD.
func (s *Scheduler) turnOfPLD(t *Turn, key uint64, at int64) {
	if p := s.heaps.plds.table[key]; p != nil && s.heaps.plds.gated {
		t.later(BindsPLD, p.next-at)
	}
}

// later makes the visit wait for a constraint.
func (t *Turn) later(why Binding, wait int64) {
	if d := time.Duration(wait); d > t.Wait {
		t.Wait, t.Why = d, why
	}
}
