package star_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/drum"
	"drumbeat/star"
)

// exactSupport computes standing and supporters of the PLDs of a graph in RAM.
func exactSupport(edges map[star.Edge]bool, seeds []uint64) (standing, supporters map[uint64]float64) {
	list := slices.Collect(maps.Keys(edges))
	weights := map[uint64]float64{}
	for _, e := range list {
		weights[e.To] = 1
	}
	shares := exactShares(list, seeds)
	depth, last := 0, exactHalf(exactTrust(list, shares, 0, 1, weights))
	for depth < 4 {
		n := exactHalf(exactTrust(list, shares, depth+1, 1, weights))
		if n < 2*last {
			break
		}
		depth, last = depth+1, n
	}
	depth = max(depth, 1)
	for _, steps := range []int{4, 3*depth + 3} {
		trust := exactTrust(list, shares, steps, float64(depth)/float64(depth+1), weights)
		sorted := slices.Sorted(maps.Values(trust))
		sum, unit := 0., 0.
		for _, v := range slices.Backward(sorted) {
			if sum < 0.95*(1-1e-5) {
				unit = math.Exp2(-(math.Floor(-math.Log2(v)*64+1e-5) + 1) / 64)
			}
			sum += v
		}
		standing, supporters = map[uint64]float64{}, map[uint64]float64{}
		for pld, v := range trust {
			standing[pld] = min(1, v/unit)
		}
		for _, e := range list {
			supporters[e.To] += standing[e.From]
		}
		for pld := range weights {
			weights[pld] = 1 / max(1, supporters[pld])
		}
	}
	return standing, supporters
}

// exactHalf returns how many PLDs hold half of the trust, in whole steps of its logarithm.
func exactHalf(trust map[uint64]float64) (n int) {
	bin := func(v float64) float64 { return math.Floor(-math.Log2(v)*64 + 1e-5) }
	sorted := slices.Sorted(maps.Values(trust))
	sum, last := 0., -1.
	for _, v := range slices.Backward(sorted) {
		if v == 0 || sum >= 0.5*(1-1e-5) && bin(v) != last {
			break
		}
		sum, last = sum+v, bin(v)
		n++
	}
	return n
}

// exactShares computes the shares of seeds.
func exactShares(edges []star.Edge, seeds []uint64) map[uint64]float64 {
	out := map[uint64][]uint64{}
	for _, e := range edges {
		out[e.From] = append(out[e.From], e.To)
	}
	votes := map[uint64]map[uint64]float64{}
	for _, i := range seeds {
		all, sum := map[uint64]float64{}, 0.
		for _, x := range out[i] {
			one := 1 / float64(len(out[i]))
			all[x] += one
			for _, y := range out[x] {
				all[y] += one / float64(len(out[x]))
			}
		}
		votes[i] = map[uint64]float64{}
		for _, s := range seeds {
			if s != i && all[s] > 0 {
				votes[i][s] = all[s]
				sum += all[s]
			}
		}
		for s := range votes[i] {
			votes[i][s] /= sum
		}
		if sum == 0 {
			votes[i][i] = 1
		}
	}
	shares := map[uint64]float64{}
	for _, s := range seeds {
		shares[s] = 1 / float64(len(seeds))
	}
	scale := func(values map[uint64]float64) {
		sum := 0.
		for _, v := range values {
			sum += v
		}
		for s := range values {
			values[s] /= sum
		}
	}
	for range 3 {
		next := map[uint64]float64{}
		for _, s := range seeds {
			for _, i := range seeds {
				next[s] += math.Sqrt(shares[i] * votes[i][s])
			}
			next[s] *= next[s]
		}
		scale(next)
		shares = next
	}
	median := slices.Sorted(maps.Values(shares))[len(seeds)/2]
	for s := range shares {
		shares[s] = min(shares[s], median)
		if median == 0 {
			shares[s] = 1
		}
	}
	scale(shares)
	return shares
}

