package crawl

import (
	"sync"

	"drumbeat/internal/bug"
)

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
