package baselines

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// textRef is a text of a batch: its place in the arena, which is also its order of arrival, its length, and 8 bytes of it
// for the sort.
type textRef struct {
	cache    uint64
	at, size uint32
}

const textRefBytes = 16

// sortTexts sorts by text, and by order of arrival where that is equal: a quicksort of 8 bytes of text at a time, which
// are held with the places, on all processors.
func sortTexts(arena []byte, refs []textRef) {
	s := textSort{arena: arena, more: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	s.sort(refs, 0)
	s.wg.Wait()
}

type textSort struct {
	arena []byte
	more  chan struct{} // bounds the goroutines besides the caller's
	wg    sync.WaitGroup
}

const (
	// smallTexts is the number of texts up to which insertion is faster.
	smallTexts = 12
	// parallelTexts is the number of texts from which on another goroutine pays.
	parallelTexts = 1 << 14
)

// sort sorts texts that agree in their first depth bytes, none of which is shorter.
func (s *textSort) sort(refs []textRef, depth int) {
	if len(refs) <= smallTexts {
		s.insertion(refs, depth)
		return
	}
	for i := range refs {
		refs[i].cache = load8(refs[i].text(s.arena)[depth:])
	}
	s.quick(refs, depth)
}

// load8 returns the first 8 bytes of p, with zeros where it is shorter, so that their order is that of the numbers.
func load8(p []byte) uint64 {
	if len(p) >= 8 {
		return binary.BigEndian.Uint64(p)
	}
	var x uint64
	for i, c := range p {
		x |= uint64(c) << (56 - 8*i)
	}
	return x
}

// quick sorts by cache, then what is equal by the bytes behind.
func (s *textSort) quick(refs []textRef, depth int) {
	for len(refs) > smallTexts {
		pivot := medianCache(refs)
		lo, i, hi := 0, 0, len(refs)
		for i < hi {
			switch c := refs[i].cache; {
			case c < pivot:
				refs[i], refs[lo] = refs[lo], refs[i]
				lo++
				i++
			case c > pivot:
				hi--
				refs[i], refs[hi] = refs[hi], refs[i]
			default:
				i++
			}
		}
		s.branch(refs[lo:hi], depth, true)
		// The smaller part first and the larger one in this frame, so the depth is the logarithm.
		small, large := refs[:lo], refs[hi:]
		if len(small) > len(large) {
			small, large = large, small
		}
		s.branch(small, depth, false)
		refs = large
	}
	s.insertion(refs, depth)
}

// branch sorts a part whose caches are equal, or are not, in a goroutine of its own if it is large and a processor is free.
func (s *textSort) branch(part []textRef, depth int, equal bool) {
	if len(part) >= parallelTexts {
		select {
		case s.more <- struct{}{}:
			s.wg.Go(func() {
				s.part(part, depth, equal)
				<-s.more
			})
			return
		default:
		}
	}
	s.part(part, depth, equal)
}

func (s *textSort) part(part []textRef, depth int, equal bool) {
	if equal {
		s.equal(part, depth)
	} else {
		s.quick(part, depth)
	}
}

// equal sorts texts that have the same cache: those that end there by length and arrival, and the longer ones, which
// come behind, by what follows.
func (s *textSort) equal(refs []textRef, depth int) {
	ends := 0
	for i := range refs {
		if int(refs[i].size) <= depth+8 {
			refs[i], refs[ends] = refs[ends], refs[i]
			ends++
		}
	}
	slices.SortFunc(refs[:ends], func(a, b textRef) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.at, b.at))
	})
	if ends < len(refs) {
		s.sort(refs[ends:], depth+8)
	}
}

func (s *textSort) insertion(refs []textRef, depth int) {
	for i := 1; i < len(refs); i++ {
		t, j := refs[i], i
		text := t.text(s.arena)[depth:]
		for ; j > 0; j-- {
			c := bytes.Compare(text, refs[j-1].text(s.arena)[depth:])
			if c > 0 || c == 0 && t.at > refs[j-1].at {
				break
			}
			refs[j] = refs[j-1]
		}
		refs[j] = t
	}
}

// medianCache returns the middle one of a few.
func medianCache(refs []textRef) uint64 {
	median := func(a, b, c uint64) uint64 { return max(min(a, b), min(max(a, b), c)) }
	n := len(refs)
	at := func(i int) uint64 { return refs[i].cache }
	if n < 200 {
		return median(at(0), at(n/2), at(n-1))
	}
	return median(
		median(at(0), at(n/8), at(n/4)),
		median(at(n/2-1), at(n/2), at(n/2+n/8)),
		median(at(n-1-n/4), at(n-1-n/8), at(n-1)))
}

// trailingBytes returns how many bytes of x, from the lowest, are zero.
func trailingBytes(x uint64) int { return bits.TrailingZeros64(x) / 8 }
