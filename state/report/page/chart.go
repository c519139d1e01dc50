package page

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Chart is a chart of lines over a pair of axes.
type Chart struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	X     string `json:"x"` // names of the axes, with their units
	Y     string `json:"y"` // an axis of Bytes has ticks in a binary unit
	LogX  bool   `json:"logX,omitempty"`
	LogY  bool   `json:"logY,omitempty"`
	Lines []Line `json:"lines"`
}

// Bytes is the name of an axis of bytes.
const Bytes = "bytes"

// Line is a named list of points.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// Add appends a point.
func (l *Line) Add(x, y float64) { l.Points = append(l.Points, [2]float64{x, y}) }

// Charts are charts beside one another, as many as the page has room for.
type Charts []Chart

// size is the width and the height of a chart in units of its SVG, which fills its box. Axes and legends are
// text outside of it: its letters would shrink with the box.
const size = 1000

// colours is the number of colours of lines, which page.css has.
const colours = 4

// axis maps values to 0 … size.
type axis struct {
	log      bool
	unit     float64 // in which ticks are round
	min, max float64 // as logarithms if log
}

// newAxis returns an axis that shows values. A linear one begins at 0 if no value is below.
func newAxis(log bool, unit float64, values func(f func(v float64))) axis {
	a := axis{log: log, unit: unit, min: math.Inf(1), max: math.Inf(-1)}
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
	v /= a.unit
	if a.log {
		if v <= 0 {
			return 0, false
		}
		v = math.Log10(v)
	}
	return v, !math.IsNaN(v) && !math.IsInf(v, 0)
}

// at returns the place of a value from 0 to size; false if it has none.
func (a *axis) at(v float64) (float64, bool) {
	v, ok := a.value(v)
	return a.place(v), ok
}

func (a *axis) place(v float64) float64 { return (v - a.min) / (a.max - a.min) * size }

// step returns the distance of ticks on a linear axis, for two to six of them.
func (a *axis) step() float64 {
	step := math.Pow(10, math.Floor(math.Log10((a.max-a.min)/4)))
	for _, times := range []float64{2, 2.5, 2} { // to 2, 5 and 10 times the power of ten
		if (a.max-a.min)/step > 5 {
			step *= times
		}
	}
	return step
}

// round extends a linear axis to its next tick.
func (a *axis) round() {
	if !a.log {
		step := a.step()
		a.max = step * math.Ceil(a.max/step-1e-9)
	}
}

// tick is a round value of an axis.
type tick struct {
	Pixel float64 // on the axis, from the top or the left, 0 to size
	Text  string
}

// At returns the place as a percentage.
func (t tick) At() float64 { return t.Pixel * 100 / size }

// ticks returns round values within the axis.
func (a *axis) ticks() (list []tick) {
	if a.log {
		for e := a.min; e <= a.max; e += max(1, math.Ceil((a.max-a.min)/5)) {
			v := math.Pow(10, e)
			list = append(list, tick{round(a.place(e)), tickText(v, v)})
		}
		return list
	}
	step, most := a.step(), max(a.max, -a.min)
	for i := math.Ceil(a.min / step); i*step <= a.max+step/1e6; i++ {
		list = append(list, tick{round(a.place(i * step)), tickText(i*step, most)})
	}
	return list
}

func round(v float64) float64 { return math.Round(10*v) / 10 }

// tickText formats a tick with the unit prefix of the largest value of its axis.
func tickText(v, most float64) string {
	for _, u := range []struct {
		from, scale float64
		name        string
	}{{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if most >= u.from && v != 0 {
			return strconv.FormatFloat(v/u.scale, 'g', 4, 64) + u.name
		}
	}
	text := strconv.FormatFloat(v, 'g', 4, 64)
	if v >= 1000 { // four digits
		text = text[:1] + "," + text[1:]
	}
	return text
}

// chartView is a chart as its template has it.
type chartView struct {
	Title, Unit, XName string
	X, Y               []tick
	Lines              []lineView
}

type lineView struct {
	Name   string
	Colour int
	Path   string
}

// Legend reports whether the lines need their names.
func (v chartView) Legend() bool { return len(v.Lines) > 1 }

// HTML implements Block.
func (c Charts) HTML() (template.HTML, error) {
	views := make([]chartView, len(c))
	for i := range c {
		views[i] = c[i].view()
	}
	return render("charts", views)
}

func (c *Chart) view() chartView {
	each := func(part int) func(f func(float64)) {
		return func(f func(float64)) {
			for _, l := range c.Lines {
				for _, pt := range l.Points {
					f(pt[part])
				}
			}
		}
	}
	v := chartView{Title: c.Title, XName: c.X, Unit: c.Y}
	unit := 1.0
	if c.Y == Bytes && !c.LogY {
		most := newAxis(false, 1, each(1)).max
		names := []string{Bytes, "KiB", "MiB", "GiB", "TiB", "PiB"}
		n := 0
		for n+1 < len(names) && most >= 1024*unit {
			n, unit = n+1, 1024*unit
		}
		v.Unit = names[n]
	}
	x, y := newAxis(c.LogX, 1, each(0)), newAxis(c.LogY, unit, each(1))
	y.round()
	v.X, v.Y = x.ticks(), y.ticks()
	for i := range v.Y {
		v.Y[i].Pixel = size - v.Y[i].Pixel
	}
	for i, l := range c.Lines {
		v.Lines = append(v.Lines, lineView{l.Name, i % colours, l.path(&x, &y)})
	}
	return v
}

// path returns the line in the language of SVG. A point that is not on the axes interrupts it; a point between two
// such ones is a dot.
func (l *Line) path(x, y *axis) string {
	var b strings.Builder
	run := 0
	end := func() {
		if run == 1 {
			b.WriteString("h0")
		}
		run = 0
	}
	for _, pt := range l.Points {
		px, okX := x.at(pt[0])
		py, okY := y.at(pt[1])
		if !okX || !okY {
			end()
			continue
		}
		letter := byte('L')
		if run == 0 {
			letter = 'M'
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", letter, px, size-py)
		run++
	}
	end()
	return b.String()
}
