package crawl

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/plan"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// TestTrusted: most of the seeds are a farm's. With trust from seeds it has much of the crawl, with a file of
// trusted PLDs hardly more than newcomers get.
func TestTrusted(t *testing.T) {
	t.Parallel()
	notShort(t)
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
				honest := slices.DeleteFunc(slices.Clone(o.Admission.SeedLines),
					func(s string) bool { return strings.Contains(s, "farm") })
				writeRules(t, o.Disk.FS.(*memfs.FS), "trusted.txt", strings.Join(honest, "\n"))
				o.Budgets.Trusted = "trusted.txt"
			}
		})
		shares[trusted] = r.share
		t.Logf("trusted %t: farm %.1f %%, ordinary URLs %d, correlation %.3f", trusted, 100*r.share,
			r.ordinary, r.correlation)
	}
	if shares[true] > most || shares[true] > shares[false]/3 {
		t.Errorf("the farm got %.1f %% with trusted PLDs, and %.1f %% with trust from seeds", 100*shares[true],
			100*shares[false])
	}
}

// TestTrustedReload: a reload refuses a file with faults and keeps the list, and takes a good one. A crawl
// does not start with a file that has faults.
func TestTrustedReload(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages = 5, 20, 2000 })
		writeRules(t, fs, "trusted.txt", "site0.test")
		var log bytes.Buffer
		o := operating(t, web, fs, func(o *Options) {
			o.Budgets.Policy, o.Budgets.Trusted = "supporters", "trusted.txt"
			o.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		o.await(100)
		writeRules(t, fs, "trusted.txt", "site0.test\nftp://site1.test/\n")
		if _, _, err := o.opt.Observe.Control.Reload(t.Context(), "test", false); !changes.IsRefused(err) ||
			!strings.Contains(err.Error(), "trusted.txt:2: ") {
			t.Errorf("a file with a fault: %v", err)
		}
		writeRules(t, fs, "trusted.txt", "site0.test\nhttp://site1.test/ # a comment\n")
		if _, _, err := o.opt.Observe.Control.Reload(t.Context(), "test", false); err != nil {
			t.Error(err)
		}
		o.stop()
		<-o.done
		if text := log.String(); !strings.Contains(text, "trusted PLDs reloaded\" plds=2") {
			t.Errorf("want 2 trusted PLDs in force: %s", text)
		}
		writeRules(t, fs, "trusted.txt", "# none\n")
		if _, err := Run(t.Context(), o.opt); err == nil || !strings.Contains(err.Error(), "no line has") {
			t.Errorf("a crawl starts with a bad file: %v", err)
		}
	})
}

// TestSupportersPlan: with the flag the plan has RAM for supporters, takes it from large bodies, and needs more RAM.
func TestSupportersPlan(t *testing.T) {
	t.Parallel()
	planOf := func(budget BudgetPolicy, scope state.Scope, ram int64) (plan.Plan, error) {
		return MakePlan(&Options{Budgets: BudgetsOptions{Policy: budget}, Admission: AdmissionOptions{Scope: scope},
			Limits: LimitsOptions{RAMBytes: ram, DiskBytes: 1 << 40}, Network: NetworkOptions{Connections: 100},
			Disk: DiskOptions{Dirs: []string{"/d"}}})
	}
	without, err := planOf("paper", state.ScopeAll, 1<<30)
	if err != nil || without.SupportersBytes != 0 {
		t.Fatalf("paper: %d bytes for supporters, %v", without.SupportersBytes, err)
	}
	with, err := planOf("supporters", state.ScopeAll, 1<<30)
	if err != nil || with.SupportersBytes < star.LeastSupportRAM+16<<20 || with.BodyBytes >= without.BodyBytes {
		t.Errorf("supporters: %d bytes, %d for bodies after %d, %v", with.SupportersBytes, with.BodyBytes,
			without.BodyBytes, err)
	}
	sum := int64(0)
	for _, a := range with.RAM() {
		if sum += a.Bytes; a.Bytes < 0 {
			t.Errorf("%s: %d bytes", a.Name, a.Bytes)
		}
	}
	if sum != with.RAMBytes {
		t.Errorf("the parts have %d bytes, --ram %d", sum, with.RAMBytes)
	}
	if p, err := planOf("supporters", state.ScopePLD, 1<<30); err != nil || p.SupportersBytes != 0 {
		t.Errorf("--scope pld: %d bytes, %v", p.SupportersBytes, err)
	}
	if _, err := planOf("supporters", state.ScopeAll, plan.LeastRAM); err == nil ||
		!strings.Contains(err.Error(), "for supporters") {
		t.Errorf("the least RAM of other crawls: %v", err)
	}
}
