package drum

import (
	"math/bits"
	"sync/atomic"

	"drumbeat/disk"
)

// RAMCache is a set of recent keys: the cache of section V in front of a Drum. It filters out keys seen
// recently. An entry takes 8 bytes outside the Go heap. If the cache forgets a key, or all keys at a
// restart, the Drum just sees the key again. A hit is exact, since whole keys are compared.
//
// A key can be in one of two cuckoo buckets of 4 slots, half a cache line each. A new key replaces the one
// of these 8 that was seen longest ago. The clock advances by one each time an eighth of the slots has been
// filled, so 5 bits hold a time. A key seen only once counts as a quarter older than it is, so that links
// that occur once are replaced sooner.
//
// The paper chooses CLOCK for its speed. CLOCK in sets of one cache line is as fast. But at the size that a
// crawl needs, about tau_h l S entries, its hit rate is 6 points below exact LRU, because by chance some
// sets get twice as many links as others. The choice of two buckets evens this out: the loss is 2 points at
// most there, and none in larger caches ("drumbeat bench cache" compares them).
//
// Keys should be uniform. The leading bits of the key choose the first bucket. Its last bits choose the
// second one in the same KiB. This leaves room for flags in a slot: the keys with the same first bucket lie
// within 2^64 / buckets of each other, so with 128 buckets or more the low 57 bits distinguish them.
//
//	bits   meaning
//	0-4    time when the key was last seen, modulo 32
//	5      the slot is in use
//	6      the slot is in the key's second bucket
//	7-63   low bits of the key
//
// Keys are spread evenly, so a cache touches all of its memory long before it is full. In a crawl of 20,000
// URLs the system would clear a gigabyte, and each probe would miss the CPU's caches. So smaller levels
// precede the full-size one (ramlevel.go). The cache moves to the next level when one is half full.
//
// There are no locks: every change is a compare-and-swap of one slot. Two concurrent callers with the same
// new key may both insert it. That wastes a slot and does no harm.
type RAMCache struct {
	levels []*cacheLevel // the last one has the full size
	at     atomic.Int32  // the level in use
}

// cuckooBucket is half a cache line: a bucket of cuckoo hashing, not one of the Drum's buckets.
type cuckooBucket [cuckooSlots]atomic.Uint64

const (
	cuckooSlots       = 4
	cuckooBucketBytes = 8 * cuckooSlots
	// Both buckets of a key are among the same regionBuckets, a KiB, so that the second costs no TLB miss.
	regionBuckets = 32
	minBuckets    = 128

	slotTime   = 1<<5 - 1
	slotUsed   = 1 << 5
	slotSecond = 1 << 6
	slotFlags  = 7 // bits below the key

	// A key seen only once counts as unmetAge time units older than it is.
	unmetAge = 2
)

// NewRAMCache returns an empty cache of the given size, rounded down to whole KiB but at least 4 KiB. It
// takes RAM as it is touched, and up to an eighth more while the cache grows to its full size.
func NewRAMCache(bytes int64) *RAMCache {
	n := max(minBuckets, bytes/cuckooBucketBytes&^(regionBuckets-1))
	c := &RAMCache{}
	for small := int64(firstBuckets); small <= n/leastGrowth; small *= levelGrowth {
		c.levels = append(c.levels, newCacheLevel(small))
	}
	c.levels = append(c.levels, newCacheLevel(n))
	return c
}

// Close frees the memory. No other call may be running.
func (c *RAMCache) Close() {
	for _, l := range c.levels {
		disk.Free(l.mem)
	}
	c.levels = nil
}

// Entries returns the capacity of the cache in keys.
func (c *RAMCache) Entries() int64 { return c.levels[len(c.levels)-1].entries() }

// TestAndSet reports whether key is in the cache, and marks it as recent. It is safe for concurrent use. If
// several calls insert the same new key, at least one returns false.
func (c *RAMCache) TestAndSet(key Key) bool {
	l, before := c.level()
	if l.testAndSet(key, l.now()) {
		return true
	}
	l.filled.Add(1)
	return before != nil && before.has(key)
}

