package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Balance proposes moves of slots after which pages, waiting URLs and known URLs of each node are within Tolerance of
// its share, or of what one slot alone has if that is more. It moves few known URLs, since these are to be copied: it
// takes what a node has above its share, slot by slot, gives it to the node with the least load, and then fills the
// nodes that are below theirs. No measure gets a larger factor than the largest one before, or Tolerance if that is
// more.
//
// loads are those of LoadsOf, weights has an element for each node: its share of all weights. A node of weight 0 gets
// nothing and gives all. Nodes that are not members keep their slots, which do not count; nil: all are. Equal arguments
// give equal plans. A plan for 1,000 nodes takes some seconds at most.
func Balance(t *Table, loads []Load, weights []float64, members []bool) (*Plan, error) {
	d, err := divide(t, loads, weights, members)
	if err != nil {
		return nil, err
	}
	for node := range d.nodes {
		if d.member[node] && d.share[node] == 0 {
			d.give(node)
		}
	}
	d.untilStuck(d.above, d.relieve)
	d.untilStuck(d.below, d.fill)
	d.undo()
	return d.plan(), nil
}

// joinMost is the largest factor that a node gets when it joins. It is above 1, since a slot has all measures: at 1,
// the first measure that is full would keep out the others.
const joinMost = 1.03

// Join proposes moves that give a node its share: those slots that bring it nearest to its share in all measures, and
// take most from the nodes with the largest loads.
func Join(t *Table, loads []Load, weights []float64, members []bool, node int) (*Plan, error) {
	d, err := divide(t, loads, weights, members)
	if err != nil {
		return nil, err
	}
	if node < 0 || node >= d.nodes || d.share[node] == 0 {
		return nil, fmt.Errorf("cluster: node %d cannot join: it has no share", node)
	}
	d.grow(node)
	for range joinSteps {
		if !d.refine(node) {
			break
		}
		d.grow(node)
	}
	return d.plan(), nil
}

// joinSteps bounds the exchanges for a node that joins, joinSlots the slots that are tried for one.
const joinSteps, joinSlots = 64, 256

// grow moves slots to a node that joins while this gains.
func (d *divided) grow(node int) {
	for {
		best, gain := -1, leastGain
		for slot, from := range d.owner {
			if from == node || !d.member[from] || !d.fits(slot, node, joinMost) {
				continue
			}
			if g := d.gain(&d.part[slot], from, node); g > gain {
				best, gain = slot, g
			}
		}
		if best < 0 {
			return
		}
		d.move(best, node)
	}
}

// refine returns a slot of a node that joins, and takes another one that has more of the measure that the node lacks
// most. It returns false if no exchange brings the node nearer to its share.
func (d *divided) refine(node int) bool {
	lacks := slices.MinFunc(d.measure, func(a, b Measure) int {
		return cmp.Compare(d.factor(node, a), d.factor(node, b))
	})
	rich := func(slot int) (x float64) { // in what it lacks, compared with the rest
		for _, k := range d.measure {
			x = max(x, d.part[slot][k.at()])
		}
		return 2*d.part[slot][lacks.at()] - x
	}
	var own, others []int
	for slot, owner := range d.owner {
		if owner == node && d.home[slot] != node {
			own = append(own, slot)
		} else if owner != node && d.member[owner] {
			others = append(others, slot)
		}
	}
	own = top(own, joinSlots, func(slot int) float64 { return -rich(slot) })
	others = top(others, joinSlots, rich)
	bestA, bestB, least := -1, -1, d.distance(node, new([numMeasures]float64))-leastGain
	for _, a := range own {
		for _, b := range others {
			var part [numMeasures]float64
			for i := range part {
				part[i] = d.part[b][i] - d.part[a][i]
			}
			if x := d.distance(node, &part); x < least {
				bestA, bestB, least = a, b, x
			}
		}
	}
	if bestA < 0 {
		return false
	}
	d.move(bestA, d.home[bestA])
	d.move(bestB, node)
	return true
}

// distance returns the sum of the squares by which the factors of a node differ from 1 after a change of its load; +Inf
// if one would be above joinMost.
func (d *divided) distance(node int, part *[numMeasures]float64) (sum float64) {
	for _, k := range d.measure {
		f := d.with(node, k, part[k.at()])
		if f > joinMost {
			return math.Inf(1)
		}
		sum += (f - 1) * (f - 1)
	}
	return sum
}

// top returns some slots of a list, those with the largest values; it changes the list.
func top(list []int, most int, value func(slot int) float64) []int {
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(value(b), value(a)), a-b) })
	return list[:min(len(list), most)]
}

