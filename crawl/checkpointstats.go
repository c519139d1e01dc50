package crawl

import (
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/internal/bug"
)

// CheckpointStats describes the last checkpoint.
type CheckpointStats struct {
	Number uint64
	// Wait is the time until running emissions had ended, while fetching goes on; Pause the time that the lock was held
	// and no transaction could run; Total from the beginning to the durable manifest.
	Wait, Pause, Total time.Duration
	// Stall is the longest that any transaction took that ended while the checkpoint went on, waiting for its lock and for the
	// disk included: what a fetch worker felt.
	Stall time.Duration
	// Bytes is what was written, without what stages wrote meanwhile.
	Bytes int64
	When  time.Time
	// LongestPause, LongestStall and LongestTotal are over all checkpoints of this run.
	LongestPause, LongestStall, LongestTotal time.Duration
}

// since carries the maxima on from the checkpoint before, nil if there is none.
func (c *CheckpointStats) since(last *CheckpointStats) {
	if last == nil {
		last = &CheckpointStats{}
	}
	c.LongestPause = max(last.LongestPause, c.Pause)
	c.LongestStall = max(last.LongestStall, c.Stall)
	c.LongestTotal = max(last.LongestTotal, c.Total)
}

// slowest is the longest duration noted since it was last taken.
type slowest struct{ ns atomic.Int64 }

func (s *slowest) note(d time.Duration) {
	for old := s.ns.Load(); int64(d) > old && !s.ns.CompareAndSwap(old, int64(d)); old = s.ns.Load() {
	}
}

func (s *slowest) take() time.Duration { return time.Duration(s.ns.Swap(0)) }

// pausable is a structure whose emission a checkpoint lets end before it takes the transaction lock.
type pausable interface {
	Pause()
	Resume()
}

// pauseAll returns when no emission runs. It asks all structures at once: the one that takes longest is waited for, not
// each after the other.
func pauseAll(all []pausable) {
	var asked sync.WaitGroup
	for _, p := range all {
		asked.Go(func() {
			defer bug.Fatal()
			p.Pause()
		})
	}
	asked.Wait()
}
