package bench

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestModelGolden: what the command prints for the paper's parameters.
func TestModelGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Paper().Write(&b); err != nil {
		t.Fatal(err)
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

// TestPaperAgrees: every cell of every table is the printed one, except those that are known not to be.
func TestPaperAgrees(t *testing.T) {
	tables := Paper().Tables()
	if len(tables) != 9 {
		t.Errorf("got %d tables, want 9", len(tables))
	}
	for _, table := range tables {
		for _, row := range table.Rows {
			for i, cell := range row {
				known := strings.HasPrefix(table.Title, "Equation (17)") || strings.Contains(table.Title, textCurve.String())
				known = known || strings.HasPrefix(table.Title, "Table VII") && cell == "18,023"+disagrees && row[0] == "8e10"
				if strings.HasSuffix(cell, disagrees) && !known {
					t.Errorf("%s, N = %s: got %s, the paper has %s", table.Title, row[0], row[i-1], cell)
				}
			}
		}
	}
}

// TestModelOther: other parameters are computed, without the paper's numbers beside them.
func TestModelOther(t *testing.T) {
	m := Paper()
	m.Pages, m.ScaledRAMBytes, m.UniqueFraction = []float64{1e9}, []float64{16e9}, 0.2
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"paper ", "4.39 !", "8e12"} {
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
		"step": func(m *Model) { m.CacheStepBytes = 1 }, "L": func(m *Model) { m.Beast.UniquePerPage = 0.5 },
		"curve": func(m *Model) { m.Curve = nil },
	} {
		m := Paper()
		change(&m)
		if m.Write(new(bytes.Buffer)) == nil {
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
