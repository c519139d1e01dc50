package drum

import (
	"sync"
	"testing"
)

// TestRAMCacheLevels checks that a growing cache knows the most recent keys and no keys that never came,
// and releases the memory of a level that no longer counts.
func TestRAMCacheLevels(t *testing.T) {
	rng := newRand(t)
	c := NewRAMCache(64 << 20)
	defer c.Close()
	if len(c.levels) != 3 || c.Entries() != 8<<20 {
		t.Fatalf("got %d levels, the last with %d entries, want 3 and %d", len(c.levels), c.Entries(), 8<<20)
	}
	const recent = 100_000 // fewer than half of the first level
	key := func(i int) Key { return Key(uint64(i)*0x9e3779b97f4a7c15 + 1) }
	forgotten, levels := 0, map[int32]int{}
	keys, seen := make([]Key, 100), make([]bool, 100)
	for i := 0; i < 1_500_000; i += len(keys) {
		for j := range keys {
			keys[j] = key(i + j)
		}
		for j, hit := range testBatch(c, keys, seen, rng.IntN(2) == 0) {
			if hit {
				t.Fatalf("key %d is said to be there, and isn't", i+j)
			}
		}
		if i > recent {
			for range 20 {
				if old := i - rng.IntN(recent); !c.TestAndSet(key(old)) {
					forgotten++
				}
			}
		}
		levels[c.at.Load()]++
	}
	if forgotten > 100 || len(levels) != 3 {
		t.Errorf("%d of 300,000 were forgotten, in levels %v, want hardly any in three levels", forgotten, levels)
	}
	if !c.levels[0].freed.Load() || c.levels[0].has(key(1)) || c.levels[2].freed.Load() {
		t.Error("the first level hasn't been given back, or the last one has")
	}
}

func testBatch(c *RAMCache, keys []Key, seen []bool, one bool) []bool {
	if one {
		for i, key := range keys {
			seen[i] = c.TestAndSet(key)
		}
	} else {
		c.TestAndSetBatch(keys, seen)
	}
	return seen
}

// TestRAMCacheGrowsSlowly checks that with few keys a large cache takes only the memory of its first level.
func TestRAMCacheGrowsSlowly(t *testing.T) {
	c := NewRAMCache(1 << 30)
	defer c.Close()
	for i := range 100_000 {
		c.TestAndSet(Key(uint64(i) * 0x9e3779b97f4a7c15))
	}
	if at, bytes := c.at.Load(), len(c.levels[0].mem); at != 0 || bytes != 2<<20 {
		t.Errorf("100,000 keys are in level %d, and the first has %d bytes", at, bytes)
	}
}

// TestRAMCacheLevelsConcurrent checks that, if many callers have the same new keys, at least one gets false
// for each, even while the cache moves to the next level.
func TestRAMCacheLevelsConcurrent(t *testing.T) {
	c := NewRAMCache(8 << 20)
	defer c.Close()
	const n, callers = 400_000, 4
	fresh := [callers][]bool{}
	var wg sync.WaitGroup
	for g := range callers {
		fresh[g] = make([]bool, n)
		wg.Go(func() {
			keys, seen := make([]Key, 50), make([]bool, 50)
			for i := 0; i < n; i += len(keys) {
				for j := range keys {
					keys[j] = Key(uint64(i+j+1) * 0x9e3779b97f4a7c15)
				}
				for j, hit := range testBatch(c, keys, seen, g == 0) {
					fresh[g][i+j] = !hit
				}
			}
		})
	}
	wg.Wait()
	for i := range n {
		if !fresh[0][i] && !fresh[1][i] && !fresh[2][i] && !fresh[3][i] {
			t.Fatalf("key %d was new to nobody", i)
		}
	}
	if c.at.Load() != 1 {
		t.Errorf("the cache is at level %d, want 1", c.at.Load())
	}
}
