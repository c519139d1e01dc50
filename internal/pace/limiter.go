package pace

import (
	"sync"
	"time"
)

const (
	// creditFor is how long unused credit lasts: timers and busy CPUs are a few milliseconds late.
	creditFor = 50 * time.Millisecond
	// lookEvery is the interval of looks at the schedule, besides the times at which its value changes:
	// somebody may set the machine's clock.
	lookEvery = 500 * time.Millisecond
	// maxSleep is the longest wait that a limiter returns, since the value may change.
	maxSleep = 500 * time.Millisecond
)

// limiter is the common part of Rate and Bandwidth: a schedule and the units that it has allowed so far.
type limiter struct {
	schedule Schedule
	scale    float64 // units of the limiter for one unit of the schedule

	mu      sync.Mutex // guards schedule and all fields below; held for arithmetic and for a look at the schedule
	rate    float64    // current rate, in units a second
	look    time.Time  // time of the next look at the schedule
	at      time.Time  // time of the last update of allowed
	allowed float64    // units allowed so far
}

// advance updates allowed to the time now. Held: mu.
func (l *limiter) advance(now time.Time) {
	if d := now.Sub(l.at); d > 0 {
		if !NoLimit(l.rate) {
			l.allowed += l.rate * d.Seconds()
		}
		l.at = now
	}
	if now.Before(l.look) && l.look.Sub(now) <= lookEvery { // otherwise the clock was set back
		return
	}
	l.rate = l.schedule.At(now) * l.scale
	l.look = now.Add(lookEvery)
	if next := l.schedule.Next(now); !next.IsZero() && next.Before(l.look) {
		l.look = next
	}
}

// lateness returns how many allowed units may stay unused without expiring. Held: mu.
func (l *limiter) lateness() float64 { return l.rate * creditFor.Seconds() }

// line is a queue for units. A use is due when the allowed units reach the units booked before it.
type line struct {
	booked float64
	first  float64 // bookings below this expired
}

// book books units and returns when they are due, in allowed units. Held: mu.
func (n *line) book(l *limiter, units float64) (due float64) {
	if NoLimit(l.rate) {
		n.booked, n.first = l.allowed, l.allowed
		return l.allowed
	}
	if late := l.lateness(); n.booked < l.allowed-late { // unused units expire …
		n.booked = l.allowed
		if late >= 1 { // … except the last; a fraction of a unit would allow one use too many
			n.booked -= late
		}
		n.first = n.booked
	}
	due = n.booked
	n.booked += units
	return due
}

// give returns booked units to the line; due is the result of their book. Held: mu.
func (n *line) give(l *limiter, due, units float64) {
	if !NoLimit(l.rate) && due >= n.first {
		n.booked -= units
	}
}

// wait returns the time until allowed reaches due, at most maxSleep or until the next look. Held: mu.
func (l *limiter) wait(due float64) time.Duration {
	if NoLimit(l.rate) || due <= l.allowed && l.rate > 0 {
		return 0
	}
	sleep := maxSleep
	if d := (due - l.allowed) / l.rate; d < sleep.Seconds() { // false if the rate is 0
		sleep = max(time.Duration(d*float64(time.Second))+1, time.Microsecond)
	}
	return max(min(sleep, l.look.Sub(l.at)), time.Microsecond)
}

// set replaces the schedule. What was allowed and booked so far stays.
func (l *limiter) set(s Schedule, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(now)
	l.schedule, l.look = s, time.Time{}
	l.advance(now)
}

// Rate enforces a schedule of pages per second. One goroutine uses Ready and Take; any may use Give. The nil
// Rate has no limit.
type Rate struct {
	l    limiter
	line line
}

// NewRate returns the limiter of a schedule of Pages that starts at now. Set may change it.
func NewRate(s Schedule, now time.Time) *Rate {
	r := &Rate{l: limiter{schedule: s, scale: 1, at: now}}
	r.l.advance(now)
	return r
}

// Set replaces the schedule.
func (r *Rate) Set(s Schedule, now time.Time) { r.l.set(s, now) }

// Ready returns how long to wait before the next call of Ready; 0: a request may be sent.
func (r *Rate) Ready(now time.Time) time.Duration {
	if r == nil {
		return 0
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.advance(now)
	return r.l.wait(r.line.booked)
}

// Take counts a request.
func (r *Rate) Take(now time.Time) {
	if r == nil {
		return
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.advance(now)
	r.line.book(&r.l, 1)
}

// Give takes back a request that was not sent.
func (r *Rate) Give(now time.Time) {
	if r == nil {
		return
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.advance(now)
	r.line.give(&r.l, r.line.booked, 1)
}

// Schedule returns the schedule of the limiter.
func (r *Rate) Schedule() Schedule {
	if r == nil {
		return Schedule{}
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.l.schedule
}
