package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"drumbeat/weburl"
)

// powerLaw returns loads of PLDs whose sizes follow a power law: that of rank r has r^-exponent of the largest. The
// delays of hosts bound the pages of a PLD; its URLs wait for the rest.
func powerLaw(exponent float64, seed uint64) []Load {
	rng := rand.New(rand.NewPCG(seed, 1))
	const plds, known, most = 100_000, 2e9, 500_000
	sum := 0.0
	for r := range plds {
		sum += math.Pow(float64(r+1), -exponent)
	}
	loads := make([]Load, Slots)
	for r := range plds {
		size := known * math.Pow(float64(r+1), -exponent) / sum
		pages := min(size*rng.Float64(), most)
		l := Load{Pages: int64(pages), Known: int64(size), Bytes: int64(20_000 * pages)}
		l.Waiting = int64(float64(l.Known-l.Pages) * (0.5 + rng.Float64()/2))
		loads[weburl.Slot(rng.Uint64())].Add(l)
	}
	return loads
}

func equal(nodes int) []float64 {
	w := make([]float64, nodes)
	for i := range w {
		w[i] = 1
	}
	return w
}

// highest returns the largest factors of all nodes.
func highest(all []Factors) (f Factors) {
	for i := range all {
		f.Pages, f.Waiting = max(f.Pages, all[i].Pages), max(f.Waiting, all[i].Waiting)
		f.Known, f.Slots = max(f.Known, all[i].Known), max(f.Slots, all[i].Slots)
	}
	return f
}

// checkPlan checks that a plan moves each slot at most once, from its owner, to a node with a share, and moves none of
// nodes that are no members.
func checkPlan(t *testing.T, table *Table, p *Plan, loads []Load, weights []float64, members []bool) (slots int) {
	t.Helper()
	owners := make([]int, Slots)
	for slot := range owners {
		owners[slot] = table.OwnerOf(slot)
	}
	last := [2]int{-1, -1}
	for _, m := range p.Moves {
		pair, known := [2]int{m.From, m.To}, int64(0)
		if slices.Compare(last[:], pair[:]) >= 0 || len(m.Slots) == 0 || !slices.IsSorted(m.Slots) {
			t.Fatalf("moves %v, %v; slots %v", last, pair, m.Slots)
		}
		last = pair
		for _, slot := range m.Slots {
			if owners[slot] != m.From || m.From == m.To || weights[m.To] == 0 ||
				members != nil && (!members[m.From] || !members[m.To]) {
				t.Fatalf("slot %d of node %d moves from node %d to node %d", slot, owners[slot], m.From, m.To)
			}
			owners[slot] = m.To
			known += max(0, loads[slot].Known)
		}
		if m.Known != known {
			t.Fatalf("%d known URLs move, the plan says %d", known, m.Known)
		}
		slots += len(m.Slots)
	}
	if !slices.Equal(owners, p.Owners) {
		t.Fatal("the owners of the plan are not those after its moves")
	}
	for i, a := range p.Above {
		if a.Factor <= Tolerance || a.Alone <= 0 || a.Alone > a.Factor*1.000001 || owners[a.Slot] != a.Node ||
			i > 0 && a.Factor > p.Above[i-1].Factor {
			t.Fatalf("node above: %+v", a)
		}
	}
	return slots
}

// checkNotWorse checks that no measure has a larger factor than before, unless that is within the tolerance.
func checkNotWorse(t *testing.T, p *Plan) {
	t.Helper()
	b, a := highest(p.Before), highest(p.After)
	for _, pair := range [][2]float64{{b.Pages, a.Pages}, {b.Waiting, a.Waiting}, {b.Known, a.Known},
		{b.Slots, a.Slots}} {
		if pair[1] > max(Tolerance, pair[0])*(1+1e-9) {
			t.Fatalf("the largest factors were %+v, and become %+v", b, a)
		}
	}
}

