package star_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/star"
)

// priorsOf gives every third PLD of a rig a prior in-degree, and PLDs that the crawl does not know.
func priorsOf(r *rig) (list []star.Prior, links map[uint64]uint32) {
	links = map[uint64]uint32{}
	for i, pld := range r.plds {
		if i%3 == 0 {
			links[pld] = uint32(1 + r.rng.IntN(12))
			if i%10 == 0 {
				links[pld] = uint32(100 + r.rng.IntN(1000))
			}
		}
	}
	for i := range 20 {
		links[uint64(i)+1] = 1000
	}
	for pld, n := range links {
		list = append(list, star.Prior{PLD: pld, Links: n})
	}
	return list, links
}

// prior returns the prior in-degree of a PLD.
func (r *rig) prior(pld uint64) uint32 {
	for _, p := range r.opt.Priors {
		if p.PLD == pld {
			return p.Links
		}
	}
	return 0
}

// checkPriors compares budgets with those of a Star that found the links of the priors itself: in-degrees are
// max(own, prior), and PLDs that are not known take no rank.
func (r *rig) checkPriors(links map[uint64]uint32) {
	r.t.Helper()
	r.finish()
	r.s.Refresh()
	must(r.t, r.checkpoint(0))
	st := new(star.State)
	must(r.t, json.Unmarshal(r.durable, st))
	of, err := star.BudgetsOf(r.opt.Set, st, r.opt.Budgets)
	must(r.t, err)
	other := newRig(r.t, 2, 1, 0)
	other.opt.Budgets, other.opt.MaxPlaced = r.opt.Budgets, 0
	must(r.t, other.s.Close())
	other.open()
	records := map[uint64]star.PLD{}
	must(r.t, star.WalkPLDs(r.opt.Set, "pld", st, func(pld uint64, p star.PLD) error {
		records[pld] = p
		for i := range max(p.Indegree, links[pld]) {
			must(r.t, other.s.AddEdges([]star.Edge{{From: 1<<60 + uint64(i), To: pld}}))
		}
		return other.s.Fetched(pld, 1, 1)
	}))
	for range 4 {
		_, err := other.s.Pass(r.t.Context(), true)
		must(r.t, err)
	}
	other.s.Refresh()
	if a, b := r.s.NumPLDs(), other.s.NumPLDs(); a != b {
		r.t.Fatalf("%d PLDs, the other Star has %d", a, b)
	}
	raised := 0
	for pld, p := range records {
		now := of(pld, &p)
		nominal, pages := other.s.Budget(max(p.Indegree, links[pld]))
		if now.Nominal != nominal || now.Pages != pages || now.Prior != links[pld] {
			r.t.Errorf("PLD %x, in-degree %d, prior %d: %+v, want %d and %d pages", pld, p.Indegree, links[pld], now,
				nominal, pages)
		}
		if nominal > 10 && links[pld] > p.Indegree {
			raised++
		}
	}
	if len(links) > 0 && raised == 0 {
		r.t.Error("no prior raised a budget: the test shows nothing")
	}
}

// TestPriors: budgets go by the larger of in-degree and prior, over power cuts at any moment, also after the list has
// changed, and after it is gone.
func TestPriors(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = 2 * uint64(time.Now().UnixNano()) // even: Place has no limit
	}
	t.Logf("-seed %d", seed)
	r := newRig(t, seed, 1, 1500)
	must(t, r.s.Close())
	r.opt.Budgets = star.Budgets{Max: 1000, QueuePages: star.Unscaled}
	list, links := priorsOf(r)
	r.opt.Priors = list
	r.open()
	run := func() {
		for range 12 {
			if r.rng.IntN(2) == 0 {
				r.mem.CrashAfter(1 + r.rng.IntN(80))
			}
			err := r.work()
			if err != nil && !errors.Is(err, disk.ErrCrashed) {
				t.Fatal(err)
			}
			if err != nil || r.rng.IntN(3) == 0 {
				r.reopen(r.mem.Kill())
			}
			r.mem.CrashAfter(0)
		}
		r.checkPriors(links)
	}
	run()
	list, links = priorsOf(r) // others
	r.opt.Priors = list
	r.reopen(r.mem.Crash())
	r.checkPriors(links)
	run()
	r.opt.Priors, links = nil, nil
	r.reopen(r.mem.Crash())
	r.checkPriors(links)
}

// TestPriorLane: Options.Lane sees the in-degree with its prior, and the record keeps its own.
func TestPriorLane(t *testing.T) {
	r := newRig(t, 8, 1, 1)
	must(t, r.s.Close())
	pld := r.plds[0]
	seen := uint32(0)
	r.opt.Priors = []star.Prior{{PLD: pld, Links: 7}}
	r.opt.Lane = func(_ uint8, p *star.PLD, _ uint32) uint8 {
		seen = p.Indegree
		return 0
	}
	r.open()
	must(t, r.check(10))
	r.finish() // compares records
	if seen != 7 {
		t.Errorf("Lane saw an in-degree of %d, want 7", seen)
	}
}

// TestPriorFaults: too many priors, two of a PLD, and a damaged text in a checkpoint are errors.
func TestPriorFaults(t *testing.T) {
	r := newRig(t, 8, 1, 1)
	must(t, r.s.Close())
	for want, list := range map[string][]star.Prior{"at most": make([]star.Prior, star.MostPriors+1),
		"two prior": {{PLD: 1, Links: 1}, {PLD: 1, Links: 2}}} {
		r.opt.Priors = list
		if _, err := star.Open(r.opt, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r.opt.Priors = []star.Prior{{PLD: 1, Links: 1}}
	r.open()
	must(t, r.checkpoint(0))
	st := new(star.State)
	must(t, json.Unmarshal(r.durable, st))
	st.Priors.Len--
	if _, err := star.Open(r.opt, st); err == nil {
		t.Error("a text that is cut off is read")
	}
}
