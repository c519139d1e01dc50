package drum

import (
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drumbeat/disk"
)

// The sizes of levels. The first fits into a CPU's second cache, and into one huge page; each of the next is eight times as
// large, up to the one that has all bytes, which is four times as large at least: what is left of the last but one then costs
// little. A cache of a gigabyte has levels of 2, 16, 128 and 1024 MiB.
const (
	firstBuckets = 2 << 20 / cuckooBucketBytes
	levelGrowth  = 8
	leastGrowth  = 4
)

// cacheLevel is a RAMCache of one size. When half of its slots are filled, the next level takes over: up to there next to no key
// has had to give way to another. Until the next one has as many keys, those of this one, now left as they are, count too; then
// the memory is given back.
type cacheLevel struct {
	mem     []byte
	buckets []cuckooBucket
	filled  atomic.Uint64 // slots, since the level was empty; counted when a batch ends
	eighth  uint64        // of the slots
	freed   atomic.Bool
}

func newCacheLevel(nests int64) *cacheLevel {
	l := &cacheLevel{mem: disk.Alloc(int(nests * cuckooBucketBytes)), eighth: uint64(nests * cuckooSlots / 8)}
	_ = unix.Madvise(l.mem, unix.MADV_HUGEPAGE) // a hint; without it each probe also misses the TLB
	l.buckets = atomicBuckets(l.mem)
	return l
}

func (l *cacheLevel) entries() int64 { return int64(len(l.buckets)) * cuckooSlots }

// level returns the level in use, and the one before it if its keys count still.
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

// free gives the memory back. Who still looks at it finds nothing; a key that is put in now, by who hasn't seen that the level
// is no longer in use, takes a page that stays.
func (l *cacheLevel) free() {
	if l.freed.CompareAndSwap(false, true) {
		_ = unix.Madvise(l.mem, unix.MADV_DONTNEED) // a hint, too: what isn't given back is an eighth of the cache
	}
}

// has tells whether key is in a level that is no longer in use.
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
