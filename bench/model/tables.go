package model

import (
	"fmt"
	"slices"
	"strings"

	"drumbeat/bench/result"
	"drumbeat/drum"
)

// tables returns all tables, in the paper's order.
func (m Model) tables() []*modelTable {
	tables := []*modelTable{m.asymptotes(), m.tableII(), m.equation17(), m.tableIII(), m.theorem3(),
		m.tableV(), m.tableVI()}
	tables = append(tables, m.tableVII(m.Curve, m.printed()))
	if m.printed() {
		tables = append(tables, m.tableVII(textCurve, false))
	}
	return append(tables, m.figure3(), m.theorems67())
}

// textCompressed is bq in the text of section IV.D.
const textCompressed = 5

// row names the benchmark line of a method for N pages.
func row(pages float64, method string) string {
	return "pages=" + result.Power(pages) + "/method=" + method
}

// asymptotes returns equations (5) and (6), and the lower bounds of alpha.
func (m Model) asymptotes() *modelTable {
	paper := m.beside(paperAsymptotes)
	l := m.load(m.Pages[0], 1)
	t := &modelTable{name: "asymptotes", unit: "times", Table: result.Table{
		Title: fmt.Sprintf("Equations (5) and (6): I/O per squared link as n grows, for R = %s; least alpha",
			result.DecimalBytes(m.RAMBytes)),
		Head: append([]string{"method", "bytes/n²"}, head(paper, "", "over Mercator-B", "least alpha")[1:]...),
	}}
	base := l.MercatorBLimit(m.RAMBytes)
	for i, by := range []struct {
		name         string
		limit, least float64
	}{
		{"Mercator-B", base, l.LeastMercatorB()},
		{fmt.Sprintf("Polybot bq=%v", m.CompressedBytes), l.PolybotLimit(m.RAMBytes, m.CompressedBytes),
			l.LeastPolybot()},
		{"DRUM", base * 4 * m.BufferBytes / m.RAMBytes, l.LeastDRUM()}, // at D = D_opt (section IV.D)
	} {
		cells := append([]string{by.name, fmt.Sprintf("%.3g", by.limit)},
			t.cells(paper, i, 0, "method="+by.name, by.limit/base)...)
		t.Add(append(cells, t.cells(paper, i, 1, "least/method="+by.name, by.least)...)...)
		t.lines[len(t.lines)-1].Metrics[0].Unit = "alpha"
	}
	t.Notes = []string{
		"DRUM's disk is the optimum of equation (17): its quadratic term is R/4M times smaller than Mercator-B's."}
	return t
}

func (m Model) tableII() *modelTable {
	paper := m.beside(paperII)
	t := &modelTable{name: "II", unit: "alpha", Table: result.Table{
		Title: fmt.Sprintf("Table II: alpha(n, R) for R = %s, D = %s", result.DecimalBytes(m.RAMBytes),
			result.DecimalBytes(m.DiskBytes)),
		Head: head(paper, "pages N", "Mercator-B", fmt.Sprintf("Polybot bq=%v", m.CompressedBytes), "DRUM"),
	}}
	if paper != nil {
		t.Head = append(t.Head, fmt.Sprintf("Polybot bq=%d", textCompressed))
		t.Notes = []string{fmt.Sprintf(
			"The text states bq = %d bytes for Polybot; its column follows from 5.5, that is q = 0.05.",
			textCompressed)}
	}
	for i, n := range m.Pages {
		l := m.load(n, 1)
		cells := []string{result.Power(n)}
		for j, by := range m.fixed() {
			cells = append(cells, t.cells(paper, i, j, row(n, by.name), by.alpha(l, m.RAMBytes))...)
		}
		if paper != nil {
			cells = append(cells, result.Number(l.Polybot(m.RAMBytes, textCompressed)))
		}
		t.Add(cells...)
	}
	return t
}

func (m Model) equation17() *modelTable {
	paper := m.beside([][]string{{"4.39"}, {"17"}})
	t := &modelTable{name: "eq17", unit: "TB", known: 2,
		Table: result.Table{Title: "Equation (17): the optimal disk space for R", Head: head(paper, "R",
			"D_opt, TB")}}
	for i, ram := range []float64{m.RAMBytes, 2 * m.RAMBytes} {
		v := m.load(0, 1).OptimalDisk(ram, m.BufferBytes) / 1e12
		t.Add(append([]string{result.DecimalBytes(ram)},
			t.cells(paper, i, 0, "ram="+result.DecimalBytes(ram), v)...)...)
	}
	if paper != nil {
		const binary = 1 << 30
		t.Notes = []string{
			fmt.Sprintf(
				"The printed 4.39 TB is R²/M in binary units, %.3f·10¹², without the factor (H+b)/8(H+P) = "+
					"1.229. With it, binary units give %.2f TB.", binary*binary/float64(256<<10)/1e12,
				m.load(0, 1).OptimalDisk(binary, 256<<10)/1e12),
		}
	}
	return t
}

