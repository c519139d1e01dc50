package beast

import "slices"

// ScanDue reports whether a scan of a lane's QF is due and none is running. With several lanes, an empty QF is due
// never.
func (l *Lanes) ScanDue() bool {
	if len(l.lanes) == 1 {
		return l.lanes[0].ScanDue()
	}
	return !l.Scanning() && l.any(scanPays)
}

func scanPays(b *Beast) bool { return b.ScanDue() && b.overBudgetRecords() > 0 }

// Scanning reports whether a scan is running in any lane.
func (l *Lanes) Scanning() bool { return l.any((*Beast).Scanning) }

// StartScan starts a scan of the QF of each lane in which one is due, or, if there is none, of each QF that has
// records. See Beast.StartScan.
func (l *Lanes) StartScan() error {
	if len(l.lanes) == 1 {
		return l.lanes[0].StartScan()
	}
	starts := scanPays
	if !l.any(starts) {
		starts = func(b *Beast) bool { return b.overBudgetRecords() > 0 }
	}
	for _, b := range l.lanes {
		if !starts(b) {
			continue
		}
		if err := b.StartScan(); err != nil {
			return err
		}
	}
	return nil
}

// overBudgetRecords returns the number of records in the generation of QF that takes new ones.
func (b *Beast) overBudgetRecords() int64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	records, _ := b.overBudget.Len()
	return records
}

// ScanPeek returns the oldest unread record of the scan of the first lane that has one, valid until ScanAdvance. ok
// is false at the end of all scans, or without one.
func (l *Lanes) ScanPeek() (rec []byte, ok bool, err error) {
	for i, b := range l.lanes {
		if rec, ok, err = b.ScanPeek(); ok || err != nil {
			l.scan = i
			return rec, ok, err
		}
	}
	return nil, false, nil
}

// ScanAdvance moves past the record that ScanPeek returned.
func (l *Lanes) ScanAdvance() { l.lanes[l.scan].ScanAdvance() }

// ScanKeep leaves records in the QF of the lane whose record ScanPeek returned. See Beast.ScanKeep.
func (l *Lanes) ScanKeep(most int, keep func(rec []byte) bool) (kept int, err error) {
	return l.lanes[l.scan].ScanKeep(most, keep)
}

// EndScan ends the scans of all lanes. All their records must have been read.
func (l *Lanes) EndScan() error {
	for _, b := range l.lanes {
		if !b.Scanning() {
			continue
		}
		if err := b.EndScan(); err != nil {
			return err
		}
	}
	return nil
}

// Stats returns the counters of all lanes together: sums of what they hold, and the largest of their numbers.
func (l *Lanes) Stats() (s Stats) {
	for _, of := range l.LaneStats() {
		s.Current, s.Horizon, s.LastScan = max(s.Current, of.Current), max(s.Horizon, of.Horizon),
			max(s.LastScan, of.LastScan)
		s.Scans += of.Scans
		s.Scanning = s.Scanning || of.Scanning
		s.Queues += of.Queues
		s.CurrentRecords += of.CurrentRecords
		s.SpreadRecords += of.SpreadRecords
		s.MovedRecords += of.MovedRecords
		s.OverBudgetRecords += of.OverBudgetRecords
		s.Bytes += of.Bytes
		s.DiskBytes += of.DiskBytes
		s.PlacedSinceScan += of.PlacedSinceScan
	}
	return s
}

// LaneStats returns the counters of each lane.
func (l *Lanes) LaneStats() []Stats {
	list := make([]Stats, 0, len(l.lanes))
	for _, b := range l.lanes {
		list = append(list, b.Stats())
	}
	return list
}

// Current returns the largest number of a current queue.
func (l *Lanes) Current() (n Number) {
	for _, b := range l.lanes {
		n = max(n, b.Current())
	}
	return n
}

// Horizon returns the largest horizon.
func (l *Lanes) Horizon() (n Number) {
	for _, b := range l.lanes {
		n = max(n, b.Horizon())
	}
	return n
}

// Queues returns the numbered queues of all lanes, by lane and number.
func (l *Lanes) Queues() []QueueInfo {
	var list []QueueInfo
	for i, b := range l.lanes {
		queues := b.Queues()
		for j := range queues {
			queues[j].Lane = i
		}
		list = slices.Concat(list, queues)
	}
	return list
}
