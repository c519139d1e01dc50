package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"drumbeat/bench/report"
)

// Report computes all tables and figures.
func (m Model) Report() (*report.Report, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	r := report.New("model", "the paper's tables from its formulas")
	if !m.printed() {
		r.Notes = append(r.Notes, "Parameters are not the paper's, so that its numbers are left out.")
	}
	for _, t := range m.tables() {
		r.Tables = append(r.Tables, t.Table)
		r.Lines = append(r.Lines, t.lines...)
		if t.printed > t.known {
			r.Checks = append(r.Checks, t.check())
		}
	}
	r.Figures = append(r.Figures, m.overheadFigure("table2", "Table II: R = "+report.DecimalBytes(m.RAMBytes), m.fixed(), m.RAMBytes, m.beside(paperII), 0))
	for i, ram := range m.ScaledRAMBytes {
		name := fmt.Sprintf("table3-%s", strings.ToLower(strings.ReplaceAll(report.DecimalBytes(ram), " ", "")))
		name = strings.ReplaceAll(name, ".", "-")
		r.Figures = append(r.Figures, m.overheadFigure(name, "Table III: R = "+report.DecimalBytes(ram), m.scaled(), ram, m.beside(paperIII), 2*i))
	}
	for _, n := range m.Pages {
		r.Figures = append(r.Figures, m.cacheFigure(n))
	}
	r.Figures = append(r.Figures, m.beastFigure())
	return r, nil
}

// pointsPerDecade is the number of points per decade of curves over N.
const pointsPerDecade = 10

// between returns points from the least to the largest value of a list, evenly spaced on a logarithmic
// axis.
func between(list []float64) (xs []float64) {
	least, largest := slices.Min(list), slices.Max(list)
	for i := 0; ; i++ {
		x := least * math.Pow(10, float64(i)/pointsPerDecade)
		if x >= largest*(1-1e-9) {
			return append(xs, largest)
		}
		xs = append(xs, x)
	}
}

// overheadFigure draws alpha against N, with the paper's numbers as points.
func (m Model) overheadFigure(name, title string, methods []method, ram float64, paper [][]string, column int) report.Figure {
	f := report.Figure{Name: name, Title: "Overhead, " + title, X: "pages N", Y: "alpha", LogX: true, LogY: true}
	for j, by := range methods {
		curve := report.Series{Name: by.name, Model: true}
		for _, n := range between(m.Pages) {
			curve.Points = append(curve.Points, report.Point{X: n, Y: by.alpha(m.load(n, 1), ram)})
		}
		f.Series = append(f.Series, curve)
		if paper == nil {
			continue
		}
		printed := report.Series{Name: by.name + ", printed"}
		for i, n := range m.Pages {
			if v, err := strconv.ParseFloat(strings.ReplaceAll(paper[i][column+j], ",", ""), 64); err == nil {
				printed.Points = append(printed.Points, report.Point{X: n, Y: v})
			}
		}
		f.Series = append(f.Series, printed)
	}
	return f
}

// cacheFigure is Figure 3 for N pages: the rates that the CPU and the disk allow against the cache size,
// and the optimum.
func (m Model) cacheFigure(pages float64) report.Figure {
	f := report.Figure{Name: "fig3-" + strings.ReplaceAll(report.Power(pages), ".", "-"),
		Title: "Figure 3: rate against the cache size, N = " + report.Power(pages), X: "cache c, GB", Y: "pages/s", LogY: true}
	cpu := report.Series{Name: "S_cache", Model: true}
	for c := range m.cacheSizes(slices.Max(m.ScaledRAMBytes)) {
		cpu.Points = append(cpu.Points, report.Point{X: c / 1e9, Y: m.cacheRate(c)})
	}
	f.Series = append(f.Series, cpu)
	best := report.Series{Name: "S_opt at c_opt"}
	for _, ram := range m.ScaledRAMBytes {
		for _, by := range m.scaled() {
			s := report.Series{Name: "S_hybrid, " + by.name + " " + report.DecimalBytes(ram), Model: true}
			for c := range m.cacheSizes(ram) {
				s.Points = append(s.Points, report.Point{X: c / 1e9, Y: m.hybrid(by, pages, ram, c, m.Curve)})
			}
			f.Series = append(f.Series, s)
			opt := m.optimum(by, pages, ram)
			best.Points = append(best.Points, report.Point{X: opt.cache / 1e9, Y: opt.rate})
		}
	}
	slices.SortFunc(best.Points, func(a, b report.Point) int { return int(math.Copysign(1, a.X-b.X)) })
	f.Series = append(f.Series, best)
	return f
}

// beastFigure draws Theorems 6 and 7 against N.
func (m Model) beastFigure() report.Figure {
	f := report.Figure{Name: "theorems67", Title: "Disk rate of budgets", X: "pages N", Y: "MB/s", LogX: true, LogY: true}
	for _, s := range []struct {
		name string
		rate func(n float64) float64
	}{
		{"naive, Theorem 6", m.beast().NaiveRate}, {"BEAST, Theorem 7", m.beast().Rate},
		{"bound 2Sb(2L-1)", func(float64) float64 { return m.beast().RateBound() }},
		{"bound with STAR, 2Sb(4L-3)", func(float64) float64 { return m.beast().RateBoundWithStar() }},
	} {
		series := report.Series{Name: s.name, Model: true}
		for _, n := range between(m.BeastPages) {
			series.Points = append(series.Points, report.Point{X: n, Y: s.rate(n) / 1e6})
		}
		f.Series = append(f.Series, series)
	}
	return f
}