// columns returns the column heads of the methods for every R.
func (m Model) columns() []string {
	var names []string
	for _, ram := range m.ScaledRAMBytes {
		for _, by := range m.scaled() {
			names = append(names, by.name+" "+result.DecimalBytes(ram))
		}
	}
	return names
}

// overheads adds the rows of Tables III and VI: alpha for the share pi of links that miss a cache.
func (m Model) overheads(t *modelTable, paper [][]string, pi, cache float64) {
	names := m.columns()
	t.Head = head(paper, "pages N", names...)
	for i, n := range m.Pages {
		cells := []string{result.Power(n)}
		column := 0
		for _, ram := range m.ScaledRAMBytes {
			for _, by := range m.scaled() {
				cells = append(cells,
					t.cells(paper, i, column, row(n, names[column]), by.alpha(m.load(n, pi), ram-cache))...)
				column++
			}
		}
		t.Add(cells...)
	}
}

func (m Model) tableIII() *modelTable {
	t := &modelTable{name: "III", unit: "alpha",
		Table: result.Table{Title: "Table III: alpha(n, R) for D(n) = max(pHn, " +
			result.DecimalBytes(m.LeastDiskBytes) + ")"}}
	m.overheads(t, m.beside(paperIII), 1, 0)
	return t
}

func (m Model) tableVI() *modelTable {
	t := &modelTable{name: "VI", unit: "alpha", Table: result.Table{
		Title: fmt.Sprintf("Table VI: alpha(pi n, R - c) for pi = %v, c = %s", m.Misses,
			result.DecimalBytes(m.CacheBytes))}}
	m.overheads(t, m.beside(paperVI), m.Misses, m.CacheBytes)
	t.Notes = []string{"D(n) counts the links that miss the cache: max(pH pi n, " +
		result.DecimalBytes(m.LeastDiskBytes) + ")."}
	return t
}

// theorem3 is the example below Theorem 3: the last row and column of Table III.
func (m Model) theorem3() *modelTable {
	paper := m.beside(paperSpeed)
	n, ram := m.Pages[len(m.Pages)-1], m.ScaledRAMBytes[len(m.ScaledRAMBytes)-1]
	l := m.load(n, 1)
	t := &modelTable{name: "theorem3", unit: "pages/s", Table: result.Table{
		Title: fmt.Sprintf("Theorem 3: pages/s for W = %s/s, R = %s, N = %s", result.DecimalBytes(m.Bandwidth),
			result.DecimalBytes(ram), result.Power(n)),
		Head: head(paper, "method", "S_disk", "DRUM is faster by"),
	}}
	base := m.scaledDRUM(l, ram)
	for i, by := range []struct {
		name  string
		alpha float64
	}{{"DRUM", base}, {"Mercator-B", l.MercatorB(ram)}, {"Polybot", l.Polybot(ram, m.CompressedBytes)}} {
		speed := drum.DiskRate(m.Bandwidth, by.alpha, m.URLBytes, m.LinksPerPage)
		cells := append([]string{by.name}, t.cells(paper, i, 0, "method="+by.name, speed)...)
		t.Add(append(cells, t.cells(paper, i, 1, "DRUM/over="+by.name, by.alpha/base)...)...)
		t.lines[len(t.lines)-1].Metrics[0].Unit = "times"
	}
	return t
}

func (m Model) tableV() *modelTable {
	paper := m.beside(paperV)
	t := &modelTable{name: "V", unit: "pages/s", Table: result.Table{
		Title: fmt.Sprintf("Table V: pages/s by equation (21) for S_max = %s", result.Number(m.MaxRate)),
		Head:  head(paper, "mu, URLs/s", "S_cache"),
	}}
	if paper != nil {
		t.Head = append(t.Head, "structure")
	}
	for i, speed := range m.CacheSpeeds {
		v := drum.CacheRate(speed, m.MaxRate, m.LinksPerPage)
		cells := append([]string{result.Power(speed)}, t.cells(paper, i, 0, "mu="+result.Power(speed), v)...)
		if paper != nil {
			cells = append(cells, cacheNames[i])
		}
		t.Add(cells...)
	}
	return t
}

func (m Model) tableVII(curve MissCurve, fits bool) *modelTable {
	t := &modelTable{name: "VII", unit: "pages/s",
		Table: result.Table{Title: "Table VII: pages/s with the best cache size c, by Theorem 5, pi = " +
			curve.String()}}
	paper := m.beside(paperVII)
	names := m.columns()
	t.Head = []string{"pages N"}
	for _, name := range names {
		t.Head = append(append(t.Head, head(paper, "", name)[1:]...), "c")
	}
	for i, n := range m.Pages {
		cells := []string{result.Power(n)}
		column := 0
		for _, ram := range m.ScaledRAMBytes {
			for _, by := range m.scaled() {
				rate, cache := m.best(by, n, ram, curve)
				cells = append(append(cells, t.cells(paper, i, column, row(n, names[column]), rate)...),
					result.DecimalBytes(cache))
				column++
			}
		}
		t.Add(cells...)
	}
	t.Notes = []string{"pi: FACTOR:MISSES, from c = FACTOR gamma tau_h l S on. c grows in steps of " +
		result.DecimalBytes(m.CacheStepBytes) + "."}
	switch {
	case fits:
		t.known = 2
		t.Notes = append(t.Notes, "The text states pi = 0.27 from factor 4 on; the printed cells follow "+
			"from 0.26 from factor 2 on, as computed here.",
			"At 8e10 pages, the printed 18,023 omits the 2UH of the first URLs from alpha: 0.05 %.")
	case paper != nil:
		t.name, t.known = "VII-text", len(paperVII)*len(paperVII[0])
		for i := range t.lines {
			t.lines[i].Name = strings.Replace(t.lines[i].Name, "/table=VII/", "/table=VII-text/", 1)
		}
		t.Notes = append(t.Notes,
			"These are the steps of the text; they do not reproduce the cells marked with !.")
	}
	return t
}

