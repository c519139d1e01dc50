package beast

import (
	"cmp"
	"fmt"
	"slices"

	"drumbeat/queue"
)

// ScanDue reports whether s has moved h queues since the last scan, and no scan is running.
func (b *Beast) ScanDue() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.old == nil && b.due()
}

func (b *Beast) due() bool { return b.current.load()-b.lastScan >= b.horizon.load() }

// Scanning reports whether a scan is running: from StartScan to EndScan.
func (b *Beast) Scanning() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.old != nil
}

// StartScan starts reading QF. URLs that fail from now on go to a new generation. If the scan is due, h
// doubles, up to QueuesMax. StartScan reads and writes no records. It must not be called during a scan.
func (b *Beast) StartScan() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.old != nil {
		panic("BUG: beast: scan started during a scan")
	}
	gen := b.overBudgetGen + 1
	q, err := queue.Open(b.opt.queue(overBudgetName(b.opt.Name, gen)), nil)
	if err != nil {
		return fmt.Errorf("beast: create QF %d: %w", gen, err)
	}
	if b.due() {
		b.horizon.store(min(2*b.horizon.load(), Number(b.opt.QueuesMax)))
	}
	b.lastScan = b.current.load()
	b.scans++
	b.scanMoved.Store(b.placed.Load())
	b.old, b.oldGen = b.overBudget, b.overBudgetGen
	b.overBudget, b.overBudgetGen = q, gen
	return nil
}

// ScanPeek returns the oldest unread record of the scan, valid until ScanAdvance. ok is false at the end,
// or without a scan.
func (b *Beast) ScanPeek() (rec []byte, ok bool, err error) {
	b.mu.RLock()
	q, gen := b.old, b.oldGen
	b.mu.RUnlock()
	if q == nil {
		return nil, false, nil
	}
	rec, ok, err = q.Peek()
	if err != nil {
		return nil, false, fmt.Errorf("beast: read QF %d: %w", gen, err)
	}
	return rec, ok, nil
}

// ScanAdvance moves past the record that ScanPeek returned.
func (b *Beast) ScanAdvance() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	b.old.Advance()
	b.unsifted.passed(b.old, 1)
}

// ScanKeep leaves records in QF, for the next scan, from the one that ScanPeek returns on: as long as keep
// reports true, and until most have been moved and a block ends. It returns how many it left there. See
// queue.Queue.MoveTo. For the goroutine of the scan.
func (b *Beast) ScanKeep(most int, keep func(rec []byte) bool) (kept int, err error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	kept, err = b.old.MoveTo(b.overBudget, most, keep)
	b.unsifted.passed(b.old, int64(kept))
	if err != nil {
		return kept, fmt.Errorf("beast: move from QF %d to %d: %w", b.oldGen, b.overBudgetGen, err)
	}
	return kept, nil
}

// EndScan ends the scan. All its records must have been read.
func (b *Beast) EndScan() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.old == nil {
		panic("BUG: beast: no scan to end")
	}
	if records, _ := b.old.Len(); records > 0 {
		panic(fmt.Sprintf("BUG: beast: scan ended with %d records unread", records))
	}
	b.retire(b.old)
	b.old = nil
	return nil
}

// Stats holds the counters of a Beast.
type Stats struct {
	Current, Horizon, LastScan Number
	Scans                      int64 // scans started since the crawl began
	Scanning                   bool
	Queues                     int   // number of existing numbered queues
	CurrentRecords             int64 // unread records in queue s
	SpreadRecords              int64 // records in the queues after s
	MovedRecords               int64 // records in queues that Replace took out of use
	OverBudgetRecords          int64 // records in QF, both generations
	Bytes                      int64 // bytes of all these records, uncompressed
	DiskBytes                  int64 // size of the files of all these queues, compressed
	PlacedSinceScan            int64 // records appended to numbered queues since the start of the last scan
}

// Stats returns the current counters. It locks every queue for a moment.
func (b *Beast) Stats() Stats {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := Stats{Current: b.current.load(), Horizon: b.horizon.load(), LastScan: b.lastScan, Scans: b.scans,
		Scanning: b.old != nil, Queues: len(b.queues), PlacedSinceScan: b.placed.Load() - b.scanMoved.Load()}
	for n, q := range b.queues {
		records, bytes := q.Len()
		s.Bytes += bytes
		s.DiskBytes += q.DiskBytes()
		if n == b.current.load() {
			s.CurrentRecords = records
		} else {
			s.SpreadRecords += records
		}
	}
	for _, m := range b.moved {
		records, bytes := m.q.Len()
		s.Bytes += bytes
		s.DiskBytes += m.q.DiskBytes()
		s.MovedRecords += records
	}
	for _, q := range []*queue.Queue{b.overBudget, b.old} {
		if q != nil {
			records, bytes := q.Len()
			s.OverBudgetRecords += records
			s.Bytes += bytes
			s.DiskBytes += q.DiskBytes()
		}
	}
	return s
}

func (b *Beast) Current() Number {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.current.load()
}

func (b *Beast) Horizon() Number {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.horizon.load()
}

// QueueInfo describes a numbered queue.
type QueueInfo struct {
	Lane           int // of Lanes
	Number         Number
	Records, Bytes int64
}

// Queues returns the numbered queues from s on, in order. It locks every queue for a moment.
func (b *Beast) Queues() []QueueInfo {
	b.mu.RLock()
	list := make([]QueueInfo, 0, len(b.queues))
	for n, q := range b.queues {
		records, bytes := q.Len()
		list = append(list, QueueInfo{Number: n, Records: records, Bytes: bytes})
	}
	b.mu.RUnlock()
	slices.SortFunc(list, func(a, b QueueInfo) int { return cmp.Compare(a.Number, b.Number) })
	return list
}
