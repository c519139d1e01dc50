package parse

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/parse"
)

// parseTestPage has a link that the tree doubles.
const parseTestPage = "<p><a href=1>x<p>y</a><a href=2>z</a>"

// TestRunParse: everything is measured and compared; links to elsewhere and other files are left out.
func TestRunParse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.html": strings.Repeat(parseTestPage, 100), "sub/b.HTM": "<template><style></style><col><a href=1></template>", "c.txt": "<a href=no>",
		"deep.xhtml": strings.Repeat("<div>", 600) + "<a href=3>",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "out.html")); err != nil {
		t.Fatal(err)
	}
	r, err := (&Options{Corpus: []string{dir}, Shape: 20_000, Repeat: 2}).Measure(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	name := parseName(dir, nil)
	for _, want := range []string{
		"BenchmarkParse/corpus=generated/by=parser", "BenchmarkParse/corpus=" + name + "/by=x-net-tree",
		name + ": 1 links: <frameset> or <col>: the tree drops for its place", name + ": 1 links: links of pages nested too deep for the reference",
		name + ": 100 links: the tree holds <a> again where HTML reopens it", "ok      links whose difference is unexplained: 0.000",
		"ok      allocations of the extractor, generated: 0.000", "all <",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if len(r.Lines) != 2*2*int(numParseWays) || len(r.Tables[1].Rows) != 2 || r.Tables[1].Rows[1][1] != "3" || r.Tables[1].Rows[1][2] != "1" {
		t.Errorf("got %d lines and %v, want 16 and 3 files, 1 left out", len(r.Lines), r.Tables[1].Rows)
	}
}

// TestParseFaults: what can't be measured is refused, and said.
func TestParseFaults(t *testing.T) {
	empty := t.TempDir()
	for want, p := range map[string]Options{
		"twice": {Corpus: []string{"x", "x"}}, "0 bytes": {Bytes: -1}, "files: want": {Files: -1}, "repeats: want": {Repeat: 101},
		"no HTML file": {Corpus: []string{empty}}, "no such file": {Corpus: []string{empty + "/none"}},
	} {
		_, err := p.Measure(t.Context(), func(string) {})
		if want == "0 bytes" {
			want = "-1 bytes"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := new(Options).Measure(ctx, func(string) {}); err != context.Canceled {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestMeanPage: the generated pages are those of the paper, and all ways find the same links on them.
func TestMeanPage(t *testing.T) {
	c := generatedCorpus()
	for _, page := range c.pages {
		if n := len(page.body); n < 21_000 || n > 27_000 {
			t.Fatalf("got a page of %d bytes", n)
		}
		for way := range numParseWays {
			if n := newParseFunc(way)(page); n != 59 {
				t.Fatalf("%s: got %d links, want 59", way, n)
			}
		}
	}
	if d := &c.compared; d.links != 40*59 || d.differing() != 0 {
		t.Errorf("got %d links, %d of them different", d.links, d.differing())
	}
}

// TestParseClasses: a difference of no known reason is unexplained.
func TestParseClasses(t *testing.T) {
	var many parse.Page
	many.LongRefs = 1
	for _, c := range []struct {
		page *parse.Page
		body string
		n    [2]int
		want parseClass
	}{
		{&many, "", [2]int{0, 1}, parseBeyondLimit}, {new(parse.Page), "", [2]int{1, 2}, parseReopened},
		{new(parse.Page), "<FRAMESET>", [2]int{1, 0}, parsePlace}, {new(parse.Page), "<Svg>", [2]int{1, 0}, parseForeign},
		{new(parse.Page), "<p>", [2]int{1, 0}, parseUnexplained}, {new(parse.Page), "<p>", [2]int{0, 1}, parseUnexplained},
		{new(parse.Page), "<frame>", [2]int{0, 1}, parseUnexplained},
	} {
		if got := classOf(c.page, []byte(c.body), c.n); got != c.want {
			t.Errorf("%q %v: got %q, want %q", c.body, c.n, parseClasses[got], parseClasses[c.want])
		}
	}
}
