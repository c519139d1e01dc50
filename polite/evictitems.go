package polite

import "time"

// EvictItems takes those of some items that are still queued, pages only, and returns them: what may no longer be asked for. Their
// Due is now. Items are told apart by their pointers; those that were granted or evicted meanwhile are left out.
func (s *Scheduler) EvictItems(now time.Time, items []*Item) (out []*Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at(now)
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
