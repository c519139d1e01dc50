package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"drumbeat/bench/report"
	"drumbeat/drum"
)

// What the paper prints, as it prints it, row by row.
var (
	paperII = [][]string{ // Mercator-B, Polybot, DRUM
		{"11.6", "69", "2.26"},
		{"93", "663", "2.35"},
		{"917", "6,610", "3.3"},
		{"9,156", "66,082", "12.5"},
		{"91,541", "660,802", "104"},
	}
	paperIII = [][]string{ // 4 GB: Mercator-B, DRUM; 8 GB: the same
		{"4.48", "2.30", "3.29", "2.30"},
		{"25", "2.7", "13.5", "2.7"},
		{"231", "3.3", "116", "3.3"},
		{"2,290", "3.3", "1,146", "3.3"},
		{"22,887", "8.1", "11,444", "3.7"},
	}
	paperV  = [][]string{{"1,295"}, {"1,757"}, {"2,552"}, {"3,577"}}
	paperVI = [][]string{
		{"3.02", "2.27", "2.54", "2.27"},
		{"10.4", "2.4", "6.1", "2.4"},
		{"84", "3.3", "41", "3.3"},
		{"823", "3.3", "395", "3.3"},
		{"8,211", "4.5", "3,935", "3.3"},
	}
	paperVII = [][]string{
		{"18,051", "26,433", "23,242", "26,433"},
		{"6,438", "25,261", "10,742", "25,261"},
		{"1,165", "18,023", "2,262", "18,023"},
		{"136", "18,023", "274", "18,023"},
		{"13.9", "11,641", "27.9", "18,023"},
	}
	paperSpeed = [][]string{{"4,192", ""}, {"1.4", "3,075"}, {"0.2", ""}} // pages/s, times slower than DRUM
	paperBeast = [][]string{{"3.8", "8.2", ""}, {"83", "8.2", "16"}, {"826", "8.2", "128"}}
	// cacheNames are the methods of Table V.
	cacheNames = []string{"balanced tree of strings", "LRU by tree, 8-byte keys", "balanced tree, 8-byte keys", "CLOCK, 8-byte keys"}
)

// agrees says whether a computed number is a printed one: within one unit of its last digit, as some are
// cut and not rounded.
func agrees(v float64, printed string) bool {
	s := strings.ReplaceAll(printed, ",", "")
	want, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic("BUG: bench: a table has " + printed)
	}
	_, decimals, _ := strings.Cut(s, ".")
	unit := math.Pow10(-len(decimals))
	return math.Abs(v-want) <= unit*(1+1e-9)
}

// disagrees marks a printed number that the formula doesn't give.
const disagrees = " !"

// cells are a computed number and, if paper isn't nil, the printed one.
func cells(paper [][]string, row, column int, v float64) []string {
	if paper == nil {
		return []string{report.Number(v)}
	}
	p := paper[row][column]
	if p != "" && !agrees(v, p) {
		p += disagrees
	}
	return []string{report.Number(v), p}
}

// head names columns, each followed by one for the printed number.
func head(paper [][]string, first string, names ...string) []string {
	h := []string{first}
	for _, n := range names {
		if h = append(h, n); paper != nil {
			h = append(h, "paper")
		}
	}
	return h
}

// beside returns the printed numbers if they belong beside those of m.
func (m Model) beside(paper [][]string) [][]string {
	if !m.printed() {
		return nil
	}
	return paper
}

// Tables returns all of them, in the paper's order.
func (m Model) Tables() []report.Table {
	tables := []report.Table{m.tableII(), m.equation17(), m.tableIII(), m.theorem3(), m.tableV(), m.tableVI()}
	tables = append(tables, m.tableVII(m.Curve, m.printed()))
	if m.printed() {
		tables = append(tables, m.tableVII(textCurve, false))
	}
	return append(tables, m.theorems67())
}

// textCompressed is bq in the text of section IV.D.
const textCompressed = 5

