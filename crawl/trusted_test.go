package crawl

import (
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/changes"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// TestTrusted: most of the seeds are a farm's. With trust from seeds it has much of the crawl, with a file of trusted PLDs
// hardly more than newcomers get.
func TestTrusted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes long")
	}
	pages, most := int64(1000), 0.1 // the first pages come before any computation
	if *longRuns {
		pages, most = 4000, 0.03
	}
	shares := map[bool]float64{}
	for _, trusted := range []bool{false, true} {
		f := farmCase{farm: "link-farm", seeds: 5, others: 4, slow: true}
		r := crawlFarm(t, pages, f, func(o *Options) {
			farmPolicies[3].set(o)
			if trusted {
				honest := slices.DeleteFunc(slices.Clone(o.SeedLines), func(s string) bool { return strings.Contains(s, "farm") })
				writeRules(t, o.FS.(*memfs.FS), "trusted.txt", strings.Join(honest, "\n"))
				o.Trusted = "trusted.txt"
			}
		})
		shares[trusted] = r.share
		t.Logf("trusted %t: farm %.1f %%, ordinary URLs %d, correlation %.3f", trusted, 100*r.share, r.ordinary, r.correlation)
	}
	if shares[true] > most || shares[true] > shares[false]/3 {
		t.Errorf("the farm got %.1f %% with trusted PLDs, and %.1f %% with trust from seeds", 100*shares[true], 100*shares[false])
	}
}

// TestTrustedReload: a reload refuses a file with faults and keeps the list, and takes a good one. A crawl does not start
// with a file that has faults.
func TestTrustedReload(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages = 5, 20, 2000 })
		writeRules(t, fs, "trusted.txt", "site0.test")
		o := operate(t, web, fs, func(o *Options) { o.Budget, o.Trusted = "supporters", "trusted.txt" })
		o.await(100)
		writeRules(t, fs, "trusted.txt", "site0.test\nftp://site1.test/\n")
		if _, _, err := o.opt.Control.Reload(t.Context(), "test", false); !changes.IsRefused(err) || !strings.Contains(err.Error(), "trusted.txt:2: ") {
			t.Errorf("a file with a fault: %v", err)
		}
		writeRules(t, fs, "trusted.txt", "site0.test\nhttp://site1.test/ # a comment\n")
		if _, _, err := o.opt.Control.Reload(t.Context(), "test", false); err != nil {
			t.Error(err)
		}
		if err := o.opt.Control.with(func(c *crawler) error {
			if n := len(*c.budgets.rules.trusted.Load()); n != 2 {
				t.Errorf("%d trusted PLDs are in force, want 2", n)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		o.stop()
		<-o.done
		writeRules(t, fs, "trusted.txt", "# none\n")
		if _, err := Run(t.Context(), o.opt); err == nil || !strings.Contains(err.Error(), "none of its lines") {
			t.Errorf("a crawl starts with a bad file: %v", err)
		}
	})
}
