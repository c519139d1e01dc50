package star_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"drumbeat/star"
)

// TestSupportersOfParts: three Stars, each with the edges to some of the PLDs and a part of the seeds, get the same
// Supports from a computation for all as one Star that has all of it.
func TestSupportersOfParts(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		one, rng := supportRig(t, 500)
		edges, seeds := one.graph(4000, rng)
		var list []uint64
		if trusted {
			list = slices.Sorted(slices.Values(append(slices.Clone(one.plds[3:9]), 1, 2)))
		}
		whole := func(r *rig, opt star.SupportOptions) (*star.SupportRanks, error) {
			opt.Set, opt.Name, opt.State, opt.FS, opt.Trusted = r.opt.Set, "pld", r.state(), r.opt.Set.FS, list
			opt.Dir, opt.RAMBytes, opt.Ranks = "/d0/tmp", star.LeastSupportRAM, 100
			return star.ComputeSupport(t.Context(), opt)
		}
		ranks, err := whole(one, star.SupportOptions{Update: one.s.SetSupport})
		must(t, err)
		one.s.Computed(ranks)
		want := one.records()

		const nodes = 3
		owner := func(pld uint64) int { return slices.Index(one.plds, pld) % nodes }
		var parts []*rig
		var others []star.SupportPart
		for node := range nodes {
			r := partOf(one, edges, func(pld uint64) bool { return owner(pld) == node },
				[]uint64{seeds[node], seeds[node+2]}) // one of them is known to two
			parts = append(parts, r)
			if node > 0 {
				of, err := star.SeedsOf(r.opt.Set, r.state())
				must(t, err)
				others = append(others, star.SupportPart{Seeds: of, Walk: func(_ context.Context,
					fn func(star.Edge) error) error {
					return star.WalkSupport(r.opt.Set, "pld", r.state(), fn)
				}})
			}
		}
		values, last := map[uint64]star.Support{}, uint64(0)
		all, err := whole(parts[0], star.SupportOptions{Whole: true, Others: others,
			Update: func(updates []star.SupportUpdate) error {
				for _, u := range updates {
					if values[u.PLD] = u.Support; u.PLD < last {
						t.Errorf("PLD %x after %x", u.PLD, last)
					}
					last = u.PLD
				}
				return nil
			}})
		must(t, err)
		if all.Edges != ranks.Edges || all.PLDs != ranks.PLDs || !maps.Equal(values, want) {
			t.Errorf("trusted %t: %d edges, %d PLDs, want %d, %d; Supports are equal: %t", trusted, all.Edges, all.PLDs,
				ranks.Edges, ranks.PLDs, maps.Equal(values, want))
		}
		codes := applied(parts, values, want)
		slices.Sort(codes)
		slices.Reverse(codes)
		if !slices.Equal(codes[:min(len(codes), 101)], ranks.Codes) {
			t.Errorf("trusted %t: the ranks of the parts differ from those of one", trusted)
		}
	}
}

// applied applies values to parts. Their PLDs then have the wanted Supports. It returns the ranks of all parts.
func applied(parts []*rig, values, want map[uint64]star.Support) (codes []uint32) {
	for _, r := range parts {
		own, err := star.ApplySupport(r.t.Context(), star.SupportOptions{Set: r.opt.Set, Name: "pld",
			State: r.state(), Ranks: 100, Update: r.s.SetSupport},
			func(pld uint64) (star.Support, error) { return values[pld], nil })
		must(r.t, err)
		r.s.Computed(own)
		codes = append(codes, own.Codes...)
		for pld, s := range r.records() {
			if s != want[pld] {
				r.t.Errorf("PLD %x has the Support %d, want %d", pld, s, want[pld])
			}
		}
	}
	return codes
}

// partOf returns a Star with the PLDs of one that are its own, the edges to them, and seeds.
func partOf(one *rig, edges map[star.Edge]bool, own func(pld uint64) bool, seeds []uint64) *rig {
	r, _ := supportRig(one.t, 1)
	r.plds, r.m.edges = nil, map[star.Edge]bool{}
	for e := range edges {
		if own(e.To) {
			r.m.edges[e] = true
		}
	}
	for _, pld := range one.plds {
		if own(pld) {
			r.plds = append(r.plds, pld)
			must(r.t, r.s.Fetched(pld, 1, 1000))
		}
	}
	r.s.Trust(seeds)
	list := slices.Collect(maps.Keys(r.m.edges))
	must(r.t, r.s.AddEdges(list[:len(list)/2]))
	_, err := r.s.PassAll(r.t.Context())
	must(r.t, err)
	must(r.t, r.s.AddEdges(list[len(list)/2:])) // these wait for a merge
	must(r.t, r.checkpoint(0))
	return r
}