// Leave proposes moves that give all slots of a node to the others, each to the node with the least load for its share.
func Leave(t *Table, loads []Load, weights []float64, members []bool, node int) (*Plan, error) {
	weights = slices.Clone(weights)
	if node < 0 || node >= len(weights) || members != nil && node < len(members) && !members[node] {
		return nil, fmt.Errorf("cluster: node %d cannot leave: it is no member", node)
	}
	weights[node] = 0
	d, err := divide(t, loads, weights, members)
	if err != nil {
		return nil, err
	}
	d.give(node)
	return d.plan(), nil
}

// give gives all slots of a node to those with a share, the largest first.
func (d *divided) give(node int) {
	size := func(slot int) (x float64) {
		for _, k := range d.measure {
			x = max(x, d.part[slot][k.at()])
		}
		return x
	}
	list := slices.Clone(d.slots[node])
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	for _, slot := range list {
		best, gain := -1, 0.0
		for to := range d.nodes {
			if d.share[to] == 0 || to == node {
				continue
			}
			if g := d.gain(&d.part[slot], node, to); best < 0 || g > gain {
				best, gain = to, g
			}
		}
		d.move(slot, best)
	}
}

// fits reports whether no factor of a node would exceed most with a further slot.
func (d *divided) fits(slot, to int, most float64) bool {
	for _, k := range d.measure {
		if x := d.part[slot][k.at()]; x > 0 && d.with(to, k, x) > most {
			return false
		}
	}
	return true
}

// trouble is a node outside of its limits.
type trouble struct {
	node   int
	k      Measure
	excess float64 // part of the total by which it is above or below
	rank   float64 // the highest is the worst
}

// untilStuck calls ease with the worst trouble that find returns, until ease can do nothing more about any of them.
// Almost every step lowers the sum of squares; the number of steps is bounded, too. A trouble that ease could not
// lessen gets another try once nothing else is left, since others may have made room.
func (d *divided) untilStuck(find func() []trouble, ease func(trouble) bool) {
	stuck := map[[2]int]bool{}
	since := false // ease did something since stuck was empty
	for range 4 * Slots {
		list := slices.DeleteFunc(find(), func(t trouble) bool { return stuck[[2]int{t.node, t.k.at()}] })
		if len(list) == 0 {
			if !since || len(stuck) == 0 {
				return
			}
			clear(stuck)
			since = false
			continue
		}
		worst := slices.MaxFunc(list, func(a, b trouble) int { return cmp.Compare(a.rank, b.rank) })
		if ease(worst) {
			since = true
		} else {
			stuck[[2]int{worst.node, worst.k.at()}] = true
		}
	}
}

// above returns the nodes above their limits.
func (d *divided) above() (list []trouble) {
	for node := range d.nodes {
		if d.share[node] == 0 {
			continue
		}
		for _, k := range d.measure {
			f, limit := d.factor(node, k), limitAbove(d.alone(node, k))
			if f > limit*(1+leastGain) {
				list = append(list, trouble{node, k, (f - limit) * d.share[node], f / limit})
			}
		}
	}
	return list
}

// below returns the nodes below their limits.
func (d *divided) below() (list []trouble) {
	limits := d.limitsBelow()
	for _, k := range d.measure {
		limit := limits[k.at()]
		for node := range d.nodes {
			if f := d.factor(node, k); d.share[node] > 0 && f < limit*(1-leastGain) {
				list = append(list, trouble{node, k, (limit - f) * d.share[node], limit - f})
			}
		}
	}
	return list
}

// worth returns what a move of a slot brings against a trouble, for its cost.
func (d *divided) worth(slot int, t trouble) float64 {
	return min(d.part[slot][t.k.at()], t.excess) / d.cost[slot]
}

// relieve moves a slot away from a node that is above its limit. It returns false if nothing helps.
func (d *divided) relieve(t trouble) bool {
	receivers := d.receivers(t.node)
	for _, to := range receivers {
		best, worth := -1, 0.0
		for _, slot := range d.slots[t.node] {
			w := d.worth(slot, t)
			if w > worth && (d.fits(slot, to, Tolerance) || d.bearable(slot, to) &&
				d.gain(&d.part[slot], t.node, to) > leastGain) {
				best, worth = slot, w
			}
		}
		if best >= 0 {
			d.move(best, to)
			return true
		}
	}
	return d.exchange(t, receivers[:min(len(receivers), swapNodes)])
}

