package budget

import (
	"math"
	mathrand "math/rand/v2"
	"slices"
)

// The cases of Star.Measure.
const (
	caseUniform = "uniform" // all PLDs have the same in-degree, URLs are spread evenly
	casePower   = "power"   // in-degrees by a power law, URLs in proportion to them
	caseGiant   = "giant"   // likewise, and one PLD with millions of in-neighbours
	caseOneKey  = "onekey"  // 90 % of the links are the same pair, 90 % of the URLs those of one PLD
)

var starCases = []string{caseUniform, casePower, caseGiant, caseOneKey}

const (
	// powerExponent is the exponent of in-degree against rank. It gives a tail of 1 + 1/0.9 = 2.1, like the
	// in-degree of pages.
	powerExponent = 0.9
	oneKeyShare   = 0.9
)

// starWeb generates the links between PLDs of one case. PLD y ends with in-degree degrees[y]. Its
// in-neighbours are PLDs of a universe larger than any in-degree. Pairs are numbered through all PLDs; pair
// e belongs to the PLD y whose range contains e. Every pair occurs at least once. It is for one goroutine.
type starWeb struct {
	kind     string
	degrees  []uint32
	ends     []int64 // ends of the ranges of pairs: y has [ends[y-1], ends[y])
	guide    []uint32
	shift    uint  // one entry of guide covers 2^shift pairs
	pairs    int64 // E
	links    int64 // links to make, with repeats
	universe uint64
	step     uint64 // between in-neighbours; coprime to universe
	stride   int64  // between new pairs; coprime to pairs

	rng   *mathrand.Rand
	made  int64
	fresh int64    // pairs made so far
	at    int64    // the last new pair
	seen  []uint32 // in-degrees so far: the truth
}

// newStarWeb makes the links of a case. Each pair occurs 1/unique times on average.
func newStarWeb(o *Star, kind string, seed uint64) *starWeb {
	w := &starWeb{kind: kind, degrees: make([]uint32, o.PLDs), rng: mathrand.New(mathrand.NewPCG(seed, 5)),
		seen: make([]uint32, o.PLDs)}
	mean := max(1, uint32(o.Edges/int64(o.PLDs)))
	for y := range w.degrees {
		w.degrees[y] = mean
	}
	w.links = int64(float64(mean) * float64(o.PLDs) / o.Unique)
	switch kind {
	case casePower, caseGiant:
		w.powerLaw(o.Edges)
	case caseOneKey:
		// A tenth of the links are spread over all PLDs: one to each PLD per round.
		d := max(1, uint32(float64(w.links)*(1-oneKeyShare)/float64(o.PLDs)))
		for y := range w.degrees {
			w.degrees[y] = d
		}
		w.links = int64(float64(d) * float64(o.PLDs) / (1 - oneKeyShare))
	}
	if kind == caseGiant {
		w.degrees[0] = uint32(o.Neighbours)
	}
	w.ends = make([]int64, o.PLDs)
	for y, d := range w.degrees {
		w.pairs += int64(d)
		w.ends[y] = w.pairs
	}
	if kind == casePower || kind == caseGiant {
		w.links = int64(float64(w.pairs) / o.Unique)
	}
	w.universe = coprime(4*uint64(max(slices.Max(w.degrees), uint32(o.PLDs))), 2)
	w.step = coprime(uint64(float64(w.universe)*0.381966), w.universe)
	w.stride = int64(coprime(uint64(float64(w.pairs)*0.618034), uint64(w.pairs)))
	w.makeGuide()
	return w
}

// powerLaw gives PLD y the in-degree C·(y+1)^-powerExponent, at least 1. Their sum is edges or slightly more.
func (w *starWeb) powerLaw(edges int64) {
	sum := 0.0
	for y := range w.degrees {
		sum += math.Pow(float64(y+1), -powerExponent)
	}
	c := float64(edges) / sum
	for y := range w.degrees {
		w.degrees[y] = max(1, uint32(c*math.Pow(float64(y+1), -powerExponent)))
	}
}

