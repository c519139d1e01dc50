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

// clockSet is the reference: one set of a RAMCache.
type clockSet struct {
	keys  []Key
	spare []int
	hand  int
}

func (s *clockSet) testAndSet(key Key) bool {
	for i, k := range s.keys {
		if k == key {
			s.spare[i] = 3
			return true
		}
	}
	if len(s.keys) < setSlots {
		s.keys, s.spare = append(s.keys, key), append(s.spare, 0)
		return false
	}
	for s.spare[s.hand] > 0 {
		s.spare[s.hand]--
		s.hand = (s.hand + 1) % setSlots
	}
	s.keys[s.hand] = key
	s.hand = (s.hand + 1) % setSlots
	return false
}

func TestRAMCacheModel(t *testing.T) {
	rng := newRand(t)
	c := NewRAMCache(100 * 64)
	defer c.Close()
	if c.Entries() != 800 {
		t.Fatalf("got room for %d keys, want 800", c.Entries())
	}
	model := map[uint64]*clockSet{}
	hits := 0
	for range 200000 {
		key := Key(rng.Uint64N(3000) * rng.Uint64N(3) * 0x9e3779b97f4a7c15) // 0 among them
		i, _ := bits.Mul64(uint64(key), 100)
		if model[i] == nil {
			model[i] = &clockSet{}
		}
		got, want := c.TestAndSet(key), model[i].testAndSet(key)
		if got != want {
			t.Fatalf("key %x: got %v, want %v", key, got, want)
		}
		if got {
			hits++
		}
	}
	if hits < 1000 {
		t.Errorf("got %d hits", hits)
	}
}

// TestRAMCacheProof: a hit is a proof that the key came before, also among keys that differ in a single bit and so share
// their set or all bits that the set keeps of them.
func TestRAMCacheProof(t *testing.T) {
	rng := newRand(t)
	for _, sets := range []int64{64, 65, 100, 1 << 10, 12345} {
		c := NewRAMCache(sets * 64)
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
				t.Fatalf("%d sets: key %x is said to be among %d keys that came, and isn't", sets, key, len(came))
			} else if hit {
				hits++
			}
			came[key] = true
		}
		if hits < 1000 {
			t.Errorf("%d sets: got %d hits", sets, hits)
		}
		c.Close()
	}
}

// TestRAMCachePrefetch: fetching ahead changes nothing, whatever the keys; none is no fault.
func TestRAMCachePrefetch(t *testing.T) {
	c := NewRAMCache(100 * 64)
	defer c.Close()
	prefetchSets(c.sets, nil)
	prefetchSets(c.sets, []Key{0, 1, 1<<64 - 1, 1 << 63})
	for i := range c.sets {
		for j := range c.sets[i] {
			if v := c.sets[i][j].Load(); v != 0 {
				t.Fatalf("set %d slot %d: got %x", i, j, v)
			}
		}
	}
}

// Of many callers with the same new keys, at least one is told that each is new; and all are remembered while
// there is room.
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

// Whether keys come one by one or in batches makes no difference.
func TestRAMCacheBatch(t *testing.T) {
	rng := newRand(t)
	a, b := NewRAMCache(4096), NewRAMCache(4096)
	defer a.Close()
	defer b.Close()
	keys, seen := make([]Key, 50), make([]bool, 50)
	for range 500 {
		n := rng.IntN(len(keys) + 1)
		for i := range keys[:n] {
			keys[i] = Key(rng.Uint64N(900) * 0x9e3779b97f4a7c15)
		}
		a.TestAndSetBatch(keys[:n], seen)
		for i, key := range keys[:n] {
			if got := b.TestAndSet(key); got != seen[i] {
				t.Fatalf("key %x: got %v, in a batch %v", key, got, seen[i])
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

// cpuTime returns the CPU time of this thread: the machine may be busy with other things.
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
