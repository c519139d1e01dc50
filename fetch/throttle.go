package fetch

import (
	"os"
	"time"

	"drumbeat/internal/pace"
)

// unasked is the most that a read takes without asking the limiter, before the first byte of the reply and
// during a handshake. Such reads wait only for the site, so its response time is measured correctly. Their
// few bytes are counted.
const unasked = 1 << 10

// throttle is the state of Options.Limiter for one exchange.
type throttle struct {
	pace.Meter
	slept time.Duration
}

// endThrottle returns reserved bytes that were not received.
func (x *exchange) endThrottle() {
	if !x.throttle.Metered() {
		return
	}
	x.resp.Throttled, x.resp.Received = x.throttle.slept, x.throttle.Received()
	x.throttle.End(time.Now())
}

// readThrottled reads as many bytes as the limiter allows, when it allows them. Its sleep suspends all time
// limits, since the delay is not the site's fault.
func (c *conn) readThrottled(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	most, wait := min(len(p), unasked), time.Duration(0)
	if !c.first.IsZero() {
		most, wait = c.throttle.Allow(time.Now(), len(p))
	}
	if wait > 0 {
		if most = c.sleepThrottled(wait, len(p)); most == 0 {
			return 0, os.ErrDeadlineExceeded // the same error as from the watcher
		}
	}
	n, err := c.read(p[:most])
	c.throttle.Used(time.Now(), n)
	return n, err
}

// sleepThrottled waits until the limiter lets the conn read. It returns the number of bytes allowed, 0 if
// the context ended.
func (c *conn) sleepThrottled(wait time.Duration, want int) (most int) {
	begin := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.throttle.Turn():
		case <-c.ctx.Done():
			return 0
		}
		now := time.Now()
		if most, wait = c.throttle.Allow(now, want); wait == 0 {
			slept := now.Sub(begin)
			c.throttle.slept += slept
			c.pause(slept)
			return most
		}
		timer.Reset(wait)
	}
}
