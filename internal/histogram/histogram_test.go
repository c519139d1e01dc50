package histogram

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestBounds: the bounds must ascend, and each duration must lie between the bounds of its bucket.
func TestBounds(t *testing.T) {
	for i := 1; i < Buckets; i++ {
		low, high := Bound(i-1), Bound(i)
		if low >= high {
			t.Fatalf("bucket %d: from %v to %v", i, low, high)
		}
		if at, before := bucketOf(low), bucketOf(low-1); at != i || before != i-1 {
			t.Errorf("bucket %d begins at %v: got %d there and %d before", i, low, at, before)
		}
		if i < Buckets-1 && float64(high) > 1.25*float64(low)+1 {
			t.Errorf("bucket %d is too wide: from %v to %v", i, low, high)
		}
	}
	if Bound(0) != 1<<First || Bound(Buckets-2) != 1<<Last || Bound(Buckets-1) != math.MaxInt64 {
		t.Errorf("bounds %v, %v and %v", Bound(0), Bound(Buckets-2), Bound(Buckets-1))
	}
	for d, want := range map[time.Duration]int{0: 0, 1<<First - 1: 0, 1 << Last: Buckets - 1,
		math.MaxInt64: Buckets - 1} {
		if got := bucketOf(d); got != want {
			t.Errorf("%v: got bucket %d, want %d", d, got, want)
		}
	}
}

// TestQuantiles: quantiles of random durations must be within a quarter of the exact ones.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []time.Duration
	var sum time.Duration
	for range 20_000 {
		d := time.Duration(math.Exp(rng.NormFloat64()*2) * float64(10*time.Millisecond))
		h.Observe(d)
		all, sum = append(all, d), sum+d
	}
	slices.Sort(all)
	s := h.Snapshot()
	if s.Count() != int64(len(all)) || s.Sum != sum || s.Mean() != sum/time.Duration(len(all)) {
		t.Errorf("got %d observations with sum %v and mean %v", s.Count(), s.Sum, s.Mean())
	}
	for _, q := range []float64{0.01, 0.25, 0.5, 0.9, 0.99, 0.999} {
		want := all[int(q*float64(len(all)))]
		if got := s.Quantile(q); math.Abs(float64(got-want)) > 0.25*float64(want) {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
	for power := First; power <= Last; power++ {
		want, _ := slices.BinarySearch(all, time.Duration(1)<<power)
		if got := s.Below(power); got != int64(want) {
			t.Errorf("below 2^%d ns: got %d, want %d", power, got, want)
		}
	}
	h.Observe(-time.Second)
	h.Observe(time.Hour)
	later := h.Snapshot()
	if d := later.Sub(&s); d.Count() != 2 || d.Sum != time.Hour || d.Counts[0] != 1 || d.Counts[Buckets-1] != 1 {
		t.Errorf("got %d observations with sum %v", d.Count(), d.Sum)
	}
	if d := later.Sub(&later); d.Quantile(0.5) != 0 || d.Mean() != 0 {
		t.Error("an empty histogram has a quantile or a mean")
	}
	if got := later.Quantile(1); got != 1<<Last {
		t.Errorf("the largest: got %v", got)
	}
}

// TestConcurrentObservations: no observation may be lost.
func TestConcurrentObservations(t *testing.T) {
	var h Histogram
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 5000 {
				h.Observe(time.Duration(i) * time.Microsecond)
			}
		})
	}
	all.Wait()
	if s := h.Snapshot(); s.Count() != 40_000 || s.Sum != 8*4999*5000/2*time.Microsecond {
		t.Errorf("got %d observations with sum %v", s.Count(), s.Sum)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	d := time.Duration(0)
	for b.Loop() {
		d = (d + 7919) & (1<<30 - 1)
		h.Observe(d)
	}
}

// ExampleHistogram shows the quantiles of a few durations.
func ExampleHistogram() {
	var h Histogram
	for ms := range 100 {
		h.Observe(time.Duration(ms) * time.Millisecond)
	}
	s := h.Snapshot()
	fmt.Println(s.Count(), s.Quantile(0.5).Round(10*time.Millisecond))
	// Output: 100 50ms
}