// TestBalance: loads of power laws. Nodes end within the tolerance of their share, or of what a slot has alone. With
// 1,000 nodes a node has four slots, which do not fit everywhere.
func TestBalance(t *testing.T) {
	for _, exponent := range []float64{1.2, 1.5, 2} {
		loads := powerLaw(exponent, 1)
		var total int64
		for i := range loads {
			total += loads[i].Known
		}
		for _, nodes := range []int{2, 4, 8, 64, 1000} {
			if testing.Short() && nodes == 1000 && exponent != 1.5 {
				continue
			}
			table, err := NewTable(equal(nodes))
			must(t, err)
			p, err := Balance(table, loads, equal(nodes), nil)
			must(t, err)
			slots, known := checkPlan(t, table, p, loads, equal(nodes), nil), int64(0)
			checkNotWorse(t, p)
			for _, m := range p.Moves {
				known += m.Known
			}
			b, a := highest(p.Before), highest(p.After)
			text := "all within 1.15"
			if len(p.Above) > 0 {
				text = fmt.Sprintf("%d above 1.15, the worst by slot %d with %.2f", len(p.Above), p.Above[0].Slot,
					p.Above[0].Alone)
			}
			for _, above := range p.Above {
				if nodes < 1000 && above.Factor > above.Alone*Tolerance*(1+1e-9) {
					t.Errorf("exponent %.1f, %d nodes: %+v", exponent, nodes, above)
				}
			}
			t.Logf("exponent %.1f, %4d nodes: largest factors of pages %.2f to %.2f, waiting %.2f to %.2f, known "+
				"%.2f to %.2f; %4d slots move with %4.1f %% of the known URLs; %s", exponent, nodes, b.Pages, a.Pages,
				b.Waiting, a.Waiting, b.Known, a.Known, slots, 100*float64(known)/float64(total), text)
			after := *table
			for slot, owner := range p.Owners {
				after.owners[slot] = uint16(owner)
			}
			p, err = Balance(&after, dividedLoads(p, loads, nodes), equal(nodes), nil)
			must(t, err)
			a = highest(p.After)
			t.Logf("  with the large slots divided by host: pages %.2f, waiting %.2f, known %.2f; %d are still large",
				a.Pages, a.Waiting, a.Known, len(p.Large))
			if a.Pages > Tolerance*1.001 && nodes < 1000 {
				t.Errorf("exponent %.1f, %d nodes: %.2f times the mean of the pages", exponent, nodes, a.Pages)
			}
		}
	}
}

// dividedLoads returns the loads after the hosts of the large slots of a plan were divided evenly among nodes: the
// owner keeps the known URLs.
func dividedLoads(p *Plan, loads []Load, nodes int) []Load {
	all := append(slices.Clone(loads), make([]Load, nodes)...)
	for _, l := range p.Large {
		part := Load{Pages: loads[l.Slot].Pages / int64(nodes), Waiting: loads[l.Slot].Waiting / int64(nodes)}
		all[l.Slot] = Load{Known: loads[l.Slot].Known}
		for node := range nodes {
			all[Slots+node].Add(part)
		}
	}
	return all
}

