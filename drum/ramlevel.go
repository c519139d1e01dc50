package drum

import (
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drumbeat/disk"
)

// Sizes of levels. The first level fits into a CPU's second-level cache and into one huge page. Each next one
// is eight times as large, up to the full size, which is at least four times its predecessor, so that the
// memory of the last but one is a small overhead. A cache of 1 GiB has levels of 2, 16, 128 and 1024 MiB.
const (
	firstBuckets = 2 << 20 / cuckooBucketBytes
	levelGrowth  = 8
	leastGrowth  = 4
)

// cacheLevel is a RAMCache of one size. When half of its slots are filled, the next level replaces it;
// until then almost no key has had to be replaced. The old level stays readable until the new one has as
// many keys. Then its memory is released.
type cacheLevel struct {
	mem     []byte
	buckets []cuckooBucket
	filled  atomic.Uint64 // number of slots filled; counted at the end of a batch
	eighth  uint64        // an eighth of the slots
	freed   atomic.Bool
}

func newCacheLevel(buckets int64) *cacheLevel {
	l := &cacheLevel{mem: disk.Alloc(int(buckets * cuckooBucketBytes)), eighth: uint64(buckets * cuckooSlots / 8)}
	_ = unix.Madvise(l.mem, unix.MADV_HUGEPAGE) // a hint; without it each probe also misses the TLB
	l.buckets = atomicBuckets(l.mem)
	return l
}

func (l *cacheLevel) entries() int64 { return int64(len(l.buckets)) * cuckooSlots }

// level returns the current level, and the previous one while its keys still count.
func (c *RAMCache) level() (l, before *cacheLevel) {
	at := c.at.Load()
	l = c.levels[at]
	if int(at) < len(c.levels)-1 && l.filled.Load() >= 4*l.eighth {
		c.at.CompareAndSwap(at, at+1)
		return c.levels[at+1], l
	}
	if at == 0 {
		return l, nil
	}
	before = c.levels[at-1]
	if before.freed.Load() {
		return l, nil
	}
	if l.filled.Load() >= before.filled.Load() {
		before.free()
		return l, nil
	}
	return l, before
}

// free releases the memory. Concurrent readers then find nothing. A goroutine that still inserts a key
// takes a page that is not released.
func (l *cacheLevel) free() {
	if l.freed.CompareAndSwap(false, true) {
		_ = unix.Madvise(l.mem, unix.MADV_DONTNEED) // a hint; failure wastes an eighth of the cache at most
	}
}

// has reports whether key is in a previous level.
func (l *cacheLevel) has(key Key) bool {
	i, _ := bits.Mul64(uint64(key), uint64(len(l.buckets)))
	want := uint64(key)<<slotFlags | slotUsed
	a, b := &l.buckets[i], &l.buckets[i^(uint64(key)%regionBuckets|1)]
	found := uint64(0)
	for j := range a {
		found |= same(a[j].Load(), want) | same(b[j].Load(), want|slotSecond)
	}
	return found != 0
}
