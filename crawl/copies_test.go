package crawl

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/audit"
	"drumbeat/crawl/explain"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestCopiesTakeTheirPlace: when the first directory's manifest or secret is damaged or missing, audit,
// explain, repair and crawl must use the copies, and repair and crawl must rewrite it.
func TestCopiesTakeTheirPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		fs, opt := stoppedCrawl(t)
		opt.MaxPages = 350
		for _, name := range []string{state.ManifestName, state.SecretName} {
			for _, how := range []string{"changed", "gone", "cut"} {
				path := "d0/" + name
				mem := fs.Fork(1)
				if how == "changed" {
					spoil(t, rand.New(rand.NewPCG(1, 1)), mem, path, 20)
				} else {
					hurt(t, rand.New(rand.NewPCG(2, 1)), mem, []string{path}, how)
				}
				if rep, err := audit.Run(mem, opt.Dirs); err != nil || !rep.Balanced() {
					t.Errorf("%s %s: audit: %v", path, how, err)
				}
				if rep := deep(t, mem, &opt); !slices.ContainsFunc(rep.Damages, func(d audit.Damage) bool { return strings.Contains(d.File+d.Got, path) }) {
					t.Errorf("%s %s: audit reports damages %+v", path, how, rep.Damages)
				}
				if x, err := explain.NewExplainer(explain.Options{FS: mem, Dirs: opt.Dirs, Fast: true}); err != nil {
					t.Errorf("%s %s: explain: %v", path, how, err)
				} else if _, err := x.URLs([]string{"http://a.test/"}); err != nil {
					t.Errorf("%s %s: explain: %v", path, how, err)
				}
				repaired, resumed := mem.Fork(1), mem.Fork(1)
				if rep, err := repairOf(t, repaired, &opt, nil); err != nil || len(rep.Actions) != 1 || rep.Links+rep.Forgotten+rep.Unnamed > 0 {
					t.Errorf("%s %s: repair: %v, %+v", path, how, err, rep)
				}
				again := opt
				again.FS = resumed
				if _, err := Run(t.Context(), again); err != nil {
					t.Errorf("%s %s: the crawl ends with %v", path, how, err)
				}
				for what, mem := range map[string]*memfs.FS{"repaired": repaired, "resumed": resumed} {
					if rep := deep(t, mem, &opt); !rep.Balanced() || len(rep.Unnamed) > 0 {
						t.Errorf("%s %s, %s: %q, %+v, %q", path, how, what, rep.Bad, rep.Damages, rep.Unnamed)
					}
				}
			}
		}
	})
}

// TestTheLatestCopyCounts: when the first manifest is unusable, the copy with the highest generation must
// replace it. A copy of a newer program must make the crawl fail.
func TestTheLatestCopyCounts(t *testing.T) {
	mem := memfs.New(1)
	set := disk.Set{FS: mem, Paths: []string{"d0", "d1", "d2", "d3"}}
	write := func(dir int, data []byte) {
		t.Helper()
		path := set.Path(dir, state.ManifestName)
		if err := errors.Join(mem.MkdirAll(set.Path(dir, "state")), disk.WriteFileAtomic(mem, path, data)); err != nil {
			t.Fatal(err)
		}
	}
	file := func(gen uint64) []byte {
		t.Helper()
		data, err := state.EncodeManifest(&state.Manifest{Gen: gen})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	read := func() uint64 {
		t.Helper()
		m, _, err := state.ReadManifest(set)
		if err != nil || m == nil {
			t.Fatalf("got %v, %v", m, err)
		}
		return m.Gen
	}
	write(1, file(5))
	write(2, file(6))
	write(3, file(9)) // not a copy: the crawl has three directories
	if got := read(); got != 6 {
		t.Errorf("first manifest missing: got generation %d, want 6", got)
	}
	write(0, file(4))
	if got := read(); got != 4 {
		t.Errorf("first manifest intact: got generation %d, want 4", got)
	}
	write(0, file(7)[:50])
	if got := read(); got != 6 {
		t.Errorf("first manifest damaged: got generation %d, want 6", got)
	}
	write(1, []byte(strings.Replace(string(file(5)), " 2.", " 3.", 1)))
	if _, _, err := state.ReadManifest(set); !errors.Is(err, state.ErrIncompatible) {
		t.Errorf("copy of a newer program: %v", err)
	}
	write(1, nil)
	write(2, nil)
	var damage *disk.CorruptError
	if _, _, err := state.ReadManifest(set); !errors.As(err, &damage) || damage.Path != set.Path(0, state.ManifestName) {
		t.Errorf("all manifests damaged: got %v", err)
	}
}
