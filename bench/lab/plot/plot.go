// Command plot draws the figures of benchmark reports.
//
//	go run ./bench/lab/plot REPORT.json …
//
// It reads the JSON that drumbeat bench --out saves, so the crawler needs no plot library. It writes each
// figure as an SVG file in the directory of its report and prints the file's name. The exit code is 1 if a
// figure can't be drawn.
//
// # Form of the drawings
//
// A figure is an SVG of 18 by 11 cm: series with lines and marks, and dashed lines without marks for
// formulas. A logarithmic axis spans whole powers of ten; other axes begin at 0, or below if there are
// negative points. The plot omits points that an axis can't show, such as 0 on a logarithmic axis. Its
// colours are safe for readers with red-green colour blindness.
//
// # Concurrency and memory
//
// This command starts no goroutines and keeps no state. A drawing is in RAM until it is written.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/color"
	"math"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"drumbeat/bench/report"
)

func main() {
	for _, name := range os.Args[1:] {
		names, err := drawAll(name)
		for _, svg := range names {
			fmt.Println(svg)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// drawAll draws the figures of a report, for the file REPORT.json as REPORT-FIGURE.svg, and returns the
// names.
func drawAll(name string) (names []string, err error) {
	base, ok := strings.CutSuffix(name, ".json")
	if !ok {
		return nil, fmt.Errorf("plot: %s: want the .json file of a report", name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("plot: %w", err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("plot: %s: %w", name, err)
	}
	for _, f := range r.Figures {
		svg, err := drawSVG(f)
		if err != nil {
			return names, err
		}
		to := base + "-" + f.Name + ".svg"
		if err := os.WriteFile(to, svg, 0o666); err != nil {
			return names, fmt.Errorf("plot: %w", err)
		}
		names = append(names, to)
	}
	return names, nil
}

// These colours are safe for readers with red-green colour blindness (Okabe and Ito 2008).
var colours = [...]color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 0, 0, 255}, {150, 150, 150, 255},
}

const (
	figureWidth  = 18 * vg.Centimeter
	figureHeight = 11 * vg.Centimeter
	marginRight  = vg.Centimeter / 2 // room for half of the last number on the axis
)

// drawSVG returns the SVG of a figure.
func drawSVG(f report.Figure) ([]byte, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(6), -vg.Points(6)
	p.Add(plotter.NewGrid())
	for i, s := range f.Series {
		points := xys(f.Visible(s))
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("plot: %s: series %s: %w", f.Name, s.Name, err)
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
	}
	scale(&p.X, f.LogX)
	scale(&p.Y, f.LogY)
	canvas := vgsvg.New(figureWidth, figureHeight)
	p.Draw(draw.Crop(draw.New(canvas), 0, -marginRight, 0, 0))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("plot: %s: %w", f.Name, err)
	}
	return b.Bytes(), nil
}

// xys adapts points for plotter.
type xys []report.Point

func (p xys) Len() int                { return len(p) }
func (p xys) XY(i int) (x, y float64) { return p[i].X, p[i].Y }

// scale makes an axis logarithmic, over whole powers of ten, or makes it begin at 0.
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
