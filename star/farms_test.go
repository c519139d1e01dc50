package star_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/star"
)

// farmGraph is a web of honest PLDs and a farm beside it, as a whole. PLDs have numbers, those of the farm the highest.
type farmGraph struct {
	rng    *rand.Rand
	honest int
	links  []map[int]bool
	seeds  []int
}

const (
	farmPLDs   = 120
	endlessAll = 2000 // PLDs of a farm without end that the crawl has found
)

// farmWebs are webs by how their links are drawn.
var farmWebs = []struct {
	name  string
	plds  int
	seeds int
	draw  func(g *farmGraph, from int) int
}{
	{"power law 7/8", 300, 20, func(g *farmGraph, _ int) int { return g.skewed(8) }},
	{"power law 1/2", 300, 20, func(g *farmGraph, _ int) int { return g.skewed(2) }},
	{"five communities", 300, 20, func(g *farmGraph, from int) int {
		to := g.skewed(8)
		if g.rng.IntN(10) > 0 {
			to += from%5 - to%5
		}
		return to
	}},
	{"copied links", 300, 20, func(g *farmGraph, _ int) int { // as popular PLDs get more links
		if to := g.links[g.rng.IntN(g.honest)]; len(to) > 0 && g.rng.IntN(10) < 7 {
			i := g.rng.IntN(len(to))
			for _, pld := range sortedKeys(to) {
				if i--; i < 0 {
					return pld
				}
			}
		}
		return g.rng.IntN(g.honest)
	}},
	{"3000 PLDs", 3000, 50, func(g *farmGraph, _ int) int { return g.skewed(4) }},
}

// farmShapes are the links within farms: those of PLD i.
var farmShapes = []struct {
	name string
	plds int
	to   func(i int) []int
}{
	{"all to all", farmPLDs, func(int) []int { return upTo(farmPLDs) }},
	{"star", farmPLDs, func(i int) []int {
		if i == 0 {
			return upTo(farmPLDs)
		}
		return []int{0}
	}},
	{"chain", farmPLDs, func(i int) []int { return []int{min(i+1, farmPLDs-1)} }},
	{"ring of rings", farmPLDs, func(i int) []int {
		if i%10 == 0 {
			return []int{i + 1, (i + 10) % farmPLDs}
		}
		return []int{i - i%10 + (i+1)%10}
	}},
	{"endless", endlessAll, func(i int) []int {
		if i >= endlessAll/15 { // not fetched yet
			return nil
		}
		to := upTo(15)
		for j := range to {
			to[j] += 15 * i
		}
		return to
	}},
}

// farmEntry is how trust can get into a farm.
type farmEntry struct {
	bought int // links from honest PLDs, each to another PLD of the farm
	doors  int // the same, to PLDs that have no other in-link and link to the whole farm
	old    int // popular honest PLDs that expired, and link to the farm only
	seeds  int // per cent of the seeds that are the farm's
}

func (e farmEntry) String() string {
	switch {
	case e.doors > 0:
		return fmt.Sprintf("%d links to doors", e.doors)
	case e.old > 0:
		return fmt.Sprintf("%d expired", e.old)
	case e.seeds > 0:
		return fmt.Sprintf("%d %% of seeds, %d links", e.seeds, e.bought)
	}
	return fmt.Sprintf("%d links", e.bought)
}

// limit is the share of the budgets that the farm must not exceed in a web of so many PLDs; 1 if none is claimed.
func (e farmEntry) limit(plds int) float64 {
	switch many := plds / 50; { // more PLDs that sell links or have expired can bring more than 5 %
	case e.bought > many, e.doors > many, e.old > many, e.seeds > 20:
		return 1
	case e.old > 0 || e.seeds == 20:
		return 0.07
	}
	return 0.05
}

