package crawl

import (
	"context"
	"time"
)

// A stage without work sleeps until something happens. Three things wake it: its own signal, which a
// transaction raises when it adds work; a timer, if it waits for a known time; and the pulse, which follows
// every change of the crawler within pulseEvery. The pulse is for stages that wait for the state of others
// (the stock, idle connections, the end of BEAST's queue). Without a change no stage has new work before
// its timer fires, so a crawl that waits for one slow host is idle between its pages.

// pulseEvery is the least time between two pulses.
const pulseEvery = 100 * time.Millisecond

// pulse wakes all stages after a change.
func (c *crawler) pulse(ctx context.Context) error {
	for c.await(ctx, c.committed, wakeAfter) {
		for _, s := range c.pulsed {
			s.raise()
		}
		if !sleep(ctx, pulseEvery) {
			return nil
		}
	}
	return nil
}
