package rivals

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pair is a key with what belongs to it, the higher bits of which are its number in order of arrival.
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
	// smallSort is the number of pairs up to which insertion is faster than counting 256 digits.
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
	var next atomic.Int32
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				d := int(next.Add(1)) - 1
				if d > 255 {
					return
				}
				sortFrom(group(ps, &ends, d), depth+1)
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

// sortFrom sorts pairs that agree in the first depth bytes.
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

// distribute puts the pairs in order of their digit depth, in place; ends[d] becomes the end of those with digit d.
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
