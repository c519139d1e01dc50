package crawl

import (
	"context"
	"time"
)

// A stage that has nothing to do sleeps until something happens. Three things wake it: its own signal, raised by the transaction
// that puts something before it; a timer, where it waits for a time that it knows; and the pulse, which follows every
// change of the crawler within pulseEvery, since some stages wait for states of others (stock, idle connections, BEAST's
// end). Without a change and before its time no stage's answer can change; so a crawl that waits for one slow host does
// nothing between its pages.

// pulseEvery is the least time between two pulses: while a crawl is busy its stages look up so often.
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
