package revisit

import (
	"math"
	"sync"
	"time"
)

// Margin finds the gain of a visit for which Optimal makes as many visits as Uniform: one a page in each
// Policy.Default. It is the Lagrange multiplier of the optimum. Safe for concurrent use.
type Margin struct {
	mu      sync.Mutex
	seconds float64
}

// Steps of a Margin, in its logarithm, for a visit. With settle/pages the margin follows the budget within
// about half of Policy.Default: the rate of visits goes with the margin's root or slower, and one visit of
// each page makes up settle/2.
const (
	settle    = 4.0
	mostStep  = 0.05 // for few pages
	minMargin = 1e-3 // seconds
)

// maxMargin is above the gain of any page within the longest interval.
var maxMargin = MaxInterval.Seconds()

// Set sets the margin of an earlier run, or that of the policy if there is none, or it is out of range.
// Without the policy Optimal (nil: no policy), it keeps the margin for a later run.
func (m *Margin) Set(seconds float64, p *Policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seconds = seconds
	if p != nil && p.Kind == Optimal && !(seconds >= minMargin && seconds <= maxMargin) {
		m.seconds = min(max(p.firstMargin(), minMargin), maxMargin)
	}
}

// Seconds returns the margin.
func (m *Margin) Seconds() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seconds
}

// Note adapts the margin to a visit of a page after elapsed, whose next visit is due after next. pages is the
// number of pages with revisits.
//
// The page counts in proportion to the time since its last visit, because rarely visited pages come here
// rarely. So the sum of elapsed/next estimates the future visits of all pages, and that of elapsed/Default
// estimates the budget. Their difference moves the margin, which converges where both are equal (Robbins and
// Monro). Late visits do not change that.
func (m *Margin) Note(p *Policy, elapsed, next time.Duration, pages int64) {
	if elapsed <= 0 || next <= 0 {
		return
	}
	step := min(mostStep, settle/float64(max(1, pages)))
	e := float64(elapsed)
	move := step * (e/float64(next) - e/float64(p.Default))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seconds = min(max(m.seconds*math.Exp(min(max(move, -1), 1)), minMargin), maxMargin)
}
