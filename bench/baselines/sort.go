package baselines

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
)

// pair is a key and its tag; the high bits of the tag are the link's number in order of arrival.
type pair struct{ key, tag uint64 }

const pairBytes = 16

func (p pair) less(q pair) bool { return p.key < q.key || p.key == q.key && p.tag < q.tag }

// digit returns byte number depth of p, from the highest of the key, 0, to the lowest of the tag, 15.
func (p pair) digit(depth int) byte {
	if depth < 8 {
		return byte(p.key >> (56 - 8*depth))
	}
	return byte(p.tag >> (120 - 8*depth))
}

const (
	// smallSort is the number of pairs up to which insertion sort is faster than counting 256 digits.
	smallSort = 40
	// parallelSort is the number of pairs from which on several processors sort.
	parallelSort = 1 << 15
)

// sortPairs sorts by key, then by tag, in place: a radix sort from the highest byte, on all processors.
func sortPairs(ps []pair) {
	if len(ps) < parallelSort {
		sortFrom(ps, 0)
		return
	}
	depth := 0
	var ends [256]int
	for {
		distribute(ps, depth, &ends)
		if largest(&ends) < len(ps) || depth == 15 {
			break
		}
		depth++
	}
	share(256, func(d int) { sortFrom(group(ps, &ends, d), depth+1) })
}

// share calls do for 0 to n-1 on all processors.
func share(n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// group returns the pairs with digit d.
func group(ps []pair, ends *[256]int, d int) []pair {
	start := 0
	if d > 0 {
		start = ends[d-1]
	}
	return ps[start:ends[d]]
}

func largest(ends *[256]int) int {
	most, start := 0, 0
	for _, e := range ends {
		most, start = max(most, e-start), e
	}
	return most
}

// sortFrom sorts pairs whose first depth bytes are equal.
func sortFrom(ps []pair, depth int) {
	if len(ps) <= smallSort {
		insertionSort(ps)
		return
	}
	var ends [256]int
	for ; depth < 16; depth++ {
		distribute(ps, depth, &ends)
		if largest(&ends) < len(ps) {
			break
		}
	}
	if depth >= 15 {
		return
	}
	start := 0
	for _, e := range ends {
		if e-start > 1 {
			sortFrom(ps[start:e], depth+1)
		}
		start = e
	}
}

// distribute sorts the pairs in place by their digit at depth; it sets ends[d] to the end of those with
// digit d.
func distribute(ps []pair, depth int, ends *[256]int) {
	var next [256]int
	for i := range ps {
		next[ps[i].digit(depth)]++
	}
	sum := 0
	for d := range next {
		n := next[d]
		next[d] = sum
		sum += n
		ends[d] = sum
	}
	for d := range next {
		for next[d] < ends[d] {
			p := ps[next[d]]
			for {
				g := p.digit(depth)
				at := next[g]
				next[g]++
				if int(g) == d {
					ps[at] = p
					break
				}
				p, ps[at] = ps[at], p
			}
		}
	}
}

func insertionSort(ps []pair) {
	for i := 1; i < len(ps); i++ {
		p, j := ps[i], i
		for ; j > 0 && p.less(ps[j-1]); j-- {
			ps[j] = ps[j-1]
		}
		ps[j] = p
	}
}

// restoreGroup is the number of pairs that are reordered at once: 256 KiB, which fits into the L2 cache of
// a core. Reordering 4 million pairs at once costs a cache miss per pair and three times the time.
const restoreGroup = 1 << 14

// restoreArrival reorders pairs by their numbers, which are 0 to len(ps)-1: first into at most 256 groups,
// then within each group.
func restoreArrival(ps []pair) {
	if len(ps) <= restoreGroup {
		restorePart(ps, 0)
		return
	}
	shift := max(bits.Len(restoreGroup-1), bits.Len(uint(len(ps)-1))-8)
	groups := (len(ps)-1)>>shift + 1
	var next [256]int
	for g := range groups {
		next[g] = g << shift
	}
	for g := range groups {
		for end := min((g+1)<<shift, len(ps)); next[g] < end; {
			p := ps[next[g]]
			for {
				to := int(p.tag>>tagNumber>>shift) & 255
				at := next[to]
				next[to]++
				if to == g {
					ps[at] = p
					break
				}
				p, ps[at] = ps[at], p
			}
		}
	}
	share(groups, func(g int) { restorePart(ps[g<<shift:min((g+1)<<shift, len(ps))], g<<shift) })
}

// restorePart reorders pairs whose numbers are consecutive from first on.
func restorePart(ps []pair, first int) {
	for i := range ps {
		for j := int(ps[i].tag>>tagNumber) - first; j != i; j = int(ps[i].tag>>tagNumber) - first {
			ps[i], ps[j] = ps[j], ps[i]
		}
	}
}