func (g *farmGraph) skewed(k float64) int {
	return int(math.Pow(g.rng.Float64(), k) * float64(g.honest))
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func sortedKeys(m map[int]bool) []int {
	var keys []int
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// popular returns the n honest PLDs with the largest in-degrees among those from number first on.
func (g *farmGraph) popular(first, n int) []int {
	indegree := make([]int, g.honest)
	for _, to := range g.links[:g.honest] {
		for i := range to {
			indegree[i]++
		}
	}
	plds := upTo(g.honest)[first:]
	slices.SortStableFunc(plds, func(a, b int) int { return indegree[b] - indegree[a] })
	return plds[:n]
}

// newFarmGraph draws a web, and a farm beside it.
func newFarmGraph(seed uint64, web, shape int, e farmEntry) *farmGraph {
	w, f := farmWebs[web], farmShapes[shape]
	g := &farmGraph{rng: rand.New(rand.NewPCG(seed, 3)), honest: w.plds}
	g.links = make([]map[int]bool, w.plds+f.plds+e.doors)
	for i := range g.links {
		g.links[i] = map[int]bool{}
	}
	for i := 1; i < w.plds; i++ { // so that all are reached
		g.links[(i-1)/4][i] = true
	}
	for _, i := range g.rng.Perm(w.plds) { // a power law of pages too
		for range 4 + int(24/math.Sqrt((float64(g.rng.IntN(w.plds))+0.5)/float64(w.plds))) {
			g.links[i][w.draw(g, i)] = true
		}
	}
	for i := range f.plds {
		for _, to := range f.to(i) {
			g.links[w.plds+i][w.plds+to] = true
		}
	}
	owned := w.seeds * e.seeds / 100
	for i := range w.seeds - owned {
		g.seeds = append(g.seeds, i)
	}
	for i := range owned {
		g.seeds = append(g.seeds, w.plds+i)
	}
	for _, old := range g.popular(w.seeds, e.old) {
		clear(g.links[old])
		for j := range farmPLDs {
			g.links[old][w.plds+j] = true
		}
	}
	for i := range e.bought {
		g.links[(i+1)*w.plds/(e.bought+1)][w.plds+i] = true
	}
	for i := range e.doors {
		door := w.plds + f.plds + i
		g.links[(i+1)*w.plds/(e.doors+1)][door] = true
		for j := range farmPLDs {
			g.links[door][w.plds+j] = true
		}
	}
	return g
}

// farmBudgets is what budgets by supporters make of a graph.
type farmBudgets struct {
	share       float64 // of all budgets, the farm's
	honest      float64 // mean budget of honest PLDs, as a part of the default budget, at most 1
	correlation float64 // of honest PLDs: Spearman's, between budget's order and in-degree
}

// budgets computes supporters of a graph by a Star.
func (g *farmGraph) budgets(t *testing.T) (b farmBudgets) {
	r, _ := supportRig(t, 0)
	key := func(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }
	var list []star.Edge
	indegree := make([]float64, g.honest)
	for i, to := range g.links {
		r.plds = append(r.plds, key(i))
		for j := range to {
			if i != j {
				list = append(list, star.Edge{From: key(i), To: key(j)})
				if j < g.honest {
					indegree[j]++
				}
			}
		}
		must(t, r.s.Fetched(key(i), 1, 1000))
	}
	for _, s := range g.seeds {
		r.s.Trust([]uint64{key(s)})
	}
	must(t, r.s.AddEdges(list))
	if _, err := r.s.PassAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, r.checkpoint(0))
	ranks, err := r.compute(0)
	must(t, err)
	r.s.Computed(ranks)
	all := r.records()
	r.s.Refresh()
	must(t, r.checkpoint(0))
	of, err := star.BudgetsOf(r.opt.Set, r.state(), r.opt.Budgets)
	must(t, err)
	var farm, honest float64
	order := make([]float64, g.honest)
	for i := range g.links {
		s := all[key(i)]
		budget := s.Standing() // of the default budget
		if budget == 1 {
			budget = float64(of(0, &star.PLD{Support: s}).Nominal) / 10
		}
		if i >= g.honest {
			farm += budget
			continue
		}
		honest += budget
		b.honest += min(1, budget) / float64(g.honest)
		order[i] = float64(s)
	}
	b.share, b.correlation = farm/(farm+honest), spearman(order, indegree)
	return b
}

// spearman returns the rank correlation of two lists; equal values have their mean rank.
func spearman(a, b []float64) float64 {
	ranks := func(v []float64) []float64 {
		order := upTo(len(v))
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
		r := make([]float64, len(v))
		for i, j := 0, 0; i < len(v); i = j {
			for j = i; j < len(v) && v[order[j]] == v[order[i]]; j++ {
			}
			for _, k := range order[i:j] {
				r[k] = float64(i+j-1)/2 - float64(len(v)-1)/2 // less the mean
			}
		}
		return r
	}
	x, y := ranks(a), ranks(b)
	var xy, xx, yy float64
	for i := range x {
		xy, xx, yy = xy+x[i]*y[i], xx+x[i]*x[i], yy+y[i]*y[i]
	}
	return xy / math.Sqrt(max(1, xx*yy))
}

// TestFarmGraphs: budgets by supporters give a farm at most 5 % of the sum of budgets, with 5 expired PLDs or
// a fifth of the seeds at most 7 % in the worst of the webs, and honest PLDs nearly the default budget. Of
// farms with more than a fifth of the seeds, or whose in-links or expired PLDs are more than 2 % of the
// honest PLDs, the share is measured only.
func TestFarmGraphs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	seeds, all := []uint64{max(1, *seedFlag)}, []farmEntry{{old: 5}, {seeds: 20, bought: 5}}
	if *longFlag {
		seeds = []uint64{1, 2, 3}
		all = []farmEntry{{bought: 5}, {bought: 20}, {doors: 5}, {doors: 20}, {old: 1}, {old: 5},
			{old: 20}, {seeds: 10}, {seeds: 20}, {seeds: 20, bought: 5}, {seeds: 25, bought: 5}, {seeds: 40}}
	}
	for web, w := range farmWebs {
		t.Run(w.name, func(t *testing.T) {
			for shape := range farmShapes {
				large := w.plds > 1000 // takes longest
				if !*longFlag && (web+shape)%5 > 0 || large && shape%4 > 0 {
					continue
				}
				for _, e := range all {
					testFarmGraph(t, web, shape, e, seeds)
				}
			}
		})
	}
}

// testFarmGraph draws graphs by some seeds, and checks the farm's share of each.
func testFarmGraph(t *testing.T, web, shape int, e farmEntry, seeds []uint64) {
	var mean farmBudgets
	most := 0.
	for _, seed := range seeds {
		b := newFarmGraph(seed, web, shape, e).budgets(t)
		mean.share += b.share / float64(len(seeds))
		mean.honest += b.honest / float64(len(seeds))
		mean.correlation += b.correlation / float64(len(seeds))
		most = max(most, b.share)
	}
	t.Logf("farm: %-40s farm %5.2f %% (most %5.2f %%), honest %.3f, correlation %.3f",
		farmShapes[shape].name+", "+e.String(), 100*mean.share, 100*most, mean.honest, mean.correlation)
	if most > e.limit(farmWebs[web].plds) {
		t.Errorf("farm: %s, %s: it has %.1f %% of the budgets", farmShapes[shape].name, e, 100*most)
	}
	if mean.honest < 0.85 {
		t.Errorf("farm: %s, %s: honest PLDs have %.2f of the default budget", farmShapes[shape].name, e, mean.honest)
	}
}
