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
	keys []Key
	ref  []bool
	hand int
}

func (s *clockSet) testAndSet(key Key) bool {
	for i, k := range s.keys {
		if k == key {
			s.ref[i] = true
			return true
		}
	}
	if len(s.keys) < setSlots {
		s.keys, s.ref = append(s.keys, key), append(s.ref, false)
		s.hand = len(s.keys) % setSlots
		return false
	}
	for range setSlots {
		if !s.ref[s.hand] {
			break
		}
		s.ref[s.hand] = false
		s.hand = (s.hand + 1) % setSlots
	}
	s.keys[s.hand], s.ref[s.hand] = key, false
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
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkRAMCache(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := NewRAMCache(128 << 20) // 16 M keys
	defer c.Close()
	x := uint64(1)
	next := func() Key {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return Key(x)
	}
	keys, seen := make([]Key, 59), make([]bool, 59)
	run := func(name string, mask Key, batch bool) {
		b.Run(name, func(b *testing.B) {
			start, hits := cpuTime(), 0
			for b.Loop() {
				for i := range keys {
					keys[i] = next() & mask * 0x9e3779b97f4a7c15
				}
				if batch {
					c.TestAndSetBatch(keys, seen)
				} else {
					for i, key := range keys {
						seen[i] = c.TestAndSet(key)
					}
				}
				for _, s := range seen {
					if s {
						hits++
					}
				}
			}
			n := float64(b.N * len(keys))
			b.ReportMetric(n/(cpuTime()-start).Seconds()/1e6, "M/cpu-s")
			b.ReportMetric(float64(hits)/n, "hits")
		})
	}
	for range 20 << 20 {
		c.TestAndSet(next())
	}
	run("keys=new/batch=1", 1<<64-1, false)
	run("keys=new/batch=59", 1<<64-1, true)
	run("keys=8M/batch=1", 1<<23-1, false)
	run("keys=8M/batch=59", 1<<23-1, true)
}