// TestBalanceJoinLeave: a node that joins gets its share, from all others; one that leaves keeps nothing.
func TestBalanceJoinLeave(t *testing.T) {
	for _, exponent := range []float64{1.2, 2} {
		for _, nodes := range []int{1, 2, 7, 63} {
			loads := powerLaw(exponent, 2)
			for i := range loads { // without what no node can share
				loads[i].Known, loads[i].Waiting = min(loads[i].Known, 2_000_000), min(loads[i].Waiting, 1_000_000)
			}
			table, err := NewTable(equal(nodes))
			must(t, err)
			if table, err = ParseTable(nodes+1, table.appendOwners(nil)); err != nil {
				t.Fatal(err)
			}
			weights := equal(nodes + 1)
			p, err := Join(table, loads, weights, nil, nodes)
			must(t, err)
			slots := checkPlan(t, table, p, loads, weights, nil)
			checkNotWorse(t, p)
			f := p.After[nodes]
			t.Logf("exponent %.1f: node %d joins with %d slots of %d nodes: %+v; the largest factors of all were %+v "+
				"and become %+v", exponent, nodes, slots, len(p.Moves), f, highest(p.Before), highest(p.After))
			if min(f.Pages, f.Waiting, f.Known) < 0.9 || f.Max() > joinMost {
				t.Errorf("node %d joins with %+v", nodes, f)
			}
			owners := table.appendOwners(nil)[:0]
			for _, owner := range p.Owners {
				owners = append(owners, byte(owner), byte(owner>>8))
			}
			table, err = ParseTable(nodes+1, owners)
			must(t, err)
			p, err = Leave(table, loads, weights, nil, 0)
			must(t, err)
			slots = checkPlan(t, table, p, loads, weights[:nodes+1], nil)
			checkNotWorse(t, p) // by the shares without node 0
			if slots != table.Share(0) || slices.Contains(p.Owners, 0) {
				t.Errorf("node 0 of %d leaves with %d of %d slots", nodes+1, slots, table.Share(0))
			}
		}
	}
	table, err := ParseTable(5, func() (owners []byte) {
		for slot := range Slots {
			owners = append(owners, byte(slot%4), 0)
		}
		return owners
	}())
	must(t, err)
	loads := make([]Load, Slots)
	for i := range loads {
		loads[i] = Load{Pages: 100, Known: 1000, Waiting: 500}
	}
	p, err := Join(table, loads, equal(5), nil, 4)
	must(t, err)
	if slots := checkPlan(t, table, p, loads, equal(5), nil); slots < 819 || slots > 843 || len(p.Moves) != 4 ||
		highest(p.After).Max() > joinMost {
		t.Errorf("a node joins equal nodes with %d slots of %d nodes: %+v", slots, len(p.Moves), p.After)
	}
	if table, err = NewTable(equal(2)); err != nil {
		t.Fatal(err)
	}
	for _, node := range []int{-1, 1, 2} {
		if _, err := Join(table, loads, []float64{1, 0}, nil, node); err == nil {
			t.Errorf("node %d joins without a share", node)
		}
		if _, err := Leave(table, loads, []float64{1, 1}, []bool{true, false}, node); err == nil {
			t.Errorf("node %d leaves, but is no member", node)
		}
	}
	if _, err := Leave(table, loads, []float64{1, 0}, nil, 0); err == nil {
		t.Error("the last node leaves")
	}
}

// TestBalanceProperties: random tables, loads, weights and members.
func TestBalanceProperties(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		nodes := 1 + rng.IntN(12)
		owners, loads := make([]byte, 0, 2*Slots), make([]Load, Slots)
		few := 1 + rng.IntN(nodes) // owners of all slots
		for slot := range loads {
			owners = append(owners, byte(rng.IntN(few)), 0)
			if rng.IntN(4) > 0 {
				x := math.Pow(rng.Float64(), -rng.Float64()*2)
				loads[slot] = Load{Pages: int64(x * 100 * rng.Float64()), Known: int64(x * 1000),
					Waiting: int64(x*rng.Float64()*1000) - 5}
			}
		}
		if seed%10 == 0 {
			clear(loads)
		}
		table, err := ParseTable(nodes, owners)
		must(t, err)
		weights, members := equal(nodes), []bool(nil)
		for node := range weights {
			weights[node] = 0.5 + rng.Float64()*float64(rng.IntN(3))
		}
		gives := seed%3 == 0 && nodes > 1
		if gives {
			weights[rng.IntN(nodes)] = 0
		}
		if seed%4 == 0 && nodes > 2 {
			members = make([]bool, nodes)
			for node := range members {
				members[node] = rng.IntN(4) > 0
			}
		}
		p, err := Balance(table, loads, weights, members)
		if err != nil { // all weights of members are 0
			if members == nil {
				t.Fatal(err)
			}
			continue
		}
		checkPlan(t, table, p, loads, weights, members)
		if !gives {
			checkNotWorse(t, p)
		}
		for slot, owner := range p.Owners {
			if weights[owner] == 0 && (members == nil || members[owner]) {
				t.Fatalf("seed %d: node %d of weight 0 keeps slot %d", seed, owner, slot)
			}
		}
		again, err := Balance(table, loads, weights, members)
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d: two plans differ: %v", seed, err)
		}
		if seed%10 == 0 && members == nil && len(p.Above) > 0 { // by slots, which are equal
			t.Errorf("seed %d: without loads: %+v", seed, p.Above)
		}
		next := make([]byte, 0, 2*Slots)
		for _, owner := range p.Owners {
			next = append(next, byte(owner), byte(owner>>8))
		}
		after, err := ParseTable(nodes, next)
		must(t, err)
		if p, err = Balance(after, loads, weights, members); err != nil || len(p.Above) == 0 && len(p.Moves) > 0 {
			t.Errorf("seed %d: a second plan after the first moves %d slots, %v", seed,
				checkPlan(t, after, p, loads, weights, members), err)
		}
	}
}

