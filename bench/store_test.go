package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	for _, o := range []Store{{Corpus: []string{corpus}}, {Level: 6, Seed: 7, BlockDigest: true}} {
		dir := filepath.Join(t.TempDir(), "a[b]*") // no pattern
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		o.Dirs, o.Pages, o.Repeats = []string{dir}, 64, 2
		r, err := RunStore(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		text := reportText(t, r)
		for _, kind := range storeKinds {
			for _, way := range []string{wayOurs, wayLevel, wayFloor} {
				if n := strings.Count(text, "BenchmarkStore/page="+kind+"/way="+way+" "); n != o.Repeats {
					t.Errorf("%s, %s: %d lines, want %d", kind, way, n, o.Repeats)
				}
			}
		}
		checkHas(t, text, "ok      captures and index lines more or fewer than stored: 0", "ok      records damaged, of 784 verified: 0")
		if len(o.Corpus) > 0 && !strings.Contains(text, "pages: 2 different ones") {
			t.Errorf("corpus of two pages:\n%s", text)
		}
		checkEmpty(t, dir)
	}
}

// TestRunStoreRefuses: faults of the options, a corpus without pages, a measurement that is called off.
func TestRunStoreRefuses(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		o    Store
		want string
	}{
		{context.Background(), Store{}, "no directory"},
		{context.Background(), Store{Dirs: []string{"x"}, Pages: 3, Level: 10, Repeats: -1}, "level 10"},
		{context.Background(), Store{Dirs: []string{t.TempDir()}, Corpus: []string{t.TempDir()}}, "has no file"},
		{ctx, Store{Dirs: []string{t.TempDir()}, Pages: 64}, "canceled"},
	} {
		if _, err := RunStore(c.ctx, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
