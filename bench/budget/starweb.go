package budget

import (
	"math"
	mathrand "math/rand/v2"
	"slices"
)

// The cases of RunStar.
const (
	caseUniform = "uniform" // all PLDs have the same in-degree, URLs are spread evenly
	casePower   = "power"   // in-degrees by a power law, URLs in proportion to them
	caseGiant   = "giant"   // likewise, and one PLD with millions of in-neighbours
	caseOneKey  = "onekey"  // 90 % of the links are the same pair, 90 % of the URLs those of one PLD
)

var starCases = []string{caseUniform, casePower, caseGiant, caseOneKey}

const (
	// powerExponent is that of in-degree against rank: a tail of 1 + 1/0.9 = 2.1, as the in-degree of pages
	// has.
	powerExponent = 0.9
	oneKeyShare   = 0.9
)

// starWeb is the links between PLDs of one case. PLD y has in-degree degrees[y] in the end; its
// in-neighbours are PLDs of a universe that is larger than any in-degree. Pair number e, counted through
// all PLDs, belongs to the y whose range of numbers it falls into. Every pair comes at least once. Used by
// one goroutine.
type starWeb struct {
	kind     string
	degrees  []uint32
	ends     []int64 // of the ranges of pairs: y has [ends[y-1], ends[y])
	guide    []uint32
	shift    uint  // pairs of one entry of guide: 2^shift
	pairs    int64 // E
	links    int64 // to be made, repeats included
	universe uint64
	step     uint64 // between in-neighbours; has no divisor in common with universe
	stride   int64  // between pairs that come for the first time; none in common with pairs

	rng   *mathrand.Rand
	made  int64
	fresh int64    // pairs that have come
	at    int64    // the last of them
	seen  []uint32 // in-degrees so far: the truth
}

// newStarWeb makes the links of a case. Each pair comes 1/unique times on average.
func newStarWeb(o *Star, kind string, seed uint64) *starWeb {
	w := &starWeb{kind: kind, degrees: make([]uint32, o.PLDs), rng: mathrand.New(mathrand.NewPCG(seed, 5)), seen: make([]uint32, o.PLDs)}
	mean := max(1, uint32(o.Edges/int64(o.PLDs)))
	for y := range w.degrees {
		w.degrees[y] = mean
	}
	w.links = int64(float64(mean) * float64(o.PLDs) / o.Unique)
	switch kind {
	case casePower, caseGiant:
		w.powerLaw(o.Edges)
	case caseOneKey:
		// A tenth of the links are spread: one to each of so many PLDs as there are, round after round.
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

// powerLaw gives PLD y the in-degree C·(y+1)^-powerExponent, at least 1, that sum to edges or a bit more.
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

// coprime is the least number from n on that has no divisor in common with m.
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

// makeGuide notes for every 2^shift pairs the PLD of the first, so that a search has few steps.
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

// pld is the PLD that pair e leads to.
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

// pair is pair e: numbers of two PLDs.
func (w *starWeb) pair(e int64) (from uint64, to uint32) {
	to = w.pld(e)
	i := uint64(w.ends[to] - e) // from 1 to the in-degree
	return (uint64(to) + i*w.step) % w.universe, to
}

// next is one link. Pairs come for the first time evenly among the repeats of others.
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
		return w.pair(w.stride % w.pairs) // the first that came
	}
	return w.pair(int64(w.rng.Uint64N(uint64(w.pairs))))
}

// url is the PLD of one URL to be checked.
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

// budgets is the paper's F, from the in-degrees that were counted: the K = V/100 (10,000 at most) PLDs of
// the highest ranks share budgets from the top down to B0 = 10 linearly; PLDs of the same in-degree have
// the least of their ranks, and those tied with rank K+1 have B0. It is written anew here, to check package
// star.
func (w *starWeb) budgets() []uint32 {
	const b0 = 10
	falling := slices.Clone(w.seen)
	slices.SortFunc(falling, func(a, b uint32) int { return int(int64(b) - int64(a)) })
	k := min(10_000, len(falling)/100)
	top := max(b0, min(10_000, len(falling)*b0/100))
	of := map[uint32]uint32{} // budgets by in-degree, of those above B0
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
