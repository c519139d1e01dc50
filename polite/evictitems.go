package polite

import "time"

// EvictItems removes and returns those of the given items that are still queued, except robots items, for
// instance because they may no longer be requested. It sets their Due to now. Items are identified by
// pointer.
func (s *Scheduler) EvictItems(now time.Time, items []*Item) (out []*Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
	defer s.tell(at)
	for _, it := range items {
		if it.host == nil || it.Robots {
			continue
		}
		s.dequeue(it, at)
		s.unlink(it, at)
		it.Due = now
		out = append(out, it)
	}
	return out
}
