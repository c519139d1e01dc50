package drum

import (
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cacheModel is the reference model of RAMCache. It uses maps, and a clock that does not wrap.
type cacheModel struct {
	buckets uint64
	slots   [][]modelSlot // of each bucket
	filled  uint64
}

type modelSlot struct {
	key  Key
	used bool
	time int64
}

func newCacheModel(c *RAMCache) *cacheModel {
	m := &cacheModel{buckets: uint64(c.Entries() / 4)}
	m.slots = make([][]modelSlot, m.buckets)
	for i := range m.slots {
		m.slots[i] = make([]modelSlot, 4)
	}
	return m
}

func (m *cacheModel) now() int64 { return int64(m.filled/(m.buckets/2)) + 3 }

// testAndSet also returns the age of the replaced key, so that tests can check that 5 bits are enough.
func (m *cacheModel) testAndSet(key Key, now int64) (hit bool, age int64) {
	first, _ := bits.Mul64(uint64(key), m.buckets)
	var oldest *modelSlot
	for _, n := range []uint64{first, first ^ (uint64(key)&31 | 1)} {
		for i := range m.slots[n] {
			s := &m.slots[n][i]
			if s.used && s.key == key {
				s.time = now
				return true, 0
			}
			// Of keys of equal age the last one is replaced.
			if oldest == nil || s.time <= oldest.time {
				oldest = s
			}
		}
	}
	age = now - oldest.time
	*oldest = modelSlot{key, true, now - 2}
	m.filled++
	return false, age
}

func TestRAMCacheModel(t *testing.T) {
	rng := newRand(t)
	c := NewRAMCache(200*32 + 1023)
	defer c.Close()
	if c.Entries() != 896 {
		t.Fatalf("got room for %d keys, want 896", c.Entries())
	}
	m := newCacheModel(c)
	hits, ages := 0, int64(0)
	for range 200000 {
		key := Key(rng.Uint64N(3000) * rng.Uint64N(3) * 0x9e3779b97f4a7c15) // includes 0
		got := c.TestAndSet(key)
		want, age := m.testAndSet(key, m.now())
		if got != want {
			t.Fatalf("key %x: got %v, want %v", key, got, want)
		}
		if ages = max(ages, age); got {
			hits++
		}
	}
	if hits < 1000 || ages >= 32 {
		t.Errorf("got %d hits, and a key of age %d", hits, ages)
	}
}

// TestRAMCacheProof checks that a hit proves that the key came before, even among keys that differ in a
// single bit and so share their buckets or all the bits in a slot.
func TestRAMCacheProof(t *testing.T) {
	rng := newRand(t)
	for _, kib := range []int64{4, 5, 7, 64, 333} {
		c := NewRAMCache(kib << 10)
		came, hits := map[Key]bool{}, 0
		base := make([]Key, 40)
		for i := range base {
			base[i] = Key(rng.Uint64())
		}
		base[0], base[1] = 0, 1<<64-1
		for range 40000 {
			key := base[rng.IntN(len(base))] ^ 1<<rng.IntN(64)
			if rng.IntN(8) == 0 {
				key ^= 1 << rng.IntN(64)
			}
			if hit := c.TestAndSet(key); hit && !came[key] {
				t.Fatalf("%d KiB: key %x is said to be among %d keys that came, and isn't", kib, key, len(came))
			} else if hit {
				hits++
			}
			came[key] = true
		}
		if hits < 1000 {
			t.Errorf("%d KiB: got %d hits", kib, hits)
		}
		c.Close()
	}
}

// TestRAMCachePrefetch checks that prefetching works for any keys, including none, and changes nothing.
func TestRAMCachePrefetch(t *testing.T) {
	c := NewRAMCache(100 * 64)
	defer c.Close()
	prefetchBuckets(c.levels[0].buckets, nil)
	prefetchBuckets(c.levels[0].buckets, []Key{0, 1, 1<<64 - 1, 1 << 63})
	buckets := c.levels[0].buckets
	for i := range buckets {
		for j := range buckets[i] {
			if v := buckets[i][j].Load(); v != 0 {
				t.Fatalf("bucket %d slot %d: got %x", i, j, v)
			}
		}
	}
}

// If many callers have the same new keys, at least one must get false for each key. All keys must be
// remembered while there is room.
func TestRAMCacheConcurrent(t *testing.T) {
	c := NewRAMCache(1 << 20)
	defer c.Close()
	const n, callers = 20000, 4
	fresh := make([]atomic.Int32, n)
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(g)))
			for _, i := range rng.Perm(n) {
				if !c.TestAndSet(Key(uint64(i+1) * 0x9e3779b97f4a7c15)) {
					fresh[i].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for i := range fresh {
		if n := fresh[i].Load(); n < 1 || n > callers {
			t.Fatalf("key %d was new to %d callers", i, fresh[i].Load())
		}
	}
}

// A batch must give the same results as its keys one by one with the clock stopped.
func TestRAMCacheBatch(t *testing.T) {
	rng := newRand(t)
	c := NewRAMCache(4096)
	defer c.Close()
	m := newCacheModel(c)
	keys, seen := make([]Key, 200), make([]bool, 200)
	for range 500 {
		n := rng.IntN(len(keys) + 1)
		for i := range keys[:n] {
			keys[i] = Key(rng.Uint64N(900) * 0x9e3779b97f4a7c15)
		}
		c.TestAndSetBatch(keys[:n], seen)
		now := m.now()
		for i, key := range keys[:n] {
			if want, _ := m.testAndSet(key, now); want != seen[i] {
				t.Fatalf("key %x: got %v, want %v", key, seen[i], want)
			}
		}
	}
}

func TestRAMCacheAllocates(t *testing.T) {
	c := NewRAMCache(1 << 16)
	defer c.Close()
	key := Key(1)
	if n := testing.AllocsPerRun(1000, func() { key *= 0x9e3779b97f4a7c15; c.TestAndSet(key) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

// cpuTime returns the CPU time of this thread, which does not depend on other load of the machine.
func cpuTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkRAMCache has 16 M entries. "drumbeat bench cache" measures more.
func BenchmarkRAMCache(b *testing.B) {
	c := NewRAMCache(128 << 20)
	defer c.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	keys, seen := make([]Key, 59<<12), make([]bool, 59<<12)
	batch := func(keys []Key, seen []bool) {
		for i := 0; i < len(keys); i += 59 {
			c.TestAndSetBatch(keys[i:i+59], seen[i:])
		}
	}
	run := func(name string, mask uint64, one bool) {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var spent time.Duration
			hits := 0
			for b.Loop() {
				for i := range keys {
					keys[i] = Key(rng.Uint64() & mask * 0x9e3779b97f4a7c15)
				}
				start := cpuTime()
				if one {
					for i, key := range keys {
						seen[i] = c.TestAndSet(key)
					}
				} else {
					batch(keys, seen)
				}
				spent += cpuTime() - start
				for _, s := range seen {
					if s {
						hits++
					}
				}
			}
			n := float64(b.N * len(keys))
			b.ReportMetric(n/spent.Seconds()/1e6, "M/cpu-s")
			b.ReportMetric(float64(spent)/n, "cpu-ns/key")
			b.ReportMetric(float64(hits)/n, "hits")
		})
	}
	for range 100 {
		for i := range keys {
			keys[i] = Key(rng.Uint64())
		}
		batch(keys, seen)
	}
	run("keys=new/batch=1", 1<<64-1, true)
	run("keys=new/batch=59", 1<<64-1, false)
	run("keys=8M/batch=1", 1<<23-1, true)
	run("keys=8M/batch=59", 1<<23-1, false)
}
