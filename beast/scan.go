package beast

import (
	"fmt"

	"drumbeat/queue"
)

// ScanDue is true when s has moved h queues since the last scan, and no scan is on.
func (b *Beast) ScanDue() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.old == nil && b.due()
}

func (b *Beast) due() bool { return b.current.load()-b.lastScan >= b.horizon.load() }

// Scanning is true from StartScan to EndScan.
func (b *Beast) Scanning() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.old != nil
}

// StartScan begins to read QF; failures from now on go to a new generation. If the scan is due, h doubles, up
// to QueuesMax. It does no I/O. It must not be called while a scan is on.
func (b *Beast) StartScan() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.old != nil {
		panic("BUG: beast: scan started while one is on")
	}
	gen := b.failedGen + 1
	q, err := queue.Open(b.opt.queue(failedName(b.opt.Name, gen)), nil)
	if err != nil {
		return fmt.Errorf("beast: create failed queue %d: %w", gen, err)
	}
	if b.due() {
		b.horizon.store(min(2*b.horizon.load(), Number(b.opt.QueuesMax)))
	}
	b.lastScan = b.current.load()
	b.scans++
	b.scanMoved.Store(b.placed.Load())
	b.old, b.oldGen = b.failed, b.failedGen
	b.failed, b.failedGen = q, gen
	return nil
}

// ScanPeek returns the oldest unread record of the scan, valid until ScanAdvance; false at its end, or if
// there is no scan.
func (b *Beast) ScanPeek() ([]byte, bool, error) {
	b.mu.RLock()
	q, gen := b.old, b.oldGen
	b.mu.RUnlock()
	if q == nil {
		return nil, false, nil
	}
	rec, ok, err := q.Peek()
	if err != nil {
		return nil, false, fmt.Errorf("beast: read failed queue %d: %w", gen, err)
	}
	return rec, ok, nil
}

// ScanAdvance passes the record that ScanPeek returned.
func (b *Beast) ScanAdvance() {
	b.mu.RLock()
	q := b.old
	b.mu.RUnlock()
	q.Advance()
}

// EndScan ends the scan, which must have been read to its end.
func (b *Beast) EndScan() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.old == nil {
		panic("BUG: beast: no scan to end")
	}
	if records, _ := b.old.Len(); records > 0 {
		panic(fmt.Sprintf("BUG: beast: scan ended with %d records unread", records))
	}
	b.retired = append(b.retired, b.old)
	b.old = nil
	return nil
}

// Stats is a picture for displays and decisions.
type Stats struct {
	Current, Horizon, LastScan Number
	Scans                      int64 // scans started, over the whole life
	Scanning                   bool
	Queues                     int   // numbered queues that exist
	CurrentRecords             int64 // unread in queue s
	SpreadRecords              int64 // in the queues beyond
	FailedRecords              int64 // in QF, both generations
	Bytes                      int64 // of all these records
	PlacedSinceScan            int64 // records appended to numbered queues since the last scan began
}

// Stats may be called at any time; it costs a look at every queue.
func (b *Beast) Stats() Stats {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := Stats{Current: b.current.load(), Horizon: b.horizon.load(), LastScan: b.lastScan, Scans: b.scans,
		Scanning: b.old != nil, Queues: len(b.queues), PlacedSinceScan: b.placed.Load() - b.scanMoved.Load()}
	for n, q := range b.queues {
		records, bytes := q.Len()
		s.Bytes += bytes
		if n == b.current.load() {
			s.CurrentRecords = records
		} else {
			s.SpreadRecords += records
		}
	}
	for _, q := range []*queue.Queue{b.failed, b.old} {
		if q != nil {
			records, bytes := q.Len()
			s.FailedRecords += records
			s.Bytes += bytes
		}
	}
	return s
}

// Current returns s.
func (b *Beast) Current() Number {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.current.load()
}

// Horizon returns h.
func (b *Beast) Horizon() Number {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.horizon.load()
}