// TestLoadsOf: the owner's loads count, or those of another node if the owner has none.
func TestLoadsOf(t *testing.T) {
	table, err := ParseTable(3, make([]byte, 2*Slots)) // all of node 0
	must(t, err)
	a, b := &NodeLoads{Node: 0}, &NodeLoads{Node: 2}
	a.Loads.Slots[5], b.Loads.Slots[5], b.Loads.Slots[6] = Load{Pages: 1}, Load{Pages: 2}, Load{Pages: 3}
	for _, values := range [][]*NodeLoads{{a, nil, b}, {b, a}} {
		if got := LoadsOf(table, values); got[5].Pages != 1 || got[6].Pages != 3 || got[7] != (Load{}) {
			t.Errorf("%+v", got[5:8])
		}
	}
}

// TestLargeSlots: a slot with more than a node's share is large, and has the name of the PLD that its node tells. Once
// the PLD is divided, what other nodes have of its hosts counts as theirs, and the plan gives them fewer slots.
func TestLargeSlots(t *testing.T) {
	table, err := NewTable(equal(4))
	must(t, err)
	values := make([]*NodeLoads, 4)
	slot := 7
	owner := table.OwnerOf(slot)
	for node := range values {
		values[node] = &NodeLoads{Node: node, Heavy: []Heavy{{PLD: fmt.Sprintf("n%d.example", node), Slot: slot,
			Responses: 1}}}
	}
	for at := range Slots {
		values[table.OwnerOf(at)].Loads.Slots[at] = Load{Pages: 10, Known: 100, Waiting: 50}
	}
	values[owner].Loads.Slots[slot] = Load{Pages: 50_000, Known: 600_000, Waiting: 100}
	p, err := Balance(table, LoadsOf(table, values), equal(4), nil)
	must(t, err)
	NameLarge(p.Large, values)
	if want := fmt.Sprintf("n%d.example", owner); len(p.Large) != 1 || p.Large[0].Slot != slot ||
		p.Large[0].Measure != MeasurePages || p.Large[0].PLD != want {
		t.Fatalf("large slots %+v, want slot %d by %s", p.Large, slot, want)
	}
	parts := EvenParts([]int{0, 1, 2, 3})
	next, err := table.Divide("huge.example", slot, &parts)
	must(t, err)
	visitor := (owner + 1) % 4
	values[owner].Loads.Slots[slot].Pages, values[visitor].Loads.Slots[slot].Pages = 10, 5000
	loads := LoadsOf(next, values)
	if loads[slot].Pages != 10 || loads[Slots+visitor].Pages != 5000 || loads[Slots+owner].Pages != 0 {
		t.Errorf("%d pages of the slot, %+v of hosts of other owners", loads[slot].Pages, loads[Slots:])
	}
	p, err = Balance(next, loads, equal(4), nil)
	must(t, err)
	if len(p.Large) > 0 || p.Before[visitor].Pages < 1.2 || p.After[visitor].Pages > Tolerance ||
		!slices.ContainsFunc(p.Moves, func(m Move) bool { return m.From == visitor }) {
		t.Errorf("large %+v, before %+v, after %+v, moves %d", p.Large, p.Before, p.After, len(p.Moves))
	}
}

// TestFewLoadsOfHosts: while there is nothing to measure, the plan divides slots, whatever the visitors of divided
// PLDs have.
func TestFewLoadsOfHosts(t *testing.T) {
	table, err := NewTable(equal(4))
	must(t, err)
	loads := make([]Load, Slots+4)
	loads[Slots+1].Pages = 50
	p, err := Balance(table, loads, equal(4), nil)
	must(t, err)
	for node, f := range p.Before {
		if len(p.Moves) > 0 || f.Slots != 1 || f.Pages != 0 {
			t.Errorf("node %d: %+v, %d moves", node, f, len(p.Moves))
		}
	}
}

// TestWeightedParts: parts are those of the weights, to within one part.
func TestWeightedParts(t *testing.T) {
	p := WeightedParts([]float64{2, 1, 0, 1}, []int{0, 1, 2, 3})
	for node, want := range []float64{0.5, 0.25, 0, 0.25} {
		if got := p.Share(node); math.Abs(got-want) > 1.0/DividedParts {
			t.Errorf("node %d has %v of the parts, want %v", node, got, want)
		}
	}
}
