package gate

import (
	"sync"
	"time"
)

// comeBack keeps the crawl from ending before the URLs have returned whose robots.txt is available again. The end does
// not wait for the URLs of an unreachable host, nor for those of a host whose last request for robots.txt failed
// (state.ReasonRobotsUnavailable). During the next request they wait on disk for its answer, up to 1<<mostWait seconds.
// If it succeeds, for example after an outage, they return late, and the crawl would end without them. So after a
// success it waits until they have returned, and not for those of other hosts.
type comeBack struct {
	mu     sync.Mutex // guards the fields below
	groups [comeBackGroups]returns
	until  time.Time // when the last URL that does not know of a success returns
	merged time.Time // RobotsCache has merged all updates from before this time
}

// comeBackGroups bounds the RAM to 200 kB. Origins share a group by their keys: the end then waits also for an origin
// that still fails if it is in the group of one that has succeeded.
const comeBackGroups = 1 << 12

// returns has the URLs of a group of origins.
type returns struct {
	due   time.Time // when the last one returns that waits for the answer of an origin whose last request failed
	fresh time.Time // the last success; URLs may wait without knowing it until RobotsCache has merged it
}

// of returns the group of an origin. Keys of origins have the slot of their PLD in some bits.
func (c *comeBack) of(origin uint64) *returns {
	return &c.groups[origin*0x9e3779b97f4a7c15>>32%comeBackGroups]
}

// waits records that a URL waits for the answer of an origin whose last request failed, and returns by due.
func (c *comeBack) waits(origin uint64, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.of(origin)
	if due.After(r.due) {
		r.due = due
	}
	if !r.fresh.IsZero() && !r.fresh.Before(c.merged) {
		c.expect(r.due)
	}
}

// succeeded records that a request to an origin whose last request failed has succeeded at now.
func (c *comeBack) succeeded(origin uint64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.of(origin)
	r.fresh = now
	c.expect(r.due)
}

func (c *comeBack) expect(due time.Time) {
	if due.After(c.until) {
		c.until = due
	}
}

// mergedBefore records that RobotsCache has merged all updates from before a time.
func (c *comeBack) mergedBefore(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.merged = t
}

// expected reports whether URLs that do not know of a success have yet to return.
func (c *comeBack) expected(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.until)
}
