package extract

import (
	"bytes"
	"compress/gzip"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/bench/result"
)

func quiet(string) {}

// measured returns the report of a corpus.
func measured(t *testing.T, o Options) *result.Report {
	t.Helper()
	r, err := o.Measure(context.Background(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// metric returns a figure of a row.
func metric(t *testing.T, r *result.Report, row, unit string) float64 {
	t.Helper()
	for _, l := range r.Lines {
		for _, m := range l.Metrics {
			if l.Name == "BenchmarkExtract/pages="+row && m.Unit == unit {
				return m.Value
			}
		}
	}
	t.Fatalf("no %s of %s", unit, row)
	return 0
}

// TestCorpus: the scores of our own corpus have floors.
func TestCorpus(t *testing.T) {
	r := measured(t, Options{Corpus: "testdata/corpus", Repeats: 1, Worst: 100})
	for row, floor := range map[string]float64{"all": 0.96, "half 1": 0.94, "half 2": 0.97, "article": 0.96,
		"documentation": 0.99, "forum": 0.95, "product": 0.99, "collection": 0.99, "listing": 0.98, "service": 0.84} {
		if got := metric(t, r, row, "F1"); got < floor {
			t.Errorf("%s: F1 %.3f, want at least %.2f", row, got, floor)
		}
	}
	for _, l := range r.Lines {
		if kind, ok := strings.CutPrefix(l.Name, "BenchmarkMarkdown/structure="); ok && l.Metrics[0].Value < 0.9 {
			t.Errorf("Markdown, %s: F1 %.3f", kind, l.Metrics[0].Value)
		}
	}
	if n := len(r.Tables[1].Rows); n != len(kinds) {
		t.Errorf("%d kinds of structure", n)
	}
	if n := len(r.Tables[2].Rows); n != 20 {
		t.Errorf("%d pages", n)
	}
	if got := metric(t, r, "all", "ms/page"); got <= 0 || math.IsInf(got, 0) {
		t.Errorf("%f ms a page", got)
	}
}

// TestScores: the scores are those of the two published programs.
func TestScores(t *testing.T) {
	words, shingles := &corpus{}, &corpus{shingled: true}
	for _, c := range []struct {
		corpus        *corpus
		got, want     string
		p, r, f1      float64
		with, without float64
	}{
		{words, "The cat, the DOG!", "the dog the end", 0.75, 0.75, 0.75, 1, 0.5},
		{words, "", "", 1, 1, 1, 0, 0},
		{words, "the", "", 0, 0, 0, 0, 0},
		{words, "", "the", 0, 0, 0, 0, 0},
		{words, "über_all 3,5 日本", "ÜBER_ALL 3 5 日本 x", 1, 0.8, 8.0 / 9, 0, 0},
		{shingles, "a b c d e", "a b c d f", 0.5, 0.5, 0.5, 0, 0},
		{shingles, "a b c", "a b c", 1, 1, 1, 0, 0},
		{shingles, "A b c", "a b c", 0, 0, 0, 0, 0},
		{shingles, "a b c d a b c d", "a b c d", 0.2, 1, 1.0 / 3, 0, 0},
	} {
		p := &page{Main: c.want, With: []string{"THE CAT"}, Without: []string{"the dog", "end"}}
		s := c.corpus.judge(p, c.got)
		if math.Abs(s.precision-c.p)+math.Abs(s.recall-c.r)+math.Abs(s.f1-c.f1) > 1e-9 || s.with != c.with ||
			s.without != c.without {
			t.Errorf("%q: got %+v, want %+v", c.got, s, c)
		}
	}
}

// TestStructure: words belong to the structure in which they are.
func TestStructure(t *testing.T) {
	got := structure("# A [b](http://c)\n\nd\n\n- e\n  1. f\n> - g\n\n| h | i |\n| --- | --- |\n| j |  |\n\n" +
		"```go\n# k\n- l\n```\nm\n")
	for kind, want := range map[string]string{"heading": "a b", "list": "e f", "table": "h i j", "code": "k l"} {
		if strings.Join(got[kind], " ") != want {
			t.Errorf("%s: got %q, want %s", kind, got[kind], want)
		}
	}
}

// TestLayouts: both layouts are read, and faults of a corpus are errors that name the place.
func TestLayouts(t *testing.T) {
	write := func(dir, name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			text = b.String()
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const text = "A page with some words, and some more of them, so that it has a text."
	dir := t.TempDir()
	write(dir, "ground-truth.json", `{"b": {"articleBody": "`+text+`"}, "a": {"articleBody": ""}}`)
	write(dir, "html/a.html.gz", "<title>nothing</title>")
	write(dir, "html/b.html.gz", "<p>"+text)
	r := measured(t, Options{Corpus: dir, Repeats: 1, Worst: 1})
	if got := metric(t, r, "article", "F1"); got != 1 {
		t.Errorf("F1 %f", got)
	}
	for truth, want := range map[string]string{
		"":                         "no pages",
		"{":                        "page 1: ",
		`{"id":"../x"}`:            "no name of a file",
		`{"id":"x"}{"id":"x"}`:     "is there twice",
		`{"id":"x"}`:               "open page x",
		`{"id":"bad"}`:             "bad.html.gz: ",
		`{"id":"x","main":["no"]}`: "page 1: ",
	} {
		dir := t.TempDir()
		write(dir, "truth.jsonl", truth)
		write(dir, "html/y.html", "x")
		if err := os.WriteFile(filepath.Join(dir, "html/bad.html.gz"), []byte("no gzip"), 0o666); err != nil {
			t.Fatal(err)
		}
		o := Options{Corpus: dir}
		if _, err := o.Measure(context.Background(), quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", truth, err, want)
		}
	}
	o := Options{Corpus: t.TempDir()}
	if _, err := o.Measure(context.Background(), quiet); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Error(err)
	}
	if err := (&Options{Worst: -1, Repeats: -1}).Complete(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Error(err)
	}
}
