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
	// Wait is the time until running emissions had ended; fetching continues meanwhile. Pause is the time
	// for which the exclusive lock stopped all transactions. Total is the time from the start to the
	// durable manifest.
	Wait, Pause, Total time.Duration
	// Stall is the longest duration of a transaction that ended during the checkpoint, including its wait
	// for the lock and the disk. It is the delay that a fetcher saw.
	Stall time.Duration
	// Bytes is the number of bytes written, without those that stages wrote at the same time.
	Bytes int64
	When  time.Time
	// LongestPause, LongestStall and LongestTotal cover all checkpoints of this run.
	LongestPause, LongestStall, LongestTotal time.Duration
}

// since updates the maxima with those of the previous checkpoint, nil if there is none.
func (c *CheckpointStats) since(last *CheckpointStats) {
	if last == nil {
		last = &CheckpointStats{}
	}
	c.LongestPause = max(last.LongestPause, c.Pause)
	c.LongestStall = max(last.LongestStall, c.Stall)
	c.LongestTotal = max(last.LongestTotal, c.Total)
}

// slowest is the longest duration recorded since the last call of take.
type slowest struct{ ns atomic.Int64 }

func (s *slowest) note(d time.Duration) {
	for old := s.ns.Load(); int64(d) > old && !s.ns.CompareAndSwap(old, int64(d)); old = s.ns.Load() {
	}
}

func (s *slowest) take() time.Duration { return time.Duration(s.ns.Swap(0)) }

// pausable is a structure whose emissions must end before a checkpoint takes the transaction lock.
type pausable interface {
	Pause()
	Resume()
}

// pauseAll returns when no emission is running. It pauses all structures in parallel, so the wait is that
// of the slowest.
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
