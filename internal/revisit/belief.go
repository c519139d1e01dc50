package revisit

import (
	"math"
	"time"
)

// Belief is the distribution of the rate at which a page changes: a gamma distribution of changes a second.
// Its mean is Shape/Scale. Shape counts observed changes, Scale the seconds of observation; small values mean
// little knowledge. The zero value stands for that of an unknown page (see prior).
type Belief struct {
	Shape float64
	Scale float64 // seconds
}

const (
	// priorShape is the shape before anything is known. Rates on the web spread over decades: with 0.5, the
	// middle half of them lies between 0.1 and 1.3 times the mean.
	priorShape = 0.5
	// memory is about the number of visits that count. The belief follows a change of a page's habits after
	// as many visits.
	memory = 32
	// shapeUnit is the resolution of a shape in a History, and the least shape.
	shapeUnit = 1.0 / 1024
	maxShape  = 2 * memory
	// Bounds of a scale, in seconds. The largest is that of a page without an observed change.
	minScale, maxScale = 1e-3, memory * float64(MaxInterval/time.Second)
)

// prior is the belief that a page changes about once in a time.
func prior(once time.Duration) Belief { return Belief{priorShape, priorShape * once.Seconds()} }

// known returns b, or the prior of an unknown page.
func (b Belief) known(once time.Duration) Belief {
	if b.Shape <= 0 || b.Scale <= 0 {
		return prior(once)
	}
	return b
}

// quiet adds an interval of seconds without a change. The update is exact: the likelihood is
// exp(-rate*seconds).
func (b Belief) quiet(seconds float64) Belief {
	keep := 1 - 1.0/memory
	return Belief{max(priorShape, b.Shape*keep), b.Scale*keep + seconds}.bounded()
}

// changed adds an interval of seconds with at least one change. The likelihood is 1-exp(-rate*seconds), so
// the result is a difference of two gamma distributions; the gamma distribution with the same mean and
// variance replaces it. A nearly certain change leaves the belief nearly as it was.
func (b Belief) changed(seconds float64) Belief {
	b = b.fade()
	l := math.Log1p(seconds / b.Scale)
	c0, c1, c2 := -math.Expm1(-b.Shape*l), -math.Expm1(-(b.Shape+1)*l), -math.Expm1(-(b.Shape+2)*l)
	if c0 <= 0 {
		return b
	}
	mean := b.Shape / b.Scale * c1 / c0
	square := b.Shape * (b.Shape + 1) / (b.Scale * b.Scale) * c2 / c0
	variance := square - mean*mean
	if !(variance > 0) || math.IsInf(variance, 0) {
		return b
	}
	return Belief{mean * mean / variance, mean / variance}.bounded()
}

// changedAt adds the time of the last change, seconds ago: one change, and none since.
func (b Belief) changedAt(ago float64) Belief {
	b = b.fade()
	return Belief{b.Shape + 1, b.Scale + ago}.bounded()
}

// fade makes the belief less certain and keeps its mean.
func (b Belief) fade() Belief {
	f := min(1, max(1-1.0/memory, priorShape/b.Shape))
	return Belief{b.Shape * f, b.Scale * f}
}

func (b Belief) bounded() Belief {
	if b.Shape > maxShape {
		b.Shape, b.Scale = maxShape, b.Scale*maxShape/b.Shape
	}
	return Belief{max(b.Shape, shapeUnit), min(max(b.Scale, minScale), maxScale)}
}

// gain returns the expected seconds of freshness that one more visit adds, at visits in an interval of so
// many seconds: the derivative of the freshness by the rate of visits,
//
//	E[(1 - (1 + rate*interval) exp(-rate*interval)) / rate]
//
// over the belief. It grows with the interval.
func (b Belief) gain(interval float64) float64 {
	l := math.Log1p(interval / b.Scale)
	tail := interval * math.Exp(-b.Shape*l)
	if d := b.Shape - 1; math.Abs(d) > 1e-6 {
		return b.Scale/d*-math.Expm1(-d*l) - tail
	}
	return b.Scale*l - tail
}

// intervalOf returns the interval, within least and longest, in seconds, at which a visit gains so many
// seconds.
func (b Belief) intervalOf(gain, least, longest float64) float64 {
	if b.gain(longest) <= gain {
		return longest
	}
	if b.gain(least) >= gain {
		return least
	}
	for longest > least*1.001 {
		mid := math.Sqrt(least * longest)
		if b.gain(mid) < gain {
			least = mid
		} else {
			longest = mid
		}
	}
	return longest
}
