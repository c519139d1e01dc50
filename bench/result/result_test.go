package result

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sample returns a report with every kind of content.
func sample() *Report {
	r := New("drum", "a test")
	r.Set("dir0", "%s", "/disk")
	r.Add("BenchmarkDrum/keys=1e8/form=plain", 1000, Metric{12.345, "ns/op"}, Metric{8.1e6, "links/s"},
		Metric{0.00123, "alpha"})
	r.Tables = []Table{{Title: "T", Head: []string{"a", "long"}, Rows: [][]string{{"1", "2"}}, Notes: []string{"n"}}}
	r.Checks = []Check{
		AtLeast("speed", 3, 2, "M links/s"), AtMost("RAM", 5, 4, "MiB"), Within("I/O", 103.5, 100, 0.05, "B"),
		AtLeast("nothing", math.NaN(), 0, "x"),
	}
	return r
}

// TestLines: lines have the format of Go benchmarks, which benchstat reads.
func TestLines(t *testing.T) {
	var b strings.Builder
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^BenchmarkDrum/keys=1e8/form=plain \t    1000(\t +[0-9.]+ [^ \t]+){3}$`)
	if !line.MatchString(b.String()) {
		t.Errorf("got %q, want a benchmark's line", b.String())
	}
	for _, want := range []string{
		"dir0: /disk\n", "       12.35 ns/op", "     8100000 links/s", "    0.001230 alpha",
		"ok      speed: 3 M links/s, want at least 2\n", "MISSED  RAM: 5 MiB, want at most 4\n",
		"ok      I/O: 103.5 B, want 95.00 to 105.0\n", "MISSED  nothing",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", b.String(), want)
		}
	}
}

// TestErr: missed checks give an error that names them.
func TestErr(t *testing.T) {
	err := sample().Err()
	if !errors.Is(err, ErrMissed) || !strings.HasSuffix(err.Error(), ": RAM; nothing") {
		t.Errorf("got %v", err)
	}
	if err := new(Report).Err(); err != nil {
		t.Errorf("got %v, want nothing missed", err)
	}
}

func TestSample(t *testing.T) {
	for _, c := range []struct {
		s      Sample
		median float64
		spread string
	}{{Sample{3, 1, 2}, 2, "1.000-3.000"}, {Sample{4, 1, 2, 3}, 2.5, "1.000-4.000"}, {Sample{7}, 7, "7.000-7.000"}} {
		if c.s.Median() != c.median || c.s.Spread() != c.spread {
			t.Errorf("%v: got %v, %q", c.s, c.s.Median(), c.s.Spread())
		}
	}
	if got := Of([]int{1, 2}, func(n int) float64 { return float64(2 * n) }); len(got) != 2 ||
		got[0] != 2 || got[1] != 4 {
		t.Errorf("got figures %v, want 2 and 4", got)
	}
	if m := (Sample{}).Median(); !math.IsNaN(m) {
		t.Errorf("got %v of nothing", m)
	}
}

// TestSave: the saved files can be read.
func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	r := sample()
	names, err := r.Save(dir)
	if err != nil || len(names) != 2 {
		t.Fatalf("got %q, %v", names, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "drum.json"))
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(b, &again); err != nil || again.Lines[0].Metrics[1].Value != 8.1e6 {
		t.Errorf("got %+v, %v", again, err)
	}
}
