package drum

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drumbeat/disk"
)

// RAMCache remembers recent keys: the cache of section V in front of a Drum, which drops what was sent a
// moment ago. It is set-associative: a key belongs to one set, a cache line of 8 keys, in which the CLOCK
// rule chooses what a new key replaces. 8 bytes an entry, off the Go heap. Forgetting a key, also the whole
// cache at a restart, only means that the Drum sees it again.
//
// Keys should be uniform. The leading bits choose the set, so a slot has room for flags: all keys of a set
// lie within 2^64 / sets of each other, so that the low 58 bits tell them apart when there are 64 sets or
// more.
//
//	bits   meaning
//	0-57   low bits of the key
//	58     the slot is in use
//	59     referenced since the hand passed
//	60     flips when the hand passes: the hand stands at the first slot where this differs from slot 0,
//	       or at slot 0
//
// No locks: all changes are compare-and-swap of one slot. Two callers that bring the same new key at once may
// both put it in, which costs a slot and is harmless.
type RAMCache struct {
	mem   []byte
	slots []atomic.Uint64
	sets  uint64
}

const (
	setSlots = 8
	minSets  = 64

	slotKey  = 1<<58 - 1
	slotUsed = 1 << 58
	slotRef  = 1 << 59
	slotTurn = 1 << 60
)

// NewRAMCache returns an empty cache of bytes bytes, rounded down to whole sets of 64 but at least 4 KiB. The
// RAM is taken as it is touched.
func NewRAMCache(bytes int64) *RAMCache {
	c := &RAMCache{sets: uint64(max(minSets, bytes/(8*setSlots)))}
	c.mem = disk.Alloc(int(c.sets * 8 * setSlots))
	if c.mem != nil {
		_ = unix.Madvise(c.mem, unix.MADV_HUGEPAGE) // a hint; without it each probe also misses the TLB
	}
	c.slots = atomicWords(c.mem)
	return c
}

// Close frees the memory; no other call may be running.
func (c *RAMCache) Close() {
	disk.Free(c.mem)
	c.mem, c.slots, c.sets = nil, nil, 0
}

// Entries returns the number of keys that the cache has room for.
func (c *RAMCache) Entries() int64 { return int64(c.sets) * setSlots }

// TestAndSet tells whether key is among the recent ones, and makes it so. Safe for concurrent use: of several
// calls that bring in a new key at least one gets false.
func (c *RAMCache) TestAndSet(key Key) bool {
	return testAndSet(c.set(key), uint64(key)&slotKey|slotUsed)
}

// TestAndSetBatch does TestAndSet for all keys in order; seen[i] is the answer about keys[i]. Several times
// as fast as single calls when the cache is larger than the CPU's: the sets are fetched side by side.
func (c *RAMCache) TestAndSetBatch(keys []Key, seen []bool) {
	const ahead = 16
	_ = seen[:len(keys)]
	sum := uint64(0)
	for len(keys) > 0 {
		n := min(ahead, len(keys))
		for _, key := range keys[:n] {
			sum += c.set(key)[0].Load()
		}
		for i, key := range keys[:n] {
			seen[i] = testAndSet(c.set(key), uint64(key)&slotKey|slotUsed)
		}
		keys, seen = keys[n:], seen[n:]
	}
	runtime.KeepAlive(sum)
}

// set returns the cache line that key belongs to.
func (c *RAMCache) set(key Key) *[setSlots]atomic.Uint64 {
	hi, _ := bits.Mul64(uint64(key), c.sets)
	return (*[setSlots]atomic.Uint64)(c.slots[hi*setSlots:])
}

func testAndSet(set *[setSlots]atomic.Uint64, want uint64) bool {
	for {
		hand := -1
		first := set[0].Load()
		for i := range set {
			v := set[i].Load()
			if v&(slotKey|slotUsed) == want {
				if v&slotRef == 0 {
					set[i].CompareAndSwap(v, v|slotRef) // lost only to another reference or a replacement
				}
				return true
			}
			if hand < 0 && (v^first)&slotTurn != 0 {
				hand = i
			}
		}
		if insert(set, max(hand, 0), want) {
			return false
		}
	}
}

// insert puts a key in the place of the first slot from the hand on that was not referenced since the hand
// came by; false means that somebody else changed the set meanwhile.
func insert(set *[setSlots]atomic.Uint64, hand int, want uint64) bool {
	for range setSlots + 1 {
		s := &set[hand]
		v := s.Load()
		turn := ^v & slotTurn
		if v&slotRef == 0 {
			return s.CompareAndSwap(v, want|turn)
		}
		if !s.CompareAndSwap(v, v&^(slotRef|slotTurn)|turn) {
			return false
		}
		hand = (hand + 1) % setSlots
	}
	return false
}
