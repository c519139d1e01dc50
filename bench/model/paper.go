package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"drumbeat/bench/result"
)

// The printed numbers of the paper's tables, row by row.
var (
	paperAsymptotes = [][]string{{"", ""}, {"7.2", ""}, {"", "2.256"}} // ratio to Mercator-B, least alpha

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
	paperSpeed = [][]string{{"4,192", ""}, {"1.4", "3,075"}, {"0.2", ""}} // pages/s, DRUM's speed / the method's
	paperBeast = [][]string{{"3.8", "8.2", ""}, {"83", "8.2", "16"}, {"826", "8.2", "128"}}
	// cacheNames are the structures of Table V.
	cacheNames = []string{"balanced tree of strings", "LRU in a tree, 8-byte keys", "balanced tree, 8-byte keys",
		"CLOCK, 8-byte keys"}
)

// agrees reports whether v equals a printed number within one unit of the last digit, as the paper
// truncates some numbers.
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

// disagrees marks a printed number that differs from the formula's.
const disagrees = " !"

// modelTable is a table during its construction.
type modelTable struct {
	result.Table
	// name is the paper's name of the table, unit the unit of its numbers.
	name, unit string
	// printed is the number of printed numbers shown, differ the number of those that differ from the
	// formulas, and known the expected value of differ.
	printed, differ, known int
	lines                  []result.Line
}

// cells returns a computed number and, if paper isn't nil, the printed one. of describes the number in
// key=value parts.
func (t *modelTable) cells(paper [][]string, row, column int, of string, v float64) []string {
	name := "BenchmarkModel/table=" + t.name + "/" + strings.ReplaceAll(of, " ", "")
	t.lines = append(t.lines, result.Line{Name: name, N: 1, Metrics: []result.Metric{{Value: v, Unit: t.unit}}})
	if paper == nil {
		return []string{result.Number(v)}
	}
	p := paper[row][column]
	if p != "" {
		t.printed++
		if !agrees(v, p) {
			t.differ++
			p += disagrees
		}
	}
	return []string{result.Number(v), p}
}

// check compares the printed numbers with the computed ones, except for known differences.
func (t *modelTable) check() result.Check {
	title, _, _ := strings.Cut(t.Title, ":")
	return result.AtLeast(fmt.Sprintf("%s: printed numbers that the formulas reproduce, of %d", title, t.printed),
		float64(t.printed-t.differ), float64(t.printed-t.known), "numbers")
}

// head returns the column names, each followed by one for the printed number.
func head(paper [][]string, first string, names ...string) []string {
	h := []string{first}
	for _, n := range names {
		if h = append(h, n); paper != nil {
			h = append(h, "paper")
		}
	}
	return h
}

// beside returns the printed numbers if m has the paper's parameters.
func (m Model) beside(paper [][]string) [][]string {
	if !m.printed() {
		return nil
	}
	return paper
}
