package revisit

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Policy says when pages are visited again.
type Policy struct {
	// Least and Longest bound the interval between two visits; Default is that of pages whose rate of change is not
	// known.
	Least, Longest, Default time.Duration
	// Uniform visits all pages after Default.
	Uniform bool
	// Gone is the number of visits in a row that must find no page before it is given up.
	Gone int
}

// leastVisits is the number of visits after the first from which the rate is estimated.
const leastVisits = 2

// Faults of a policy.
var (
	ErrLeast   = errors.New("least interval between visits of")
	ErrLongest = errors.New("longest interval between visits of")
	ErrDefault = errors.New("default interval between visits of")
)

// Validate returns what is wrong with a policy.
func (p *Policy) Validate() error {
	switch {
	case p.Least < time.Second:
		return fmt.Errorf("%w %v: must be at least 1s", ErrLeast, p.Least)
	case p.Longest < p.Least || p.Longest > MaxInterval:
		return fmt.Errorf("%w %v: must be %v (the least one) to %v", ErrLongest, p.Longest, p.Least, MaxInterval)
	case p.Default < p.Least || p.Default > p.Longest:
		return fmt.Errorf("%w %v: must be %v to %v", ErrDefault, p.Default, p.Least, p.Longest)
	case p.Gone < 1 || p.Gone > 100:
		return fmt.Errorf("%d visits without a page: must be 1 to 100", p.Gone)
	}
	return nil
}

// MaxInterval is the longest interval: the calendar's longest delay.
const MaxInterval = 60 * 24 * time.Hour

// Later sets h.Interval for a visit at a time that told nothing about the page, such as one that found its server out of
// order. The next visit is due after p.Default.
func (p *Policy) Later(h *History, at time.Time) {
	h.Interval = uint32(min(max(0, at.Unix()-h.Last)+int64(p.Default/time.Second), math.MaxUint32))
}

// Next returns the time until the next visit, and sets h.Interval. gone means that there is to be none. fresh is how
// long the server says that its last response stays as it is; 0: it does not say. Until the rate of change is known,
// the page is not visited before that.
func (p *Policy) Next(h *History, fresh time.Duration) (wait time.Duration, gone bool) {
	if int(h.Missing) >= p.Gone {
		return 0, true
	}
	wait = p.Default
	switch rate, ok := h.Rate(); {
	case p.Uniform:
	case !ok:
		wait = max(wait, fresh)
	default:
		// One change is expected until then. In float64, because a low rate overflows a Duration.
		seconds := p.Longest.Seconds()
		if rate > 0 {
			seconds = min(seconds, 1/rate)
		}
		wait = time.Duration(seconds * float64(time.Second))
	}
	if h.Missing > 0 { // confirm soon
		wait = min(wait, p.Default)
	}
	wait = max(p.Least, min(wait, p.Longest)).Truncate(time.Second)
	h.Interval = uint32(wait / time.Second)
	return wait, false
}
