package drum

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "seed of random tests; 0 draws one")

// newRand returns a generator whose seed is printed if the test fails.
func newRand(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run again with -seed=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func TestSortEntries(t *testing.T) {
	var s sorter
	any := sorter{anyArrival: true}
	rng := newRand(t)
	shapes := map[string]func() uint64{
		"uniform":  rng.Uint64,
		"one key":  func() uint64 { return 42 },
		"few keys": func() uint64 { return rng.Uint64N(7) << 60 },
		"skewed": func() uint64 {
			if rng.IntN(10) > 0 {
				return 1 << 63
			}
			return rng.Uint64()
		},
		"nested": func() uint64 { return rng.Uint64() >> rng.IntN(64) },
		"low":    func() uint64 { return rng.Uint64N(300) },
	}
	for name, next := range shapes {
		for _, n := range []int{0, 1, 2, 24, 25, 26, 100, 1000, scatterMost, scatterMost + 1, 40000} {
			es := make([]entry, n)
			for i := range es {
				es[i] = newEntry(next(), uint64(i), Op(i%3))
			}
			want := slices.Clone(es)
			slices.SortStableFunc(want, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
			arrival := slices.Clone(es)
			s.sort(es)
			if !slices.Equal(es, want) {
				t.Fatalf("%s: %d entries not sorted", name, n)
			}
			restoreArrival(es)
			if !slices.Equal(es, arrival) {
				t.Fatalf("%s: %d entries not in order of arrival", name, n)
			}
			any.sort(es)
			if !slices.IsSortedFunc(es, func(a, b entry) int { return cmp.Compare(a.key, b.key) }) {
				t.Fatalf("%s: %d entries not sorted by key", name, n)
			}
			restoreArrival(es)
			if !slices.Equal(es, arrival) {
				t.Fatalf("%s: %d entries are not those before", name, n)
			}
		}
	}
}

func BenchmarkSortEntries(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	es := make([]entry, 1<<20)
	var s sorter
	b.SetBytes(int64(len(es)) * entryBytes)
	for b.Loop() {
		for i := range es {
			es[i] = newEntry(rng.Uint64(), uint64(i), Check)
		}
		s.sort(es)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(es)), "ns/entry")
}
