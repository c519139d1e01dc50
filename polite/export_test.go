package polite

// Gates returns the entries of the PLD and the network table.
func (s *Scheduler) Gates() (plds, networks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heaps.plds.table), len(s.nets.table)
}