// coprime returns the least number from n on that is coprime to m.
func coprime(n, m uint64) uint64 {
	for n = max(n, 1); ; n++ {
		a, b := n, m
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return n
		}
	}
}

// makeGuide stores the PLD of the first of every 2^shift pairs, to shorten the search.
func (w *starWeb) makeGuide() {
	for w.pairs>>w.shift > int64(len(w.ends)) {
		w.shift++
	}
	y := 0
	for e := int64(0); e < w.pairs; e += 1 << w.shift {
		for w.ends[y] <= e {
			y++
		}
		w.guide = append(w.guide, uint32(y))
	}
	w.guide = append(w.guide, uint32(len(w.ends)-1))
}

// pld returns the PLD to which pair e leads.
func (w *starWeb) pld(e int64) uint32 {
	lo, hi := w.guide[e>>w.shift], w.guide[e>>w.shift+1]
	for lo < hi {
		if mid := (lo + hi) / 2; w.ends[mid] <= e {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// pair returns the two PLD numbers of pair e.
func (w *starWeb) pair(e int64) (from uint64, to uint32) {
	to = w.pld(e)
	i := uint64(w.ends[to] - e) // from 1 to the in-degree
	return (uint64(to) + i*w.step) % w.universe, to
}

// next returns one link. New pairs are spread evenly among repeats.
func (w *starWeb) next() (from uint64, to uint32) {
	w.made++
	if w.fresh < w.pairs && w.fresh*w.links < w.made*w.pairs {
		w.fresh++
		if w.at += w.stride; w.at >= w.pairs {
			w.at -= w.pairs
		}
		from, to = w.pair(w.at)
		w.seen[to]++
		return from, to
	}
	if w.kind == caseOneKey {
		return w.pair(w.stride % w.pairs) // the first pair made
	}
	return w.pair(int64(w.rng.Uint64N(uint64(w.pairs))))
}

// url returns the PLD of one URL to check.
func (w *starWeb) url() uint32 {
	switch w.kind {
	case caseUniform:
		return w.rng.Uint32N(uint32(len(w.degrees)))
	case caseOneKey:
		if w.rng.Float64() < oneKeyShare {
			return 0
		}
		return w.rng.Uint32N(uint32(len(w.degrees)))
	}
	return w.pld(int64(w.rng.Uint64N(uint64(w.pairs))))
}

// budgets computes the paper's F from the counted in-degrees. The K = V/100 (at most 10,000) PLDs of the
// highest ranks share budgets that fall linearly from the top to B0 = 10. PLDs of the same in-degree get
// the budget of the lowest of their ranks; those tied with rank K+1 get B0. The code is independent of
// package star, to check it.
func (w *starWeb) budgets() []uint32 {
	const b0 = 10
	falling := slices.Clone(w.seen)
	slices.SortFunc(falling, func(a, b uint32) int { return int(int64(b) - int64(a)) })
	k := min(10_000, len(falling)/100)
	top := max(b0, min(10_000, len(falling)*b0/100))
	of := map[uint32]uint32{} // in-degree -> budget, for budgets above B0
	for rank, i := 1, 0; rank <= k; rank++ {
		for i = rank; i < len(falling) && falling[i] == falling[rank-1]; i++ {
		}
		if i <= k {
			of[falling[rank-1]] = uint32(math.Round(b0 + float64((top-b0)*(k+1-i))/float64(k)))
		}
		rank = i
	}
	out := make([]uint32, len(w.seen))
	for y, d := range w.seen {
		if out[y] = of[d]; out[y] == 0 {
			out[y] = b0
		}
	}
	return out
}

// pldNumber is the inverse of pldKey.
func pldNumber(key uint64) uint32 {
	x := key
	x = (x ^ x>>31 ^ x>>62) * 0x319642b2d24d8ec3
	x = (x ^ x>>27 ^ x>>54) * 0x96de1b173f119089
	x ^= x>>30 ^ x>>60
	return uint32(x*0xf1de83e19937733d - 1)
}
