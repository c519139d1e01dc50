package decode

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/bench/benchtest"
)

// TestRunDecode: everything is measured as often as said, with made pages and with files.
func TestRunDecode(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.html": strings.Repeat("<p>hello</p>", 999), "sub/b.HTM": "<p>", "c.txt": "no", "empty.html": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for source, o := range map[string]Options{
		"7 made pages":              {Pages: 7, Repeat: 2, PassBytes: 1, Levels: []int{9}},
		"2 of 3 files in " + dir:    {Corpus: []string{dir}, Repeat: 2, PassBytes: 1, Levels: []int{9}},
		"1 of 3 files in " + dir:    {Corpus: []string{dir}, Repeat: 2, PassBytes: 1, Levels: []int{9}, Pages: 1},
		"1 of 1 files in " + "/sub": {Corpus: []string{filepath.Join(dir, "sub")}, Repeat: 2, PassBytes: 1, Levels: []int{9}},
	} {
		r, err := o.Measure(t.Context(), func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		text := benchtest.Text(t, r)
		if got := strings.ReplaceAll(text, filepath.Join(dir, "sub"), "/sub"); !strings.Contains(got, source) {
			t.Errorf("no %q in\n%s", source, got)
		}
		for _, want := range []string{
			"BenchmarkDecode/coding=gzip/level=9/decoder=ours ", "BenchmarkDecode/coding=gzip/level=9/decoder=klauspost ",
			"BenchmarkDecode/coding=gzip/level=9/decoder=standard ", "BenchmarkDecode/coding=deflate/level=6/decoder=ours ",
			"BenchmarkDecode/coding=br/level=5/decoder=andybalholm ", "BenchmarkDecode/coding=zstd/level=3/decoder=klauspost ",
		} {
			if n := strings.Count(text, want); n != 2 {
				t.Errorf("%s: %q: %d lines, want 2", source, want, n)
			}
		}
		if len(r.Checks) != 4 {
			t.Errorf("%d checks", len(r.Checks))
		}
		for _, c := range r.Checks {
			if math.IsNaN(c.Got) {
				t.Errorf("nothing measured for %q", c.Name)
			}
		}
	}
}

// TestRunDecodeRefuses names what can't be measured.
func TestRunDecodeRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"level 0":      {Levels: []int{0}},
		"-1 pages":     {Pages: -1},
		"101 repeats":  {Repeat: 101},
		"no HTML file": {Corpus: []string{t.TempDir()}},
		"no such file": {Corpus: []string{filepath.Join(t.TempDir(), "x")}},
	} {
		if _, err := o.Measure(t.Context(), func(string) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (&Options{Pages: 10}).Measure(ctx, func(string) {}); err != context.Canceled {
		t.Errorf("canceled: got %v", err)
	}
}
