package model

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"drumbeat/bench/result"
)

var update = flag.Bool("update", false, "rewrite testdata")

// TestModelGolden checks the output for the paper's parameters.
func TestModelGolden(t *testing.T) {
	var b bytes.Buffer
	r, err := Paper().Report()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range r.Tables {
		if err := table.Write(&b); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range r.Checks {
		b.WriteString(c.String() + "\n")
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	const name = "testdata/model.txt"
	if *update {
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("got\n%s\nwant %s", b.String(), name)
	}
}

// TestPaperAgrees: every cell of every table equals the printed one, except the known differences.
func TestPaperAgrees(t *testing.T) {
	tables := Paper().tables()
	if len(tables) != 11 {
		t.Errorf("got %d tables, want 11", len(tables))
	}
	printed := 0
	for _, table := range tables {
		printed += table.printed
		for _, row := range table.Rows {
			for i, cell := range row {
				known := table.name == "eq17" || table.name == "VII-text"
				known = known || table.name == "VII" && cell == "18,023"+disagrees && row[0] == "8e10"
				if strings.HasSuffix(cell, disagrees) && !known {
					t.Errorf("%s, N = %s: got %s, the paper has %s", table.Title, row[0], row[i-1], cell)
				}
			}
		}
	}
	if want := 2 + 15 + 2 + 20 + 4 + 4 + 20 + 20 + 20 + 8; printed != want {
		t.Errorf("%d printed numbers were compared, want %d", printed, want)
	}
}

// TestModelCheck: a formula with another result fails its check.
func TestModelCheck(t *testing.T) {
	m := modelTable{name: "II", Table: result.Table{Title: "Table II: x"}}
	for i, want := range []bool{true, true, false} {
		m.cells([][]string{{"2.26", "", "3.3"}}, 0, i, "x", 2.267)
		if got := m.check().OK(); got != want {
			t.Errorf("%d: got %v of %+v", i, got, m)
		}
	}
}

// TestFigure3: the optimum has a cache where it makes the crawl faster, and none where the CPU is the limit.
func TestFigure3(t *testing.T) {
	m := Paper()
	drum, mercator := m.scaled()[1], m.scaled()[0]
	if b := m.optimum(drum, 8e9, 8e9); b.cache != 0 || b.rate != m.MaxRate || b.by != "CPU" {
		t.Errorf("DRUM is faster than the CPU without a cache: got %+v", b)
	}
	rate, cache := m.best(mercator, 80e9, 4e9, m.Curve)
	if b := m.optimum(mercator, 80e9, 4e9); b.cache != cache || b.rate != rate || b.by != "disk" {
		t.Errorf("Mercator-B is bound by the disk: got %+v, want %v at %v", b, rate, cache)
	}
	// Without a cache the rate is W/(alpha b l), by Theorem 3; a cache costs CPU.
	m.Bandwidth /= 3
	disk := m.hybrid(drum, 8e9, 8e9, 0, m.Curve)
	if b := m.optimum(drum, 8e9, 8e9); disk >= m.MaxRate || b.rate <= disk || b.cache == 0 ||
		b.rate > m.cacheRate(b.cache) {
		t.Errorf("a slow disk needs a cache: %v without, got %+v", disk, b)
	}
}

// TestModelOther: other parameters give a report without the paper's numbers.
func TestModelOther(t *testing.T) {
	m := Paper()
	m.Pages, m.ScaledRAMBytes, m.UniqueFraction = []float64{1e9}, []float64{16e9}, 0.2
	var b bytes.Buffer
	r, err := m.Report()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	if len(r.Checks) > 0 {
		t.Errorf("got checks %v without the paper's numbers", r.Checks)
	}
	for _, s := range []string{"paper ", "4.39 !"} {
		if strings.Contains(strings.ReplaceAll(b.String(), "the paper's, so", ""), s) {
			t.Errorf("%q is in\n%s", s, b.String())
		}
	}
	if !strings.Contains(b.String(), "DRUM 16 GB") {
		t.Errorf("no column of 16 GB in\n%s", b.String())
	}
}

func TestModelValidate(t *testing.T) {
	for name, change := range map[string]func(*Model){
		"no pages": func(m *Model) { m.Pages = nil }, "p": func(m *Model) { m.UniqueFraction = 1.5 },
		"W": func(m *Model) { m.Bandwidth = 0 }, "c": func(m *Model) { m.CacheBytes = 5e9 },
		"step": func(m *Model) { m.CacheStepBytes = 1 }, "L": func(m *Model) { m.UniquePerPage = 0.5 },
		"curve": func(m *Model) { m.Curve = nil },
	} {
		m := Paper()
		change(&m)
		if _, err := m.Report(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMissCurve(t *testing.T) {
	var c MissCurve
	if err := c.UnmarshalText([]byte(textCurve.String())); err != nil || c.String() != textCurve.String() {
		t.Errorf("got %v, %v", c, err)
	}
	for _, bad := range []string{"", "1", "1:0.5", "0:2", "0:0.5;0:0.4", "0:0.5;1:0.6", "0:0"} {
		if err := c.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, c)
		}
	}
	for bytes, want := range map[float64]float64{0: 1, 1: 0.84, 100: 0.41, 399: 0.41, 400: 0.27, 1e6: 0.22} {
		if got := textCurve.at(bytes, 100); got != want {
			t.Errorf("c = %v: got %v, want %v", bytes, got, want)
		}
	}
}
