package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Measure is one of the loads that Balance divides among nodes.
type Measure int

// The measures. MeasureSlots stands in for all others while there is nothing to measure.
const (
	MeasurePages Measure = iota // the work so far: hosts that were fast stay fast
	MeasureWaiting
	MeasureKnown // the size of a node's files
	numMeasures
	MeasureSlots = numMeasures
)

func (m Measure) String() string {
	return [...]string{"pages", "waiting URLs", "known URLs", "slots"}[m]
}

// measureNames are those in JSON.
var measureNames = []string{"pages", "waiting", "known", "slots"}

// MarshalText implements encoding.TextMarshaler.
func (m Measure) MarshalText() ([]byte, error) { return []byte(measureNames[m]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Measure) UnmarshalText(text []byte) error {
	i := slices.Index(measureNames, string(text))
	if i < 0 {
		return fmt.Errorf("cluster: measure %.40q", text)
	}
	*m = Measure(i)
	return nil
}

// Factors are the loads of a node, as multiples of its share. That of a measure that does not count is 0, as are all of
// a node without a share.
type Factors struct {
	Pages   float64 `json:"pages"`
	Waiting float64 `json:"waiting"`
	Known   float64 `json:"known"`
	Slots   float64 `json:"slots,omitempty"` // only while there is nothing to measure
}

// Max returns the largest one.
func (f Factors) Max() float64 { return max(f.Pages, f.Waiting, f.Known, f.Slots) }

// Move is a set of slots that one node gives to another.
type Move struct {
	From  int   `json:"from"`
	To    int   `json:"to"`
	Slots []int `json:"slots"` // ascending
	Known int64 `json:"known"` // unique URLs of these slots, which are to be copied
}

// Above is a node that stays above Tolerance times its share.
type Above struct {
	Node    int     `json:"node"`
	Measure Measure `json:"measure"` // the one with the largest factor
	Factor  float64 `json:"factor"`
	// Its largest slot, and the factor of that alone. If it is above 1, it is the reason.
	Slot  int     `json:"slot"`
	Alone float64 `json:"alone"`
}

// Large is a slot that is too large for its node.
type Large struct {
	Slot    int     `json:"slot"`
	Node    int     `json:"node"`
	Measure Measure `json:"measure"`
	Factor  float64 `json:"factor"`        // of the node's share
	PLD     string  `json:"pld,omitempty"` // with the most responses of the slot, if its node has told one
}

// Plan is what Balance, Join and Leave propose. Slices by node have an element for each node of the table.
type Plan struct {
	Moves  []Move    `json:"moves"`  // by From and To, each pair once
	Before []Factors `json:"before"` // by node
	After  []Factors `json:"after"`  // by node
	Above  []Above   `json:"above"`  // nodes above Tolerance after the moves, the largest factor first
	// Large lists the slots that alone have more pages or waiting URLs than the share of a node, probably by one PLD:
	// it can be divided.
	Large  []Large `json:"large,omitempty"`
	Owners []int   `json:"-"` // of each slot, after the moves
}

// Tolerance is the largest factor by which the loads of a node may be above or below its share.
const Tolerance = 1.15

const (
	// leastPerNode is the least mean of a measure by node. Below, chance decides.
	leastPerNode = 100
	// slotCost is the cost of a move of one slot without URLs, as a part of the mean slot: fewer slots are better.
	slotCost = 0.1
	// Limits of the search for two slots to exchange, which is for clusters with few slots a node.
	swapSlots, swapNodes = 64, 16
)

// Loads of the cluster, for plans.
type divided struct {
	nodes   int
	share   []float64 // by node; the sum is 1. 0: it gets nothing
	member  []bool
	measure []Measure // those that count
	part    [Slots][numMeasures]float64
	cost    [Slots]float64
	known   [Slots]int64
	home    [Slots]int // owner before the moves
	owner   [Slots]int
	slots   [][]int                // by node
	load    [][numMeasures]float64 // by node
	largest [][numMeasures]float64 // by node: of one slot
	before  []Factors
	most    [numMeasures]float64 // the largest factors before the moves, at least Tolerance
}

// divide prepares a plan.
func divide(t *Table, loads []Load, weights []float64, members []bool) (*divided, error) {
	n := t.Nodes()
	if len(loads) != Slots && len(loads) != Slots+n || len(weights) != n || members != nil && len(members) != n {
		return nil, fmt.Errorf("cluster: a plan for %d slots, %d weights and %d members of %d nodes", len(loads),
			len(weights), len(members), n)
	}
	d := &divided{nodes: n, share: make([]float64, n), member: make([]bool, n), slots: make([][]int, n),
		load: make([][numMeasures]float64, n), largest: make([][numMeasures]float64, n)}
	largest, sum, count := 0.0, 0.0, 0
	for node, w := range weights {
		d.member[node] = members == nil || members[node]
		if !(w >= 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("cluster: node %d has the weight %v, want 0 or more", node, w)
		}
		if d.member[node] {
			largest = max(largest, w)
		}
	}
	if largest == 0 {
		return nil, errors.New("cluster: no node has a weight above 0")
	}
	for node, w := range weights {
		if d.member[node] && w > 0 {
			d.share[node] = w / largest
			sum += d.share[node]
			count++
		}
	}
	for node := range d.share {
		d.share[node] /= sum
	}
	d.count(t, loads, count)
	d.before = d.factors()
	for _, k := range d.measure {
		d.most[k.at()] = Tolerance
		for node := range n {
			d.most[k.at()] = max(d.most[k.at()], d.factor(node, k))
		}
	}
	return d, nil
}

// count sets the parts of all slots. nodes have a share.
func (d *divided) count(t *Table, loads []Load, nodes int) {
	counts := func(l *Load) [numMeasures]int64 {
		return [numMeasures]int64{MeasurePages: max(l.Pages, 0), MeasureWaiting: max(l.Waiting, 0),
			MeasureKnown: max(l.Known, 0)}
	}
	var total [numMeasures]float64
	own := 0                               // slots of members
	for node := range len(loads) - Slots { // hosts of other owners stay where they are
		for k, n := range counts(&loads[Slots+node]) {
			if d.member[node] {
				total[k] += float64(n)
			}
		}
	}
	for slot := range Slots {
		if !d.member[t.OwnerOf(slot)] {
			continue
		}
		own++
		for k, n := range counts(&loads[slot]) {
			total[k] += float64(n)
		}
	}
	for k, n := range total {
		if n >= leastPerNode*float64(nodes) {
			d.measure = append(d.measure, Measure(k))
		}
	}
	if len(d.measure) == 0 {
		d.measure = []Measure{MeasureSlots}
	}
	for node := range len(loads) - Slots {
		n := counts(&loads[Slots+node])
		for _, k := range d.measure {
			if k != MeasureSlots && d.member[node] {
				d.load[node][k.at()] += float64(n[k]) / total[k]
			}
		}
	}
	for slot := range Slots {
		node := t.OwnerOf(slot)
		d.home[slot], d.owner[slot] = node, node
		d.slots[node] = append(d.slots[node], slot)
		if !d.member[node] {
			continue
		}
		d.known[slot] = loads[slot].Known
		n := counts(&loads[slot])
		for _, k := range d.measure {
			part := 1 / float64(own)
			if k != MeasureSlots {
				part = float64(n[k]) / total[k]
			}
			d.part[slot][k.at()] = part
			d.load[node][k.at()] += part
			d.largest[node][k.at()] = max(d.largest[node][k.at()], part)
		}
		d.cost[slot] = slotCost / float64(own)
		if total[MeasureKnown] > 0 {
			d.cost[slot] += float64(n[MeasureKnown]) / total[MeasureKnown]
		}
	}
}

// at returns the index of a measure: MeasureSlots has that of the first one, since it is alone.
func (m Measure) at() int { return int(m % numMeasures) }

// factor returns the load of a node as a multiple of its share; 0 without a share.
func (d *divided) factor(node int, k Measure) float64 { return d.with(node, k, 0) }

// with is factor after a change of the load.
func (d *divided) with(node int, k Measure, change float64) float64 {
	if d.share[node] == 0 {
		return 0
	}
	return (d.load[node][k.at()] + change) / d.share[node]
}

// highest returns the largest factor of a node over all measures.
func (d *divided) highest(node int) (f float64) {
	for _, k := range d.measure {
		f = max(f, d.factor(node, k))
	}
	return f
}

// alone returns the largest factor that one slot of a node has alone; 0 without a share.
func (d *divided) alone(node int, k Measure) float64 {
	if d.share[node] == 0 {
		return 0
	}
	return d.largest[node][k.at()] / d.share[node]
}

// limitAbove returns the factor that a node, whose largest slot has the factor alone, should not exceed. A node with a
// slot above its share gets no further slots, but need not give all others away: that would cost much, and help little.
func limitAbove(alone float64) float64 { return Tolerance * max(1, alone) }

// limitsBelow returns the factors below which no node should be: nodes with a slot that is too large alone leave less
// for the others.
func (d *divided) limitsBelow() (limits [numMeasures]float64) {
	for _, k := range d.measure {
		rest, share := 1.0, 0.0
		for node := range d.nodes {
			if d.alone(node, k) > 1 {
				rest -= d.load[node][k.at()]
			} else {
				share += d.share[node]
			}
		}
		if share > 0 {
			limits[k.at()] = max(0, rest) / share / Tolerance
		}
	}
	return limits
}

// gain returns by how much a move of a load lowers the sum of squares of all factors, each by the share of its node.
// The node from may lack a share.
func (d *divided) gain(part *[numMeasures]float64, from, to int) (sum float64) {
	for _, k := range d.measure {
		x := part[k.at()]
		if d.share[from] > 0 {
			sum += (2*d.load[from][k.at()] - x) * x / d.share[from]
		}
		sum -= (2*d.load[to][k.at()] + x) * x / d.share[to]
	}
	return sum
}

// leastGain is the least gain of a move: rounding must not let slots move to and fro.
const leastGain = 1e-12

// move gives a slot to a node.
func (d *divided) move(slot, to int) {
	from := d.owner[slot]
	at := slices.Index(d.slots[from], slot)
	d.slots[from] = slices.Delete(d.slots[from], at, at+1)
	d.slots[to] = append(d.slots[to], slot)
	d.owner[slot] = to
	for _, k := range d.measure {
		i, x := k.at(), d.part[slot][k.at()]
		d.load[from][i] -= x
		d.load[to][i] += x
		d.largest[to][i] = max(d.largest[to][i], x)
		if x == d.largest[from][i] {
			d.largest[from][i] = 0
			for _, other := range d.slots[from] {
				d.largest[from][i] = max(d.largest[from][i], d.part[other][i])
			}
		}
	}
}

// receivers returns the nodes with a share but one, those with the lowest largest factor first.
func (d *divided) receivers(but int) (list []int) {
	high := make([]float64, d.nodes)
	for node := range d.nodes {
		if high[node] = d.highest(node); d.share[node] > 0 && node != but {
			list = append(list, node)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(high[a], high[b]) })
	return list
}

// factors returns the present factors of all nodes.
func (d *divided) factors() []Factors {
	all := make([]Factors, d.nodes)
	for node := range all {
		f := &all[node]
		for _, k := range d.measure {
			at := [...]*float64{&f.Pages, &f.Waiting, &f.Known, &f.Slots}[k]
			*at = d.factor(node, k)
		}
	}
	return all
}

// plan returns the result.
func (d *divided) plan() *Plan {
	p := &Plan{Moves: []Move{}, Before: d.before, After: d.factors(), Above: d.tooHigh(), Large: d.large(),
		Owners: d.owner[:]}
	pairs := map[[2]int]int{}
	for slot, to := range d.owner {
		from := d.home[slot]
		if from == to {
			continue
		}
		at, ok := pairs[[2]int{from, to}]
		if !ok {
			at = len(p.Moves)
			pairs[[2]int{from, to}] = at
			p.Moves = append(p.Moves, Move{From: from, To: to})
		}
		m := &p.Moves[at]
		m.Slots, m.Known = append(m.Slots, slot), m.Known+max(0, d.known[slot])
	}
	slices.SortFunc(p.Moves, func(a, b Move) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	return p
}

// large returns the slots that are too large for their nodes.
func (d *divided) large() (list []Large) {
	for slot, node := range d.owner {
		l := Large{Slot: slot, Node: node}
		for _, k := range d.measure {
			if k != MeasurePages && k != MeasureWaiting || d.share[node] == 0 {
				continue
			}
			if f := d.part[slot][k.at()] / d.share[node]; f > max(1, l.Factor) {
				l.Measure, l.Factor = k, f
			}
		}
		if l.Factor > 0 {
			list = append(list, l)
		}
	}
	return list
}

// tooHigh returns the nodes above Tolerance, the largest factor first.
func (d *divided) tooHigh() []Above {
	list := []Above{}
	for node := range d.nodes {
		a := Above{Node: node, Factor: Tolerance}
		for _, k := range d.measure {
			if f := d.factor(node, k); f > a.Factor*(1+leastGain) {
				a.Measure, a.Factor = k, f
			}
		}
		if a.Factor == Tolerance {
			continue
		}
		for _, slot := range d.slots[node] {
			if f := d.part[slot][a.Measure.at()] / d.share[node]; f > a.Alone || f == a.Alone && slot < a.Slot {
				a.Slot, a.Alone = slot, f
			}
		}
		list = append(list, a)
	}
	slices.SortStableFunc(list, func(a, b Above) int { return cmp.Compare(b.Factor, a.Factor) })
	return list
}
