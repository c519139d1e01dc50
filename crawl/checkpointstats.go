package crawl

import (
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/internal/bug"
)

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