func (m Model) tableII() report.Table {
	paper := m.beside(paperII)
	t := report.Table{
		Title: fmt.Sprintf("Table II: alpha(n, R) for R = %s, D = %s", report.DecimalBytes(m.RAMBytes), report.DecimalBytes(m.DiskBytes)),
		Head:  head(paper, "pages N", "Mercator-B", fmt.Sprintf("Polybot bq=%v", m.CompressedBytes), "DRUM"),
	}
	if paper != nil {
		t.Head = append(t.Head, fmt.Sprintf("Polybot bq=%d", textCompressed))
		t.Notes = []string{fmt.Sprintf(
			"The text has bq = %d bytes for Polybot; its column comes from 5.5, that is q = 0.05.", textCompressed)}
	}
	for i, n := range m.Pages {
		l := m.load(n, 1)
		row := []string{report.Power(n)}
		row = append(row, cells(paper, i, 0, l.MercatorB(m.RAMBytes))...)
		row = append(row, cells(paper, i, 1, l.Polybot(m.RAMBytes, m.CompressedBytes))...)
		row = append(row, cells(paper, i, 2, l.DRUM(m.RAMBytes, m.DiskBytes, m.BufferBytes))...)
		if paper != nil {
			row = append(row, report.Number(l.Polybot(m.RAMBytes, textCompressed)))
		}
		t.Add(row...)
	}
	return t
}

func (m Model) equation17() report.Table {
	paper := m.beside([][]string{{"4.39"}, {"17"}})
	t := report.Table{Title: "Equation (17): the disk space that matches R", Head: head(paper, "R", "D_opt, TB")}
	for i, ram := range []float64{m.RAMBytes, 2 * m.RAMBytes} {
		t.Add(append([]string{report.DecimalBytes(ram)}, cells(paper, i, 0, m.load(0, 1).OptimalDisk(ram, m.BufferBytes)/1e12)...)...)
	}
	if paper != nil {
		const binary = 1 << 30
		t.Notes = []string{
			fmt.Sprintf("The printed 4.39 TB is R²/M in binary units, %.3f·10¹²: the factor (H+b)/8(H+P) = 1.229 is missing. "+
				"With it, binary units give %.2f TB.", binary*binary/float64(256<<10)/1e12,
				m.load(0, 1).OptimalDisk(binary, 256<<10)/1e12),
		}
	}
	return t
}

// columns are the heads of the methods at every R.
func (m Model) columns() []string {
	var names []string
	for _, ram := range m.ScaledRAMBytes {
		for _, by := range m.scaled() {
			names = append(names, by.name+" "+report.DecimalBytes(ram))
		}
	}
	return names
}

// overheads are the rows of Tables III and VI: alpha where the share pi of links comes behind a cache.
func (m Model) overheads(t *report.Table, paper [][]string, pi, cache float64) {
	t.Head = head(paper, "pages N", m.columns()...)
	for i, n := range m.Pages {
		row := []string{report.Power(n)}
		for _, ram := range m.ScaledRAMBytes {
			for _, by := range m.scaled() {
				column := len(row) - 1
				if paper != nil {
					column /= 2
				}
				row = append(row, cells(paper, i, column, by.alpha(m.load(n, pi), ram-cache))...)
			}
		}
		t.Add(row...)
	}
}

func (m Model) tableIII() report.Table {
	t := report.Table{Title: "Table III: alpha(n, R) for D(n) = max(pHn, " + report.DecimalBytes(m.LeastDiskBytes) + ")"}
	m.overheads(&t, m.beside(paperIII), 1, 0)
	return t
}

func (m Model) tableVI() report.Table {
	t := report.Table{Title: fmt.Sprintf("Table VI: alpha(pi n, R - c) for pi = %v, c = %s", m.Misses, report.DecimalBytes(m.CacheBytes))}
	m.overheads(&t, m.beside(paperVI), m.Misses, m.CacheBytes)
	t.Notes = []string{"D(n) is that of the links behind the cache: max(pH pi n, " + report.DecimalBytes(m.LeastDiskBytes) + ")."}
	return t
}

