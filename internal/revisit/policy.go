package revisit

import (
	"errors"
	"fmt"
	"math"
	"time"

	"drumbeat/internal/human"
)

// Kind is the rule that divides visits among pages.
type Kind uint8

// Kinds of policies.
const (
	Proportional Kind = iota // a visit for each expected change
	Uniform                  // all pages after Policy.Default
	Optimal                  // as many visits as with Uniform, placed to keep the most pages up to date
)

// Policy schedules the visits of pages.
type Policy struct {
	// Least and Longest bound the interval between two visits; Default is that between the first visit and
	// the second.
	Least, Longest, Default time.Duration
	// Kind is the rule that divides visits among pages.
	Kind Kind
	// Margin is the gain of a visit with Optimal, in seconds (see Margin.Seconds); 0: the gain of unknown
	// pages at Default.
	Margin float64
	// Gone is the number of consecutive visits without a page after which visits end.
	Gone int
	// Importance is how much the importance of a page counts, from 0 (not at all) to 1: the exponent of Weigh.
	Importance float64
	// Weight is the importance of the page to be scheduled; 0: 1. Proportional and Uniform divide its interval by the
	// weight. Optimal multiplies what a visit gains, so the number of all visits stays.
	Weight float64
	// Copies multiplies the interval of a page that is a copy of another page of its host; 0: 1.
	Copies int `json:",omitempty"`
}

// Weigh sets the weight of a page from the budget of its PLD and the budget of a PLD without known in-links. A budget
// of 0 is not known; the weight is then 1.
func (p *Policy) Weigh(budget, normal uint32) {
	p.Weight = 1
	if budget > 0 && normal > 0 {
		p.Weight = math.Pow(float64(budget)/float64(normal), p.Importance)
	}
}

// weight returns the weight, or 1 if there is none.
func (p *Policy) weight() float64 {
	if p.Weight <= 0 {
		return 1
	}
	return p.Weight
}

// leastVisits is the number of visits after the first that make the rate of change known.
const leastVisits = 2

// Faults of a policy.
var (
	ErrLeast   = errors.New("minimum interval between visits of")
	ErrLongest = errors.New("maximum interval between visits of")
	ErrDefault = errors.New("default interval between visits of")
)

// Validate returns the faults of a policy.
func (p *Policy) Validate() error {
	switch {
	case p.Least < time.Second:
		return fmt.Errorf("%w %s: must be at least 1s", ErrLeast, human.Exact(p.Least))
	case p.Longest < p.Least || p.Longest > MaxInterval:
		return fmt.Errorf("%w %s: must be %s (the minimum) to %s", ErrLongest, human.Exact(p.Longest),
			human.Exact(p.Least), human.Exact(MaxInterval))
	case p.Default < p.Least || p.Default > p.Longest:
		return fmt.Errorf("%w %s: must be %s to %s", ErrDefault, human.Exact(p.Default), human.Exact(p.Least),
			human.Exact(p.Longest))
	case !(p.Importance >= 0 && p.Importance <= 1):
		return fmt.Errorf("importance %g: must be 0 to 1", p.Importance)
	case p.Gone < 1 || p.Gone > 100:
		return fmt.Errorf("%d visits without a page: must be 1 to 100", p.Gone)
	}
	return nil
}

// MaxInterval is the longest interval: the calendar's longest delay.
const MaxInterval = 60 * 24 * time.Hour

// Later sets h.Interval after a visit without a result for the page, such as a server error. The next visit
// is due after p.Default.
func (p *Policy) Later(h *History, at time.Time) {
	h.mendLast(at.Unix())
	h.Interval = uint32(min(max(0, at.Unix()-h.Last)+int64(p.Default/time.Second), math.MaxUint32))
}

// Next returns the time until the next visit, and sets h.Interval. gone means that there is none. fresh is
// the freshness lifetime of the last response by its server; 0: unknown. While the rate of change is unknown,
// the next visit waits at least that long.
func (p *Policy) Next(h *History, fresh time.Duration) (wait time.Duration, gone bool) {
	if int(h.Missing) >= p.Gone {
		return 0, true
	}
	seconds := p.Default.Seconds() / p.weight()
	if p.Kind != Uniform && (h.Visits > 0 || h.Belief.Shape > priorShape) { // a first visit may have found a date
		seconds = p.interval(h.Belief.known(p.Default))
	}
	wait = time.Duration(min(seconds, p.Longest.Seconds()) * float64(time.Second))
	if p.Kind != Uniform && h.Visits < leastVisits {
		wait = max(wait, fresh)
	}
	if h.Missing > 0 { // confirm soon
		wait = min(wait, p.Default)
	}
	wait = max(p.Least, min(wait, p.Longest)).Truncate(time.Second)
	h.Interval = uint32(wait / time.Second)
	return wait, false
}

// Copy notes that the last body was that of a copy, and multiplies h.Interval, which stays within p.Longest. Call it
// after Next.
func (p *Policy) Copy(h *History) {
	h.Copy = true
	longest := max(int64(p.Longest/time.Second), int64(h.Interval))
	h.Interval = uint32(min(int64(h.Interval)*int64(max(1, p.Copies)), longest))
}

// interval returns the seconds until the next visit of a page, by its belief.
func (p *Policy) interval(b Belief) float64 {
	if p.Kind == Proportional {
		return b.Scale / b.Shape / p.weight()
	}
	margin := p.Margin
	if margin <= 0 {
		margin = p.firstMargin()
	}
	return b.intervalOf(margin/p.weight(), p.Least.Seconds(), p.Longest.Seconds())
}

func (p *Policy) firstMargin() float64 { return prior(p.Default).gain(p.Default.Seconds()) }
