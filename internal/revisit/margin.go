package revisit

import (
	"math"
	"sync"
	"time"
)

// Margin finds what a visit must gain for Optimal to make as many visits as Uniform would: one a page in each
// Policy.Default. It is the multiplier of Lagrange of the optimum. Safe for concurrent use.
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

// maxMargin is more than any page gains within the longest interval.
var maxMargin = MaxInterval.Seconds()

// Set starts from a margin that an earlier run found; from that of a policy if there is none, or not in
// range. With another policy than Optimal, or none (nil), it keeps the margin for a later run.
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

// Note takes into account that a page was visited again after a time, and is to be visited next after
// another. pages is the number of pages that are visited again and again.
//
// The page stands for others in proportion to the time since its last visit, as one that is visited seldom is
// seldom seen here. So the sum of elapsed/next is an estimate of the visits that all pages are going to get,
// and that of elapsed/Default of the budget. Their difference moves the margin, whose only rest is where both
// are equal (Robbins and Monro). Visits that are late change nothing in that.
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
