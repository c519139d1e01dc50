package repair_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/explain"
)

// TestCopiesTakeTheirPlace: when the first directory's manifest or secret is damaged or missing, audit,
// explain, repair and crawl must use the copies, and repair and crawl must rewrite it.
func TestCopiesTakeTheirPlace(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := crawltest.StoppedCrawl(t)
		opt.Limits.MaxPages = 350
		for _, name := range []string{state.ManifestName, state.SecretName} {
			for _, how := range []string{"changed", "gone", "cut"} {
				path := "d0/" + name
				mem := fs.Fork(1)
				if how == "changed" {
					testworld.Spoil(t, rand.New(rand.NewPCG(1, 1)), mem, path, 20)
				} else {
					testworld.Hurt(t, rand.New(rand.NewPCG(2, 1)), mem, []string{path}, how)
				}
				if rep, err := audit.Run(mem, opt.Disk.Dirs); err != nil || !rep.Balanced() {
					t.Errorf("%s %s: audit: %v", path, how, err)
				}
				if rep := testworld.Deep(t, mem, opt.Disk.Dirs); !slices.ContainsFunc(rep.Damages,
					func(d audit.Damage) bool { return strings.Contains(d.File+d.Got, path) }) {
					t.Errorf("%s %s: audit reports damages %+v", path, how, rep.Damages)
				}
				if x, err := explain.NewExplainer(explain.Options{FS: mem, Dirs: opt.Disk.Dirs,
					Fast: true}); err != nil {
					t.Errorf("%s %s: explain: %v", path, how, err)
				} else if _, err := x.URLs([]string{"http://a.test/"}); err != nil {
					t.Errorf("%s %s: explain: %v", path, how, err)
				}
				repaired, resumed := mem.Fork(1), mem.Fork(1)
				if rep, err := testworld.Repair(t, repaired, opt.Disk.Dirs, nil); err != nil || len(rep.Actions) != 1 ||
					rep.Links+rep.Forgotten+rep.Unnamed > 0 {
					t.Errorf("%s %s: repair: %v, %+v", path, how, err, rep)
				}
				again := opt
				again.Disk.FS = resumed
				if _, err := crawl.Run(t.Context(), again); err != nil {
					t.Errorf("%s %s: the crawl ends with %v", path, how, err)
				}
				for what, mem := range map[string]*memfs.FS{"repaired": repaired, "resumed": resumed} {
					if rep := testworld.Deep(t, mem, opt.Disk.Dirs); !rep.Balanced() || len(rep.Unnamed) > 0 {
						t.Errorf("%s %s, %s: %q, %+v, %q", path, how, what, rep.Bad, rep.Damages, rep.Unnamed)
					}
				}
			}
		}
	})
}
