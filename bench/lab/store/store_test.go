package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/bench/benchtest"
)

// TestRunStore: every kind is measured in every way as often as said, all that was stored is there, and nothing is left on disk.
func TestRunStore(t *testing.T) {
	corpus := t.TempDir()
	for name, size := range map[string]int{"a.html": 5000, "b/c.htm": 3000, "b/small.html": 10, "d.txt": 5000} {
		name = filepath.Join(corpus, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.Repeat("<p>text ", size/8)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []Options{{Corpus: []string{corpus}}, {Level: 6, Seed: 7, BlockDigest: true}} {
		dir := filepath.Join(t.TempDir(), "a[b]*") // no pattern
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		o.Dir, o.Pages, o.Repeat = []string{dir}, 64, 2
		r, err := o.Measure(t.Context(), func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		text := benchtest.Text(t, r)
		for _, kind := range storeKinds {
			for _, way := range []string{wayOurs, wayLevel, wayFloor} {
				if n := strings.Count(text, "BenchmarkStore/page="+kind+"/way="+way+" "); n != o.Repeat {
					t.Errorf("%s, %s: %d lines, want %d", kind, way, n, o.Repeat)
				}
			}
		}
		benchtest.Has(t, text, "ok      captures and index lines more or fewer than stored: 0", "ok      records damaged, of 784 verified: 0")
		if len(o.Corpus) > 0 && !strings.Contains(text, "pages: 2 different ones") {
			t.Errorf("corpus of two pages:\n%s", text)
		}
		benchtest.Empty(t, dir)
	}
}

// TestRunStoreRefuses: faults of the options, a corpus without pages, a measurement that is called off.
func TestRunStoreRefuses(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		o    Options
		want string
	}{
		{context.Background(), Options{}, "no directory"},
		{context.Background(), Options{Dir: []string{"x"}, Pages: 3, Level: 10, Repeat: -1}, "level 10"},
		{context.Background(), Options{Dir: []string{t.TempDir()}, Corpus: []string{t.TempDir()}}, "no HTML file"},
		{ctx, Options{Dir: []string{t.TempDir()}, Pages: 64}, "canceled"},
	} {
		if _, err := c.o.Measure(c.ctx, func(string) {}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
