package baselines

import (
	"bytes"
	"cmp"
	"slices"
	"testing"
)

// TestSortPairs: random, equal, few and skewed keys; the standard library's sort gives the expected order.
func TestSortPairs(t *testing.T) {
	rng := newRand(t)
	for _, n := range []int{0, 1, 2, smallSort, 1000, parallelSort, 3 * parallelSort} {
		for kind := range 4 {
			ps := make([]pair, n)
			for i := range ps {
				key := rng.Uint64()
				switch kind {
				case 1:
					key = 5
				case 2:
					key %= 10
				case 3:
					if rng.IntN(10) > 0 {
						key = 1 << 40
					}
				}
				ps[i] = pair{key, uint64(i) << tagNumber}
			}
			rng.Shuffle(n, func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
			want := slices.Clone(ps)
			slices.SortFunc(want, func(a, b pair) int {
				return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.tag, b.tag))
			})
			sortPairs(ps)
			if !slices.Equal(ps, want) {
				t.Fatalf("%d pairs of kind %d aren't sorted", n, kind)
			}
			restoreArrival(ps)
			for i := range ps {
				if ps[i].tag>>tagNumber != uint64(i) {
					t.Fatalf("%d pairs of kind %d: number %d at %d", n, kind, ps[i].tag>>tagNumber, i)
				}
			}
		}
	}
}

// TestSortTexts: texts that share prefixes, contain zero bytes, are prefixes of others, or are equal.
func TestSortTexts(t *testing.T) {
	rng := newRand(t)
	for _, n := range []int{0, 1, 13, 3000} {
		for _, letters := range []int{1, 2, 26} {
			var arena []byte
			var refs []textRef
			for range n {
				size := 1 + rng.IntN(30)
				refs = append(refs, textRef{at: uint32(len(arena)), size: uint32(size)})
				arena = append(arena, make([]byte, arenaHeader)...)
				for range size {
					arena = append(arena, byte(rng.IntN(letters)))
				}
			}
			want := slices.Clone(refs)
			slices.SortFunc(want, func(a, b textRef) int {
				return cmp.Or(bytes.Compare(a.text(arena), b.text(arena)), cmp.Compare(a.at, b.at))
			})
			sortTexts(arena, refs)
			for i := range refs {
				if refs[i].at != want[i].at {
					t.Fatalf("%d texts of %d letters: %q at %d, want %q",
						n, letters, refs[i].text(arena), i, want[i].text(arena))
				}
			}
		}
	}
}
