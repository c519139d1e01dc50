package crawl

import (
	"context"
	"time"
)

// A mover that has nothing to do sleeps until something happens. Three things wake it: its own signal, raised by the step
// that puts something before it; a timer, where it waits for a time that it knows; and the pulse, which follows every
// change of the ring within pulseEvery, since some movers wait for states of others (stock, idle connections, BEAST's
// end). Without a change and before its time no mover's answer can change; so a crawl that waits for one slow host does
// nothing between its pages.

// wakeAfter is the net under all this: how long a mover sleeps at most.
const wakeAfter = time.Minute

// pulseEvery is the least time between two pulses: while a crawl is busy its movers look up so often.
const pulseEvery = 100 * time.Millisecond

// changed notes that a step, a merge or an exchange has ended.
func (r *ring) changed() {
	r.changes.Add(1)
	r.stepped.raise()
}

// await returns true when the signal was raised or d has passed, false when the context ended.
func (r *ring) await(ctx context.Context, s <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(max(0, min(d, wakeAfter)))
	defer t.Stop()
	defer r.wakeups.Add(1)
	select {
	case <-s:
		return true
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pulse wakes all movers after a change.
func (r *ring) pulse(ctx context.Context) error {
	for r.await(ctx, r.stepped, wakeAfter) {
		for _, s := range r.signals() {
			s.raise()
		}
		if !sleep(ctx, pulseEvery) {
			return nil
		}
	}
	return nil
}

// signals are those that the pulse raises.
func (r *ring) signals() []signal {
	return []signal{r.wakeSeen, r.wakeStar, r.wakeBeast, r.wakeScan, r.wakeRobots, r.wakeRequested, r.wakeAwaiting, r.wakeJobs,
		r.wakeReady, r.wakeLater, r.wakeRelieve, r.wakeDispatch, r.wakeWatch, r.wakeSpace}
}
