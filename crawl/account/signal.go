package account

import (
	"context"
	"time"
)

// Signal wakes one stage. Raising it never blocks; several raises before a wait count as one.
type Signal chan struct{}

// NewSignal returns a signal that nobody has raised.
func NewSignal() Signal { return make(Signal, 1) }

// Raise wakes the stage that waits for the signal, or the next that does.
func (s Signal) Raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// WakeAfter is the longest sleep of a stage. It bounds the delay if a signal is missing.
const WakeAfter = time.Minute

// PulseEvery is the least time between two pulses.
const PulseEvery = 100 * time.Millisecond

// PulsedSignal creates a signal that the pulse raises. Call it only before the stages start.
func (r *Run) PulsedSignal() Signal {
	s := NewSignal()
	r.pulsed = append(r.pulsed, s)
	return s
}

// Pulse is a stage. It wakes all stages with a pulsed signal after a change, until ctx ends.
func (r *Run) Pulse(ctx context.Context) error {
	for r.Await(ctx, r.committed, WakeAfter) {
		for _, s := range r.pulsed {
			s.Raise()
		}
		if !Sleep(ctx, PulseEvery) {
			return nil
		}
	}
	return nil
}

// Changed counts a transaction, merge or exchange that has ended, and wakes the pulse.
func (r *Run) Changed() {
	r.changes.Add(1)
	r.committed.Raise()
}

// Changes returns the number of transactions, merges and exchanges that have ended.
func (r *Run) Changes() int64 { return r.changes.Load() }

// Await waits until s is raised or d (at most WakeAfter) has passed. It returns false if ctx ended first.
func (r *Run) Await(ctx context.Context, s <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(max(0, min(d, WakeAfter)))
	defer t.Stop()
	defer r.Wakeups.Add(1)
	select {
	case <-s:
		return true
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Sleep waits for d. It returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
