package gate

import (
	"sync"
	"time"
)

// comeBack keeps the crawl from ending while URLs return whose robots.txt is available again. URLs of a host whose last
// request for it failed count as those of an unreachable host, and the crawl's end does not wait for these
// (state.ReasonRobotsUnavailable). During the next request they wait on disk for its answer, up to 1<<mostWait seconds.
// If it succeeds, for example after an outage, they return late, and the crawl would end without them. So after a
// success it waits until they have returned.
type comeBack struct {
	mu    sync.Mutex // guards the fields below
	due   time.Time  // when the last URL returns that waits for the answer of such a host
	until time.Time  // when the last one returns that does not know of the last success
	fresh time.Time  // the last success, until RobotsCache has merged it; then zero
}

// waits records that a URL waits for the answer of a host whose last request failed, and returns by due.
func (c *comeBack) waits(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if due.After(c.due) {
		c.due = due
	}
	if !c.fresh.IsZero() {
		c.until = c.due
	}
}

// succeeded records that a request to a host whose last request failed has succeeded at now.
func (c *comeBack) succeeded(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.fresh = c.due, now
}

// merged records that RobotsCache has merged all that it had been told before a time.
func (c *comeBack) merged(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fresh.Before(before) {
		c.fresh = time.Time{}
	}
}

// expected reports whether URLs are still to return that do not know of a success.
func (c *comeBack) expected(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.until)
}
