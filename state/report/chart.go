package report

import (
	"fmt"
	"math"
	"strconv"
)

// Chart is a chart of lines over a pair of axes.
type Chart struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	X     string `json:"x"` // names of the axes, with their units
	Y     string `json:"y"`
	LogX  bool   `json:"logX,omitempty"`
	LogY  bool   `json:"logY,omitempty"`
	Lines []Line `json:"lines"`
}

// Line is a named list of points.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

func (l *Line) add(x, y float64) { l.Points = append(l.Points, [2]float64{x, y}) }

// The size of a chart and its margins, in pixels.
const (
	chartWidth, chartHeight = 760, 280
	left, right, top, below = 70, 16, 12, 44
)

// palette has colours that people with any colour vision can tell apart, on light and dark ground.
var palette = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"}

// axis maps values to pixels.
type axis struct {
	log      bool
	min, max float64 // as logarithms if log
	from, to float64 // pixels
}

// newAxis returns an axis that shows values. A linear one begins at 0 if no value is below.
func newAxis(log bool, from, to float64, values func(f func(v float64))) axis {
	a := axis{log: log, min: math.Inf(1), max: math.Inf(-1), from: from, to: to}
	values(func(v float64) {
		if v, ok := a.value(v); ok {
			a.min, a.max = min(a.min, v), max(a.max, v)
		}
	})
	switch {
	case a.min > a.max: // no values
		a.min, a.max = 0, 1
	case log:
		a.min, a.max = math.Floor(a.min), math.Ceil(a.max)
	default:
		a.min = min(0, a.min)
	}
	if a.min == a.max {
		a.max = a.min + 1
	}
	return a
}

// value returns a value on the axis; false if it has no place there.
func (a *axis) value(v float64) (float64, bool) {
	if a.log {
		if v <= 0 {
			return 0, false
		}
		v = math.Log10(v)
	}
	return v, !math.IsNaN(v) && !math.IsInf(v, 0)
}

// at returns the pixel of a value; false if it has none.
func (a *axis) at(v float64) (float64, bool) {
	v, ok := a.value(v)
	return a.from + (v-a.min)/(a.max-a.min)*(a.to-a.from), ok
}

// ticks returns round values within the axis, some five.
func (a *axis) ticks() (list []float64) {
	if a.log {
		for e := a.min; e <= a.max; e += max(1, math.Ceil((a.max-a.min)/6)) {
			list = append(list, math.Pow(10, e))
		}
		return list
	}
	step := math.Pow(10, math.Floor(math.Log10((a.max-a.min)/4)))
	for _, times := range []float64{2, 2.5, 2} { // to 2, 5 and 10 times the power of ten
		if (a.max-a.min)/step > 6 {
			step *= times
		}
	}
	for i := math.Ceil(a.min / step); i*step <= a.max+step/1e6; i++ {
		list = append(list, i*step)
	}
	return list
}

// tickText formats a tick with a unit prefix.
func tickText(v float64) string {
	for _, u := range []struct {
		from float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(v) >= u.from {
			scale := u.from
			if u.name == "k" {
				scale = 1e3
			}
			return strconv.FormatFloat(v/scale, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// svg writes the chart.
func (c *Chart) svg(p *builder) {
	each := func(part int) func(f func(float64)) {
		return func(f func(float64)) {
			for _, l := range c.Lines {
				for _, pt := range l.Points {
					f(pt[part])
				}
			}
		}
	}
	x := newAxis(c.LogX, left, chartWidth-right, each(0))
	y := newAxis(c.LogY, chartHeight-below, top, each(1))
	p.raw(fmt.Sprintf(`<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`,
		escape(c.Title), chartWidth, chartHeight, escape(c.Title)))
	for _, v := range y.ticks() {
		at, _ := y.at(v)
		p.raw(fmt.Sprintf(`<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, at, chartWidth-right, left-6, at+4, tickText(v)))
	}
	for _, v := range x.ticks() {
		at, _ := x.at(v)
		p.raw(fmt.Sprintf(`<path class="grid" d="M%.1f %dV%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`,
			at, top, chartHeight-below, at, chartHeight-below+16, tickText(v)))
	}
	p.raw(fmt.Sprintf(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+chartWidth-right)/2,
		chartHeight-6, escape(c.X)))
	p.raw(fmt.Sprintf(`<text transform="translate(14 %d) rotate(-90)" text-anchor="middle">%s</text>`,
		(top+chartHeight-below)/2, escape(c.Y)))
	for i, l := range c.Lines {
		colour := palette[i%len(palette)]
		p.raw(fmt.Sprintf(`<path class="line" stroke="%s" d="`, colour))
		letter := byte('M')
		for _, pt := range l.Points {
			px, okX := x.at(pt[0])
			py, okY := y.at(pt[1])
			if !okX || !okY {
				letter = 'M'
				continue
			}
			p.raw(fmt.Sprintf("%c%.1f %.1f", letter, px, py))
			letter = 'L'
		}
		p.raw(`"/>`)
		if len(c.Lines) > 1 {
			p.raw(fmt.Sprintf(`<path class="line" stroke="%s" d="M%d %dh16"/><text x="%d" y="%d">%s</text>`,
				colour, left+14, top+10+16*i, left+36, top+14+16*i, escape(l.Name)))
		}
	}
	p.raw("</svg></figure>\n")
}