// bestRates is the optimum of a crawl with a cache.
type bestRates struct {
	cache float64 // c_opt in bytes
	rate  float64 // S_opt in pages/s
	by    string  // the limit: CPU or disk
}

// cacheRate returns S_cache(c) of Theorem 4 for the fastest structure of Table V, or S_max without a cache.
func (m Model) cacheRate(cache float64) float64 {
	if cache == 0 {
		return m.MaxRate
	}
	return drum.CacheRate(slices.Max(m.CacheSpeeds), m.MaxRate, m.LinksPerPage)
}

// optimum solves equation (24): the smallest cache with the highest rate that CPU and disk both allow.
func (m Model) optimum(by method, pages, ram float64) (b bestRates) {
	for c := range m.cacheSizes(ram) {
		disk, cpu := m.hybrid(by, pages, ram, c, m.Curve), m.cacheRate(c)
		if s := min(disk, cpu); s > b.rate*(1+1e-9) {
			b = bestRates{c, s, "disk"}
			if cpu <= disk {
				b.by = "CPU"
			}
		}
	}
	return b
}

// figure3 is the table behind Figure 3.
func (m Model) figure3() *modelTable {
	t := &modelTable{name: "fig3", unit: "pages/s", Table: result.Table{
		Title: fmt.Sprintf(
			"Figure 3: the best cache, max over c of min(S_cache, S_hybrid), for S_max = %s, mu = %s URLs/s",
			result.Number(m.MaxRate), result.Power(slices.Max(m.CacheSpeeds))),
		Head: []string{"pages N", "method", "R", "S_disk", "max S_hybrid", "at c", "S_opt", "c_opt", "limited by"},
		Notes: []string{"S_disk is the disk's rate without a cache, S_max the CPU's. If no cache exceeds " +
			"the smaller of them, c_opt = 0.",
			"The paper's figure shows invented functions; these are the functions of Theorems 4 and 5 with pi = " +
				m.Curve.String() + "."},
	}}
	names := m.columns()
	for _, n := range m.Pages {
		column := 0
		for _, ram := range m.ScaledRAMBytes {
			for _, by := range m.scaled() {
				rate, cache := m.best(by, n, ram, m.Curve)
				best := m.optimum(by, n, ram)
				cells := []string{result.Power(n), by.name, result.DecimalBytes(ram),
					result.Number(m.hybrid(by, n, ram, 0, m.Curve)), result.Number(rate), result.DecimalBytes(cache)}
				cells = append(cells, t.cells(nil, 0, 0, row(n, names[column]), best.rate)...)
				t.Add(append(cells, result.DecimalBytes(best.cache), best.by)...)
				column++
			}
		}
	}
	return t
}

func (m Model) theorems67() *modelTable {
	paper := m.beside(paperBeast)
	b := m.beast()
	t := &modelTable{name: "theorems67", unit: "MB/s", Table: result.Table{
		Title: fmt.Sprintf("Theorems 6 and 7: MB/s for budgets, V = %s, E[B] = %v, L = %v, S = %s",
			result.Power(b.PLDs), b.MeanBudget, b.UniquePerPage, result.Number(b.PagesPerSecond)),
		Head: head(paper, "pages N", "naive", "BEAST's bound", "queues j"),
		Notes: []string{
			fmt.Sprintf("Ours moves URLs through STAR's buckets once more per scan: its bound is 2Sb(4L-3) "+
				"= %s MB/s.",
				result.Number(b.RateBoundWithStar()/1e6))},
	}}
	t.Head = append(t.Head, "BEAST at N")
	for i, n := range m.BeastPages {
		cells := append([]string{result.Power(n)}, t.cells(paper, i, 0, row(n, "naive"), b.NaiveRate(n)/1e6)...)
		cells = append(cells, t.cells(paper, i, 1, row(n, "bound"), b.RateBound()/1e6)...)
		cells = append(cells, t.cells(paper, i, 2, row(n, "queues"), b.Queues(n))...)
		t.lines[len(t.lines)-1].Metrics[0].Unit = "queues"
		t.Add(append(cells, result.Number(b.Rate(n)/1e6))...)
	}
	return t
}