// TestAndSetBatch calls TestAndSet for all keys in order and stores the results in seen. When the cache is
// larger than the CPU's caches it is several times as fast as single calls, because it fetches the next
// buckets while it searches. The clock stands still during a batch: in a batch longer than an eighth of the
// entries, keys get equal ages.
func (c *RAMCache) TestAndSetBatch(keys []Key, seen []bool) {
	const ahead = 8 // of two lines each: about the number that a core fetches at once
	seen = seen[:len(keys)]
	l, before := c.level()
	now, fresh := l.now(), uint64(0)
	prefetchBuckets(l.buckets, keys[:min(ahead, len(keys))])
	for len(keys) > 0 {
		n := min(ahead, len(keys))
		prefetchBuckets(l.buckets, keys[n:min(n+ahead, len(keys))])
		for i, key := range keys[:n] {
			hit := l.testAndSet(key, now)
			if !hit {
				fresh++
				hit = before != nil && before.has(key)
			}
			seen[i] = hit
		}
		keys, seen = keys[n:], seen[n:]
	}
	l.filled.Add(fresh)
}

// now returns the time. It starts at a value for which a new key is younger than an empty slot, whose time
// is 0.
func (l *cacheLevel) now() uint64 { return l.filled.Load()/l.eighth + unmetAge + 1 }

// testAndSet is TestAndSet on one level; the caller counts the filled slot. Bucket and slot are hard for
// the CPU to predict, so the code does not branch on them.
func (l *cacheLevel) testAndSet(key Key, now uint64) bool {
	i, _ := bits.Mul64(uint64(key), uint64(len(l.buckets)))
	other := uint64(key)%regionBuckets | 1
	want := uint64(key)<<slotFlags | slotUsed
	for {
		a, b := &l.buckets[i], &l.buckets[i^other]
		a0, a1, a2, a3 := a[0].Load(), a[1].Load(), a[2].Load(), a[3].Load()
		b0, b1, b2, b3 := b[0].Load(), b[1].Load(), b[2].Load(), b[3].Load()
		found := same(a0, want) | same(a1, want)<<1 | same(a2, want)<<2 | same(a3, want)<<3 |
			same(b0, want|slotSecond)<<4 | same(b1, want|slotSecond)<<5 |
			same(b2, want|slotSecond)<<6 | same(b3, want|slotSecond)<<7
		if found != 0 {
			at := uint64(bits.TrailingZeros64(found))
			slot := &l.buckets[i^other&-(at/cuckooSlots)][at%cuckooSlots]
			v := slot.Load()
			if same(v, want|at/cuckooSlots*slotSecond) == 0 {
				continue // another goroutine has replaced it
			}
			if (v^now)&slotTime != 0 {
				// Fails only if another goroutine updated or replaced it.
				slot.CompareAndSwap(v, v&^slotTime|now&slotTime)
			}
			return true
		}
		at := older(older(older(age(a0, now), age(a1, now)+1), older(age(a2, now)+2, age(a3, now)+3)),
			older(older(age(b0, now)+4, age(b1, now)+5), older(age(b2, now)+6, age(b3, now)+7))) % (2 * cuckooSlots)
		slot := &l.buckets[i^other&-(at/cuckooSlots)][at%cuckooSlots]
		if slot.CompareAndSwap(slot.Load(), want|at/cuckooSlots*slotSecond|(now-unmetAge)&slotTime) {
			return false
		}
	}
}

// same returns 1 if v is a used slot with the key of want, else 0.
func same(v, want uint64) uint64 { return ((v^want)>>5 - 1) >> 63 }

// age returns the age of a slot's key times 8.
func age(v, now uint64) uint64 { return (now - v) % (slotTime + 1) << 3 }

// older returns the larger of two numbers below 2^63.
func older(a, b uint64) uint64 {
	d := a - b
	return a - d&uint64(int64(d)>>63)
}
