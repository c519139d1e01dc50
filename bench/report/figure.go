package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is a plot: series over one pair of axes.
type Figure struct {
	// Name becomes part of the file's name: lower-case letters, digits and dashes.
	Name  string `json:"name"`
	Title string `json:"title"`
	// X and Y name the axes with their units.
	X string `json:"x"`
	Y string `json:"y"`
	// LogX and LogY make an axis logarithmic; points at 0 or below are then left out of the plot.
	LogX   bool     `json:"logX,omitempty"`
	LogY   bool     `json:"logY,omitempty"`
	Series []Series `json:"series"`
}

// Series is a named list of points in order of x.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
	// Model is true for what a formula says: drawn dashed and without marks.
	Model bool `json:"model,omitempty"`
}

// Point is one pair of coordinates.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Colours are told apart by those who can't tell red from green (Okabe and Ito 2008).
var colours = [...]color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 0, 0, 255}, {150, 150, 150, 255},
}

const (
	figureWidth  = 18 * vg.Centimeter
	figureHeight = 11 * vg.Centimeter
	marginRight  = vg.Centimeter / 2 // half of the last number on the axis
)

// SVG draws the figure.
func (f Figure) SVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(6), -vg.Points(6)
	p.Add(plotter.NewGrid())
	drawn := 0
	for i, s := range f.Series {
		points := f.visible(s)
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("bench: plot %s: series %s: %w", f.Name, s.Name, err)
		}
		line.Color, line.Width = colours[i%len(colours)], vg.Points(1.5)
		marks.Color, marks.Shape = line.Color, draw.CircleGlyph{}
		p.Add(line)
		if s.Model {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
			p.Legend.Add(s.Name, line)
		} else {
			p.Add(marks)
			p.Legend.Add(s.Name, line, marks)
		}
		drawn++
	}
	if drawn == 0 {
		return nil, fmt.Errorf("bench: plot %s: %w", f.Name, errNoPoints)
	}
	scale(&p.X, f.LogX)
	scale(&p.Y, f.LogY)
	canvas := vgsvg.New(figureWidth, figureHeight)
	p.Draw(draw.Crop(draw.New(canvas), 0, -marginRight, 0, 0))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("bench: plot %s: %w", f.Name, err)
	}
	return b.Bytes(), nil
}

var errNoPoints = errors.New("nothing to draw")

// visible are the points that the axes can show.
func (f Figure) visible(s Series) (points plotter.XYs) {
	for _, p := range s.Points {
		finite := !math.IsNaN(p.X) && !math.IsNaN(p.Y) && !math.IsInf(p.X, 0) && !math.IsInf(p.Y, 0)
		if finite && (!f.LogX || p.X > 0) && (!f.LogY || p.Y > 0) {
			points = append(points, plotter.XY{X: p.X, Y: p.Y})
		}
	}
	return points
}

// scale makes an axis logarithmic, from one power of ten to another, or lets it begin at 0.
func scale(a *plot.Axis, log bool) {
	if !log {
		a.Min = min(a.Min, 0)
		if a.Max <= a.Min {
			a.Max = a.Min + 1
		}
		return
	}
	a.Min, a.Max = math.Pow(10, math.Floor(math.Log10(a.Min))), math.Pow(10, math.Ceil(math.Log10(a.Max)))
	if a.Max <= a.Min {
		a.Max = 10 * a.Min
	}
	a.Scale, a.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
}

// Save writes <name>.json, <name>.txt and a plot <name>-<figure>.svg for each figure into dir, which is made
// if there is none, and returns the names. Files that are there are replaced.
func (r *Report) Save(dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("bench: save report: %w", err)
	}
	put := func(name string, b []byte) error {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o666); err != nil {
			return fmt.Errorf("bench: save report: %w", err)
		}
		names = append(names, name)
		return nil
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("bench: save report: %w", err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		return nil, err
	}
	if err := errors.Join(put(r.Name+".json", append(b, '\n')), put(r.Name+".txt", text.Bytes())); err != nil {
		return names, err
	}
	for _, f := range r.Figures {
		svg, err := f.SVG()
		if err == nil {
			err = put(r.Name+"-"+f.Name+".svg", svg)
		}
		if err != nil {
			return names, err
		}
	}
	return names, nil
}
