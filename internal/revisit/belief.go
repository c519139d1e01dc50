package revisit

import (
	"math"
	"time"
)

// Belief is what is known of the rate at which a page changes: a gamma distribution of changes a second. Its
// mean is Shape/Scale. Shape counts the changes that were seen, Scale the seconds over which they were; the
// less both are, the less is known. The zero value stands for that of an unknown page (see
// prior).
type Belief struct {
	Shape float64
	Scale float64 // seconds
}

const (
	// priorShape is the shape before anything is known. Rates on the web spread over decades: with 0.5, the
	// middle half of them lies between 0.1 and 1.3 times the mean.
	priorShape = 0.5
	// memory is the number of visits that count, about. A page that changes its habits is known again after
	// as many.
	memory = 32
	// shapeUnit and the least shape are what a History keeps of one.
	shapeUnit = 1.0 / 1024
	maxShape  = 2 * memory
	// Bounds of a scale, in seconds. The longest is that of a page that was never seen to change.
	minScale, maxScale = 1e-3, memory * float64(MaxInterval/time.Second)
)

// prior is the belief that a page changes about once in a time.
func prior(once time.Duration) Belief {
	return Belief{priorShape, priorShape * once.Seconds()}
}

// known returns b, or the prior of an unknown page.
func (b Belief) known(once time.Duration) Belief {
	if b.Shape <= 0 || b.Scale <= 0 {
		return prior(once)
	}
	return b
}

// quiet adds that the page did not change for a time in seconds, which is exact: the chance of that is
// exp(-rate*seconds).
func (b Belief) quiet(seconds float64) Belief {
	keep := 1 - 1.0/memory
	return Belief{max(priorShape, b.Shape*keep), b.Scale*keep + seconds}.bounded()
}

// changed adds that the page changed at least once in a time in seconds. The chance of that is
// 1-exp(-rate*seconds). With it the belief is no longer a gamma distribution, but a difference of two; the
// one with the same mean and variance replaces it. A page that was nearly certain to change teaches nearly
// nothing, and leaves the belief as it was.
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

// changedAt adds that the last change was so many seconds ago: one change, and none since.
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

// gain returns the seconds for which a page is expected to be up to date owing to the last of visits at an
// interval of so many seconds: the derivative of the freshness by the rate of visits,
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

// intervalOf returns the interval between least and longest, in seconds, at which a visit gains so many
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
