package drum

import (
	"math/bits"
	"sync/atomic"

	"drumbeat/disk"
)

// RAMCache remembers recent keys: the cache of section V in front of a Drum, which drops what was sent a
// moment ago. 8 bytes an entry, off the Go heap. Forgetting a key, also the whole cache at a restart, only
// means that the Drum sees it again; a hit is a proof, since whole keys are compared.
//
// A key may lie in either of two buckets of 4 slots, half a cache line each, and takes the place of the key of
// those 8 that was met longest ago. Time goes on by one with every eighth of the slots that is filled anew, so 5
// bits tell it. A key that was not met again counts as a quarter older than it is: links that come once only
// go sooner.
//
// The paper takes CLOCK, for its speed. CLOCK in sets of a cache line is as fast, but where a crawl needs its
// cache, at about tau_h l S entries, it loses 6 points of hit rate against exact LRU: chance gives some sets
// twice as many links as others. The choice of two buckets evens that out ("drumbeat bench cache" shows all of
// them): it loses 2 points at most there, and nothing beyond.
//
// Keys should be uniform. The first bucket is chosen by the leading bits, the second lies in the same KiB by
// the last bits. So a slot has room for flags: all keys of one first bucket lie within 2^64 / buckets of each
// other, so that the low 57 bits tell them apart when there are 128 buckets or more.
//
//	bits   meaning
//	0-4    when the key was met last, modulo 32
//	5      the slot is in use
//	6      it is in the key's second bucket
//	7-63   low bits of the key
//
// Keys are spread evenly, so a cache touches all of its memory long before it is full: a crawl of 20,000 URLs would make the
// system clear a gigabyte, and miss the CPU's caches with each probe. So there are smaller levels before the one that has all
// the bytes (ramlevel.go), and the cache moves on to the next when one is half full.
//
// No locks: all changes are compare-and-swap of one slot. Two callers that bring the same new key at once may
// both put it in, which costs a slot and is harmless.
type RAMCache struct {
	levels []*cacheLevel // the last has all the bytes
	at     atomic.Int32  // the level in use
}

// bucket is half a cache line; the word is cuckoo hashing's, as buckets are something else here.
type cuckooBucket [cuckooSlots]atomic.Uint64

const (
	cuckooSlots       = 4
	cuckooBucketBytes = 8 * cuckooSlots
	// Both buckets of a key are among regionNests, a KiB, so that the second costs no TLB miss.
	regionBuckets = 32
	minBuckets    = 128

	slotTime   = 1<<5 - 1
	slotUsed   = 1 << 5
	slotSecond = 1 << 6
	slotFlags  = 7 // bits below the key

	// A key that was not met again is taken for unmetAge older than it is.
	unmetAge = 2
)

// NewRAMCache returns an empty cache of bytes bytes, rounded down to whole KiB but at least 4 KiB. The RAM is
// taken as it is touched; while the cache grows to its full size, up to an eighth more.
func NewRAMCache(bytes int64) *RAMCache {
	n := max(minBuckets, bytes/cuckooBucketBytes&^(regionBuckets-1))
	c := &RAMCache{}
	for small := int64(firstBuckets); small <= n/leastGrowth; small *= levelGrowth {
		c.levels = append(c.levels, newCacheLevel(small))
	}
	c.levels = append(c.levels, newCacheLevel(n))
	return c
}

// Close frees the memory; no other call may be running.
func (c *RAMCache) Close() {
	for _, l := range c.levels {
		disk.Free(l.mem)
	}
	c.levels = nil
}

// Entries returns the number of keys that the cache has room for.
func (c *RAMCache) Entries() int64 { return c.levels[len(c.levels)-1].entries() }

// TestAndSet tells whether key is among the recent ones, and makes it so. Safe for concurrent use: of several
// calls that bring in a new key at least one gets false.
func (c *RAMCache) TestAndSet(key Key) bool {
	l, before := c.level()
	if l.testAndSet(key, l.now()) {
		return true
	}
	l.filled.Add(1)
	return before != nil && before.has(key)
}

// TestAndSetBatch does TestAndSet for all keys in order; seen[i] is the answer about keys[i]. Several times
// as fast as single calls when the cache is larger than the CPU's: while some buckets are searched, the next
// are fetched. The time stands still during a batch: one longer than an eighth of the entries makes its keys
// alike in age.
func (c *RAMCache) TestAndSetBatch(keys []Key, seen []bool) {
	const ahead = 8 // of two lines each: about as many as a core fetches at once
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

// now is the time. It begins where a new key counts as younger than an empty slot, whose time is 0.
func (l *cacheLevel) now() uint64 { return l.filled.Load()/l.eighth + unmetAge + 1 }

// testAndSet leaves it to the caller to count what was filled. Which bucket and which slot are hard to foretell, so
// nothing branches on them.
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
				continue // somebody else has replaced it since
			}
			if (v^now)&slotTime != 0 {
				slot.CompareAndSwap(v, v&^slotTime|now&slotTime) // lost only to another hit or a replacement
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

// same is 1 if a slot in use has the key of want, and else 0.
func same(v, want uint64) uint64 { return ((v^want)>>5 - 1) >> 63 }

// age is 8 times how long ago the key of a slot was met.
func age(v, now uint64) uint64 { return (now - v) % (slotTime + 1) << 3 }

// older is the larger number of the two, both below 2^63.
func older(a, b uint64) uint64 {
	d := a - b
	return a - d&uint64(int64(d)>>63)
}
