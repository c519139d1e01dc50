package fetch

import (
	"os"
	"time"

	"drumbeat/internal/pace"
)

// unasked is what a read may bring before the reply's first byte, and in a handshake: it waits for nobody but the site, so that the
// site's time is measured; what comes counts all the same, and is little.
const unasked = 1 << 10

// throttle is an exchange's part of Options.Limiter.
type throttle struct {
	pace.Meter
	slept time.Duration
}

// endThrottle gives back what was booked and not received.
func (x *exchange) endThrottle() {
	if !x.throttle.Metered() {
		return
	}
	x.resp.Throttled, x.resp.Received = x.throttle.slept, x.throttle.Received()
	x.throttle.End(time.Now())
}

// readThrottled reads what the limiter allows, when it does. What we sleep is no fault of the site's: all clocks stand still.
func (w *conn) readThrottled(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	most, wait := min(len(p), unasked), time.Duration(0)
	if !w.first.IsZero() {
		most, wait = w.throttle.Allow(time.Now(), len(p))
	}
	if wait > 0 {
		if most = w.sleepThrottled(wait, len(p)); most == 0 {
			return 0, os.ErrDeadlineExceeded // as if the watcher had been there before
		}
	}
	n, err := w.read(p[:most])
	w.throttle.Used(time.Now(), n)
	return n, err
}

// sleepThrottled waits for the conn's turn, and returns how much may be read; nothing after the context's end.
func (w *conn) sleepThrottled(wait time.Duration, want int) (most int) {
	begin := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.throttle.Turn():
		case <-w.ctx.Done():
			return 0
		}
		now := time.Now()
		if most, wait = w.throttle.Allow(now, want); wait == 0 {
			slept := now.Sub(begin)
			w.throttle.slept += slept
			w.pause(slept)
			return most
		}
		timer.Reset(wait)
	}
}
