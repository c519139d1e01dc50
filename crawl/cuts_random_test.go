package crawl

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

var numCuts = flag.Int("cuts", 0, "cuts of TestCutsAtRandom (0: 50; 500 with -long)")

// TestCutsAtRandom: a crawl that is cut many times, also during recovery, must end with the same result as
// one that was never cut.
func TestCutsAtRandom(t *testing.T) {
	want := *numCuts
	if want == 0 {
		want = longOr(500, 50)
	}
	kinds := uint64(numCutWorlds)
	if testing.Short() {
		want, kinds = min(want, 8), 2 // worlds
	}
	worlds := make([]*cutWorld, kinds)
	for i := range worlds {
		worlds[i], _ = undisturbedWorld(t, *seedFlag+uint64(i))
	}
	var count cutCount
	var lives atomic.Uint64
	inParallel(t, func(t *testing.T) bool {
		count.mu.Lock()
		enough := count.cuts >= want
		count.mu.Unlock()
		if !enough {
			n := lives.Add(1) - 1
			inBubble(t, func(t *testing.T) { randomLife(t, worlds[n%kinds], *seedFlag<<32+n, &count) })
		}
		return !enough
	})
	count.log(t, "at random")
	if count.back == 0 && count.lives > numCutWorlds {
		t.Error("no crawl reached its quota")
	}
}

// inParallel calls f on each processor until f returns false or its test fails.
func inParallel(t *testing.T, f func(t *testing.T) bool) {
	t.Run("worker", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for !t.Failed() && f(t) {
				}
			})
		}
	})
}

// cutsOfALife bounds the cuts of one crawl.
const cutsOfALife = 40

func randomLife(t *testing.T, w *cutWorld, seed uint64, count *cutCount) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0x6c696665))
	l := newLife(t, w, 0, w.empty(t, seed))
	l.squeezed = w.quota
	l.story = append(l.story, fmt.Sprintf("life %d", seed))
	left, within := rng.IntN(cutsOfALife+1), 1+rng.IntN(w.steps)
	next := func() int {
		if left == 0 {
			return 0
		}
		left--
		if rng.IntN(3) == 0 {
			return 1 + rng.IntN(50) // most of these hit a recovery
		}
		return 1 + rng.IntN(within)
	}
	if faults := l.live(rng, next, count.add); len(faults) > 0 {
		l.fail(faults)
	}
	count.ended(l.back)
}