// exactTrust computes trust that gets steps links from the seeds. The trust of a PLD goes to others by their weights.
func exactTrust(edges []star.Edge, seeds map[uint64]float64, steps int, damping float64,
	weights map[uint64]float64) map[uint64]float64 {
	total := map[uint64]float64{}
	for _, e := range edges {
		total[e.From] += weights[e.To]
	}
	trust := map[uint64]float64{}
	add := func(to map[uint64]float64, rest float64) {
		for s, share := range seeds {
			to[s] += rest * share
		}
	}
	add(trust, 1)
	for range steps {
		next, sum := map[uint64]float64{}, 0.
		for _, e := range edges {
			v := damping * trust[e.From] * weights[e.To] / total[e.From]
			next[e.To] += v
			sum += v
		}
		add(next, 1-sum)
		trust = next
	}
	return trust
}

// state returns the state of the last checkpoint.
func (r *rig) state() *star.State {
	st := new(star.State)
	if err := json.Unmarshal(r.durable, st); err != nil {
		r.t.Fatal(err)
	}
	return st
}

// compute computes supporters from the last checkpoint. After stop updates, if not 0, it fails.
func (r *rig) compute(stop int) (*star.SupportRanks, error) {
	n := 0
	return star.ComputeSupport(r.t.Context(),
		star.SupportOptions{Set: r.opt.Set, Name: "pld", State: r.state(), FS: r.opt.Set.FS,
			Dir: "/d0/tmp", RAMBytes: star.LeastSupportRAM, Ranks: 100, Update: func(u []star.SupportUpdate) error {
				if n += len(u); stop > 0 && n > stop {
					return errStopped
				}
				return r.s.SetSupport(u)
			}})
}

var errStopped = errors.New("stopped")

