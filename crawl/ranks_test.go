package crawl

import (
	"strings"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/explain"
)

// TestDomainRanks: a list of ranks gives PLDs prior in-degrees for their budgets, over a power cut, and leaves the
// in-degrees as they are. The next run without a list goes by these alone. A faulty list ends the run at its start.
func TestDomainRanks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages = 150, 300, 4000 })
		writeRules(t, fs, "ranks.csv", "1,absent.example", "2,www.site0.test", "5000,site1.simweb", "100000,site2.test")
		set := func(o *Options) { o.Budgets.DomainRanks = "ranks.csv" }
		o := operating(t, web, fs, set)
		o.await(300)
		cut := fs.Crash()
		o.stop()
		<-o.done
		o = operating(t, web, cut, set)
		o.await(2000)
		o.stop()
		<-o.done
		links := map[string]uint32{"site0.test": 50_000, "site1.simweb": 20, "site2.test": 1}
		checkRanks(t, cut, &o.opt, links)
		without := operating(t, web, cut, nil)
		without.end()
		checkRanks(t, cut, &without.opt, nil)
		writeRules(t, cut, "ranks.csv", "2,site0.test", "1,site1.simweb")
		o.opt.Observe.Control, o.opt.Disk.Dirs = nil, []string{"/other"}
		_, err := Run(t.Context(), o.opt)
		if err == nil || !strings.Contains(err.Error(), "line 2: rank 1 after rank 2") {
			t.Errorf("a list that is not sorted: %v", err)
		}
	})
}

// checkRanks checks the priors and the budgets of all PLDs in the last checkpoint.
func checkRanks(t *testing.T, fs *memfs.FS, opt *Options, links map[string]uint32) {
	t.Helper()
	r, err := state.OpenReader(fs, opt.Disk.Dirs, opt.Disk.Out)
	must(t, err)
	defer r.Close()
	set, m := r.Set, r.Manifest
	st, err := state.Part[star.State](m, state.NameStar)
	must(t, err)
	b, ok, err := explain.BudgetsOf(m.Run, &changes.Settings{})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	of, err := star.BudgetsOf(set, st, b)
	must(t, err)
	priors := map[uint64]uint32{}
	for pld, n := range links {
		priors[r.PLDKey([]byte(pld))] = n
	}
	found, sum := 0, int64(0)
	must(t, star.WalkPLDs(set, state.NameStar, st, func(pld uint64, p star.PLD) error {
		sum += int64(p.Indegree)
		now := of(pld, &p)
		if now.Prior != priors[pld] {
			t.Errorf("prior in-degree %d, want %d", now.Prior, priors[pld])
		}
		if now.Prior > 0 {
			found++
		}
		if first := now.Rank == 1; now.Prior == 50_000 && (!first || now.Nominal <= b.Default) {
			t.Errorf("the PLD of rank 2 has rank %d and a budget of %d", now.Rank, now.Nominal)
		}
		return nil
	}))
	if found != len(links) || sum == 0 {
		t.Errorf("%d PLDs with a prior, want %d; in-degrees add up to %d", found, len(links), sum)
	}
}
