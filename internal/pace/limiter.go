package pace

import (
	"sync"
	"time"
)

const (
	// creditFor is how long unused credit lasts: timers and busy CPUs are some milliseconds late.
	creditFor = 50 * time.Millisecond
	// lookEvery is how often the schedule is looked at besides when its value changes: the machine's clock may be set.
	lookEvery = 500 * time.Millisecond
	// maxSleep is the longest wait that is asked for at once, since the value may change.
	maxSleep = 500 * time.Millisecond
)

// limiter is what Rate and Bandwidth have in common: a schedule and what it has allowed so far.
type limiter struct {
	schedule Schedule
	scale    float64 // units counted for one of the schedule's

	mu      sync.Mutex // guards all below; held for arithmetic, and for a look at the schedule
	rate    float64    // units a second that hold now
	look    time.Time  // when to look at the schedule again
	at      time.Time  // when allowed was right
	allowed float64    // units allowed so far
}

// advance brings allowed up to now. Held: mu.
func (l *limiter) advance(now time.Time) {
	if d := now.Sub(l.at); d > 0 {
		if !NoLimit(l.rate) {
			l.allowed += l.rate * d.Seconds()
		}
		l.at = now
	}
	if now.Before(l.look) && l.look.Sub(now) <= lookEvery { // else the clock was set back
		return
	}
	l.rate = l.schedule.At(now) * l.scale
	l.look = now.Add(lookEvery)
	if next := l.schedule.Next(now); !next.IsZero() && next.Before(l.look) {
		l.look = next
	}
}

// lateness is how far behind what is allowed a place in the line may be and still be good. Held: mu.
func (l *limiter) lateness() float64 { return l.rate * creditFor.Seconds() }

// line is a line of those who want units: they are served when what was allowed reaches what was booked before them.
type line struct {
	booked float64
	first  float64 // what was booked before here is forgotten
}

// book books units and returns when they are due, in units allowed. Held: mu.
func (n *line) book(l *limiter, units float64) (due float64) {
	if NoLimit(l.rate) {
		n.booked, n.first = l.allowed, l.allowed
		return l.allowed
	}
	if late := l.lateness(); n.booked < l.allowed-late { // what nobody used is gone …
		n.booked = l.allowed
		if late >= 1 { // … but for this much; a part of a unit would let one too many into a span of time
			n.booked -= late
		}
		n.first = n.booked
	}
	due = n.booked
	n.booked += units
	return due
}

// give takes units that were due at some time out of the line. Held: mu.
func (n *line) give(l *limiter, due, units float64) {
	if !NoLimit(l.rate) && due >= n.first {
		n.booked -= units
	}
}

// wait is the time until what was allowed reaches due, or until one had better look again. Held: mu.
func (l *limiter) wait(due float64) time.Duration {
	if NoLimit(l.rate) || due <= l.allowed && l.rate > 0 {
		return 0
	}
	sleep := maxSleep
	if d := (due - l.allowed) / l.rate; d < sleep.Seconds() { // by a rate of 0 it isn't
		sleep = max(time.Duration(d*float64(time.Second))+1, time.Microsecond)
	}
	return max(min(sleep, l.look.Sub(l.at)), time.Microsecond)
}

// Rate makes a schedule of pages a second hold. It is for one goroutine that sends requests, and for any that give back. The nil
// Rate limits nothing.
type Rate struct {
	l    limiter
	line line
}

// NewRate returns the limiter of a schedule of Pages, or nil if that never limits. now is from when on it counts.
func NewRate(s Schedule, now time.Time) *Rate {
	if !s.Limits() {
		return nil
	}
	r := &Rate{l: limiter{schedule: s, scale: 1, at: now}}
	r.l.advance(now)
	return r
}

// Ready returns how long to wait before asking again; 0: another request may be sent.
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

// Give takes back a request that wasn't sent after all.
func (r *Rate) Give(now time.Time) {
	if r == nil {
		return
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.advance(now)
	r.line.give(&r.l, r.line.booked, 1)
}

// Schedule returns what it was made of.
func (r *Rate) Schedule() Schedule {
	if r == nil {
		return Schedule{}
	}
	return r.l.schedule
}