// graph adds edges and a record for each PLD, and makes a checkpoint.
func (r *rig) graph(n int, rng *rand.Rand) (edges map[star.Edge]bool, seeds []uint64) {
	edges = map[star.Edge]bool{}
	var list []star.Edge
	for range n {
		// Squares make some PLDs popular.
		e := star.Edge{From: r.plds[rng.IntN(len(r.plds))],
			To: r.plds[int(math.Pow(rng.Float64(), 2)*float64(len(r.plds)))]}
		if e.From != e.To {
			edges[e] = true
		}
		list = append(list, e)
	}
	r.m.edges = edges
	seeds = r.plds[:5]
	r.s.Trust(seeds)
	if err := r.s.AddEdges(list[:len(list)/2]); err != nil {
		r.t.Fatal(err)
	}
	for _, pld := range r.plds {
		if err := r.s.Fetched(pld, 1, 1000); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, err := r.s.PassAll(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if err := errors.Join(r.s.AddEdges(list[len(list)/2:]), r.checkpoint(0)); err != nil { // these wait for a merge
		r.t.Fatal(err)
	}
	return edges, seeds
}

// records returns the Supports of all PLDs after a merge and a checkpoint.
func (r *rig) records() map[uint64]star.Support {
	if _, err := r.s.PassAll(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if err := r.checkpoint(0); err != nil {
		r.t.Fatal(err)
	}
	all := map[uint64]star.Support{}
	if err := star.WalkPLDs(r.opt.Set, "pld", r.state(), func(pld uint64, p star.PLD) error {
		all[pld] = p.Support
		if p.Bytes != 1000 || p.Fetched != 1 {
			r.t.Errorf("PLD %x: %d bytes, %d pages", pld, p.Bytes, p.Fetched)
		}
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return all
}

func supportRig(t *testing.T, plds int) (*rig, *rand.Rand) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	r := newRig(t, seed, 2, plds)
	r.s.Close()
	r.opt.Edges = drum.Options{Buckets: 4, BufferBytes: 64 << 10, BucketBytes: 4 << 20}
	r.opt.Budgets = star.Budgets{Function: star.Supporters, Ranks: 100}
	r.open()
	return r, rand.New(rand.NewPCG(seed, 9))
}

// TestSupporters compares the computation on disk with the exact one: once in RAM, once with sorted runs on disk.
func TestSupporters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ plds, edges int }{{400, 3000}, {2000, 115_000}} {
		t.Run(fmt.Sprint(c.plds), func(t *testing.T) {
			if testing.Short() && c.plds > 400 {
				t.Skip("takes long")
			}
			r, rng := supportRig(t, c.plds)
			edges, seeds := r.graph(c.edges, rng)
			ranks, err := r.compute(0)
			must(t, err)
			if ranks.Edges != int64(len(edges)) || ranks.PLDs != int64(c.plds) {
				t.Errorf("%d edges, %d PLDs, want %d, %d", ranks.Edges, ranks.PLDs, len(edges), c.plds)
			}
			if names, err := r.opt.Set.FS.List("/d0/tmp"); err == nil {
				t.Errorf("left: %q", names)
			}
			r.s.Computed(ranks)
			standing, supporters := exactSupport(edges, seeds)
			worst := 0.
			for pld, s := range r.records() {
				want := standing[pld]
				if got := s.Standing(); math.Abs(got-want) > 0.002 {
					t.Errorf("PLD %x: standing %.4f, want %.4f", pld, got, want)
				}
				if want < 0.998 {
					continue
				}
				if want := supporters[pld]; s.Standing() == 1 {
					worst = max(worst, math.Abs(s.Supporters()-want)/(1+want))
				}
			}
			if worst > 0.0005 {
				t.Errorf("worst relative error of supporters %.5f, want at most 0.0005", worst)
			}
			if c.plds == 400 {
				if again, err := r.compute(0); err != nil || again.Updates != 0 {
					t.Errorf("a second computation of the same graph: %+v, %v; want no updates", again, err)
				}
			}
			r.checkBudgets(ranks)
			r.reopen(r.mem.Crash())
			if got := r.s.LastComputed(); got.Time != ranks.Time || got.PLDs != ranks.PLDs {
				t.Errorf("after a crash the last computation is %+v, want %+v", got, ranks.SupportState)
			}
			r.checkBudgets(ranks)
		})
	}
}

// checkBudgets compares the budgets by a state with the ranks.
func (r *rig) checkBudgets(ranks *star.SupportRanks) {
	r.s.Refresh()
	if err := r.checkpoint(0); err != nil {
		r.t.Fatal(err)
	}
	of, err := star.BudgetsOf(r.opt.Set, r.state(), r.opt.Budgets)
	if err != nil {
		r.t.Fatal(err)
	}
	top := of(0, &star.PLD{Support: star.Support(ranks.Codes[0])})
	low := of(0, &star.PLD{Support: 1, Indegree: math.MaxUint32})
	if !top.Supporters || top.Rank != 1 || top.Nominal <= 10 && len(r.plds) >= 1000 || low.Nominal > 1 || low.Rank > 0 {
		r.t.Errorf("budgets of the first and of a PLD without trust: %+v, %+v", top, low)
	}
}

// TestSupportersCrash stops a computation between two updates, crashes before or after a checkpoint, and computes
// again: the result is the same as without.
func TestSupportersCrash(t *testing.T) {
	t.Parallel()
	want, rng := supportRig(t, 600)
	edges := 4000
	seed := rng.Uint64()
	want.graph(edges, rand.New(rand.NewPCG(seed, 1)))
	if _, err := want.compute(0); err != nil {
		t.Fatal(err)
	}
	all := want.records()
	for _, saved := range []bool{false, true} {
		r, _ := supportRig(t, 0)
		r.plds = want.plds
		r.graph(edges, rand.New(rand.NewPCG(seed, 1)))
		if _, err := r.compute(300); !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
		if saved {
			must(t, r.checkpoint(0))
		}
		r.reopen(r.mem.Crash())
		if r.s.LastComputed().Time != 0 || r.s.Trusted() != 5 {
			t.Errorf("after the crash: %+v, %d seeds", r.s.LastComputed(), r.s.Trusted())
		}
		if _, err := r.compute(0); err != nil {
			t.Fatal(err)
		}
		got := r.records()
		if len(got) != len(all) {
			t.Errorf("saved %t: %d PLDs, want %d", saved, len(got), len(all))
		}
		for pld, s := range all {
			if got[pld] != s {
				t.Errorf("saved %t: PLD %x has support %d, want %d", saved, pld, got[pld], s)
			}
		}
	}
}

// TestNoSeeds: without seeds trust begins nowhere.
func TestNoSeeds(t *testing.T) {
	r, _ := supportRig(t, 10)
	must(t, r.checkpoint(0))
	if _, err := r.compute(0); !errors.Is(err, star.ErrNoSeeds) {
		t.Errorf("got %v", err)
	}
}

// TestNewcomers: all PLDs that no computation has known get a page for 32 that were fetched, however many they are and
// however often they ask; with Spare each gets its page. A page that no queue takes is not counted.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	r, rng := supportRig(t, 400)
	r.s.Close()
	room := true
	placed := map[bool]int{} // by whether the PLD is known
	known := map[uint64]bool{}
	r.opt.MaxPlaced = 0
	r.opt.Place = func(_ *[16]byte, pages uint32, _, _ uint8) int64 {
		if pages == 0 || !room {
			return -1
		}
		return 1
	}
	r.opt.Emit = func(all []star.Placed) error {
		for _, p := range all {
			if p.Number >= 0 {
				placed[known[p.PLD]]++
			}
		}
		return nil
	}
	r.open()
	r.graph(3000, rng)
	for _, pld := range r.plds {
		known[pld] = true
	}
	ranks, err := r.compute(0)
	must(t, err)
	r.s.Computed(ranks)
	r.records()
	r.s.Refresh()
	ask := func() (newcomers, others int) {
		clear(placed)
		for range 5000 {
			must(t, r.s.Check([]star.CheckTuple{{PLD: rng.Uint64()}, {PLD: r.plds[0]}}))
		}
		if _, err := r.s.PassAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		return placed[false], placed[true]
	}
	if newcomers, others := ask(); newcomers != 400/32 || others != 5000 {
		t.Errorf("after 400 fetched pages newcomers got %d pages, want %d; a known one got %d of 5000", newcomers,
			400/32, others)
	}
	must(t, r.s.Fetched(r.plds[0], 3200, 1))
	room = false
	ask()
	room = true
	if newcomers, _ := ask(); newcomers != 100 {
		t.Errorf("after 3,200 further pages they got %d, want 100", newcomers)
	}
	r.s.Spare(true)
	if newcomers, _ := ask(); newcomers != 5000 {
		t.Errorf("with Spare they got %d pages of 5000", newcomers)
	}
}

// TestTrusted: trust begins at the PLDs of SupportOptions.Trusted that are known, and at no seed.
func TestTrusted(t *testing.T) {
	t.Parallel()
	r, rng := supportRig(t, 400)
	edges, _ := r.graph(3000, rng)
	compute := func(trusted ...uint64) error {
		slices.Sort(trusted)
		ranks, err := star.ComputeSupport(t.Context(),
			star.SupportOptions{Set: r.opt.Set, Name: "pld", State: r.state(),
				FS: r.opt.Set.FS, Dir: "/d0/tmp", RAMBytes: star.LeastSupportRAM, Ranks: 100, Update: r.s.SetSupport,
				Trusted: trusted})
		if err == nil {
			r.s.Computed(ranks)
		}
		return err
	}
	if err := compute(1, 2, 3); !errors.Is(err, star.ErrNoTrusted) {
		t.Errorf("trusted PLDs that the crawl does not know: %v", err)
	}
	trusted := r.plds[200:206]
	must(t, compute(append([]uint64{1, 2, 3, 4, 5, 6, 7}, trusted...)...))
	standing, _ := exactSupport(edges, trusted)
	for pld, s := range r.records() {
		if got, want := s.Standing(), standing[pld]; math.Abs(got-want) > 0.002 {
			t.Errorf("PLD %x: standing %.4f, want %.4f", pld, got, want)
		}
	}
	if r.s.Trusted() != 5 {
		t.Errorf("%d seeds are left, want 5", r.s.Trusted())
	}
}