// bearable reports whether a node may get a slot: no factor exceeds Tolerance, or that of the node that gives it.
func (d *divided) bearable(slot, to int) bool {
	from := d.owner[slot]
	for _, k := range d.measure {
		x := d.part[slot][k.at()]
		if x > 0 && d.with(to, k, x) > max(Tolerance, d.factor(from, k)) {
			return false
		}
	}
	return true
}

// exchange exchanges a slot of a node that is above its limit for one that has less of this measure, and perhaps more
// of others. The best exchange gains most for all measures.
func (d *divided) exchange(t trouble, receivers []int) bool {
	large := top(slices.Clone(d.slots[t.node]), swapSlots, func(slot int) float64 { return d.part[slot][t.k.at()] })
	bestA, bestB, gain := -1, -1, 0.0
	for _, to := range receivers {
		small := top(slices.Clone(d.slots[to]), swapSlots, func(slot int) (x float64) {
			for _, k := range d.measure {
				x = max(x, d.part[slot][k.at()])
			}
			return x - 2*d.part[slot][t.k.at()]
		})
		for _, b := range small {
			for _, a := range large {
				var part [numMeasures]float64
				for i := range part {
					part[i] = d.part[a][i] - d.part[b][i]
				}
				if part[t.k.at()] <= leastGain {
					continue
				}
				g := d.gain(&part, t.node, to)
				if within, bearable := d.after(t.node, to, &part); !bearable || !within && g <= leastGain {
					continue
				}
				if bestA < 0 || g > gain {
					bestA, bestB, gain = a, b, g
				}
			}
		}
	}
	if bestA < 0 {
		return false
	}
	to := d.owner[bestB]
	d.move(bestA, to)
	d.move(bestB, t.node)
	return true
}

// after judges an exchange between two nodes by the difference of the parts that move: within says that the receiver
// has no factor above Tolerance then, bearable that neither has one above Tolerance and above those of both before. An
// exchange that is within, and takes more of a measure above its limit than it brings of others, is progress.
func (d *divided) after(from, to int, part *[numMeasures]float64) (within, bearable bool) {
	within, bearable = true, true
	for _, k := range d.measure {
		x, left := d.with(to, k, part[k.at()]), d.with(from, k, -part[k.at()])
		most := max(Tolerance, d.factor(from, k), d.factor(to, k))
		bearable = bearable && x <= most && left <= most
		within = within && x <= Tolerance && left <= max(Tolerance, d.factor(from, k))
	}
	return within, bearable
}

// fill moves a slot to a node that is below its limit, from one that stays above. It returns false if nothing helps.
func (d *divided) fill(t trouble) bool {
	limits := d.limitsBelow()
	var givers []int
	for node := range d.nodes {
		if node != t.node && d.share[node] > 0 && d.factor(node, t.k) > limits[t.k.at()] {
			givers = append(givers, node)
		}
	}
	slices.SortFunc(givers, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.factor(b, t.k), d.factor(a, t.k)), a-b)
	})
	for _, from := range givers {
		best, worth := -1, 0.0
		for _, slot := range d.slots[from] {
			if w := d.worth(slot, t); w > worth && d.spares(slot, &limits) && d.bearable(slot, t.node) &&
				d.gain(&d.part[slot], from, t.node) > leastGain {
				best, worth = slot, w
			}
		}
		if best >= 0 {
			d.move(best, t.node)
			return true
		}
	}
	return false
}

// spares reports whether the owner of a slot stays above its limits without it.
func (d *divided) spares(slot int, limits *[numMeasures]float64) bool {
	for _, k := range d.measure {
		x := d.part[slot][k.at()]
		if x > 0 && d.with(d.owner[slot], k, -x) < limits[k.at()] {
			return false
		}
	}
	return true
}

// undo returns slots whose move is not needed: later moves have made room.
func (d *divided) undo() {
	var moved []int
	for slot := range d.owner {
		if d.owner[slot] != d.home[slot] && d.share[d.home[slot]] > 0 {
			moved = append(moved, slot)
		}
	}
	slices.SortStableFunc(moved, func(a, b int) int { return cmp.Compare(d.cost[b], d.cost[a]) })
	for _, slot := range moved {
		limits := d.limitsBelow()
		if d.spares(slot, &limits) && d.returns(slot) {
			d.move(slot, d.home[slot])
		}
	}
}

// returns reports whether the former owner of a slot could have kept it.
func (d *divided) returns(slot int) bool {
	home := d.home[slot]
	for _, k := range d.measure {
		x := d.part[slot][k.at()]
		limit := limitAbove(max(d.alone(home, k), x/d.share[home]))
		if d.with(home, k, x) > min(limit, d.most[k.at()]) {
			return false
		}
	}
	return true
}