// theorem3 is the example below Theorem 3: the last row and column of Table III.
func (m Model) theorem3() report.Table {
	paper := m.beside(paperSpeed)
	n, ram := m.Pages[len(m.Pages)-1], m.ScaledRAMBytes[len(m.ScaledRAMBytes)-1]
	l := m.load(n, 1)
	t := report.Table{
		Title: fmt.Sprintf("Theorem 3: pages/s for W = %s/s, R = %s, N = %s", report.DecimalBytes(m.Bandwidth), report.DecimalBytes(ram), report.Power(n)),
		Head:  head(paper, "method", "S_disk", "DRUM is faster by"),
	}
	base := m.scaledDRUM(l, ram)
	for i, by := range []struct {
		name  string
		alpha float64
	}{{"DRUM", base}, {"Mercator-B", l.MercatorB(ram)}, {"Polybot", l.Polybot(ram, m.CompressedBytes)}} {
		row := append([]string{by.name}, cells(paper, i, 0, drum.DiskRate(m.Bandwidth, by.alpha, m.URLBytes, m.LinksPerPage))...)
		t.Add(append(row, cells(paper, i, 1, by.alpha/base)...)...)
	}
	return t
}

func (m Model) tableV() report.Table {
	paper := m.beside(paperV)
	t := report.Table{
		Title: fmt.Sprintf("Table V: pages/s by equation (21) for S_max = %s", report.Number(m.MaxRate)),
		Head:  head(paper, "mu, URLs/s", "S_cache"),
	}
	if paper != nil {
		t.Head = append(t.Head, "structure")
	}
	for i, speed := range m.CacheSpeeds {
		row := append([]string{report.Power(speed)}, cells(paper, i, 0, drum.CacheRate(speed, m.MaxRate, m.LinksPerPage))...)
		if paper != nil {
			row = append(row, cacheNames[i])
		}
		t.Add(row...)
	}
	return t
}

func (m Model) tableVII(curve MissCurve, fits bool) report.Table {
	t := report.Table{Title: "Table VII: pages/s with the best cache size c, by Theorem 5, pi = " + curve.String()}
	paper := m.beside(paperVII)
	t.Head = []string{"pages N"}
	for _, name := range m.columns() {
		t.Head = append(append(t.Head, head(paper, "", name)[1:]...), "c")
	}
	for i, n := range m.Pages {
		row := []string{report.Power(n)}
		column := 0
		for _, ram := range m.ScaledRAMBytes {
			for _, by := range m.scaled() {
				rate, cache := m.best(by, n, ram, curve)
				row = append(append(row, cells(paper, i, column, rate)...), report.DecimalBytes(cache))
				column++
			}
		}
		t.Add(row...)
	}
	t.Notes = []string{"pi is FACTOR:MISSES from c = FACTOR gamma tau_h l S on; c in steps of " + report.DecimalBytes(m.CacheStepBytes) + "."}
	switch {
	case fits:
		t.Notes = append(t.Notes, "The text has pi = 0.27 from factor 4 on; the printed cells come from 0.26 from factor 2 on, as computed here.",
			"At 8e10 pages 18,023 would leave the 2UH of the first URLs out of alpha: 0.05 %.")
	case paper != nil:
		t.Notes = append(t.Notes, "These are the steps of the text; they don't give the cells marked with !.")
	}
	return t
}

func (m Model) theorems67() report.Table {
	paper := m.beside(paperBeast)
	b := m.Beast
	t := report.Table{
		Title: fmt.Sprintf("Theorems 6 and 7: MB/s for budgets, V = %s, E[B] = %v, L = %v, S = %s",
			report.Power(b.PLDs), b.MeanBudget, b.UniquePerPage, report.Number(b.PagesPerSecond)),
		Head: head(paper, "pages N", "naive", "bound of BEAST", "queues j"),
		Notes: []string{fmt.Sprintf("Ours moves URLs through STAR's buckets once more a scan: its bound is 2Sb(4L-3) = %s MB/s.",
			report.Number(b.RateBoundWithStar()/1e6))},
	}
	t.Head = append(t.Head, "BEAST at N")
	for i, n := range m.BeastPages {
		row := append([]string{report.Power(n)}, cells(paper, i, 0, b.NaiveRate(n)/1e6)...)
		row = append(row, cells(paper, i, 1, b.RateBound()/1e6)...)
		row = append(row, cells(paper, i, 2, b.Queues(n))...)
		t.Add(append(row, report.Number(b.Rate(n)/1e6))...)
	}
	return t
}
