package drum

import (
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drumbeat/disk"
)

// RAMCache remembers recent keys: the cache of section V in front of a Drum, which drops what was sent a
// moment ago. It is set-associative: a key belongs to one set, a cache line of 8 keys, in which CLOCK chooses
// what a new key replaces. 8 bytes an entry, off the Go heap. Forgetting a key, also the whole cache at a
// restart, only means that the Drum sees it again; a hit is a proof, since whole keys are compared.
//
// Ours differs from the paper's CLOCK in two ways. The hand goes round in each set alone. And a key that was
// met again is spared rounds times by the hand, not once: with 8 keys a set, one round is so short by chance
// that links which come back after one host delay are lost, and 3 rounds win 1 to 3 points of hit rate
// around tau_h l S entries and lose nothing elsewhere ("drumbeat bench cache" shows both).
//
// Keys should be uniform. The leading bits choose the set, so a slot has room for flags: all keys of a set
// lie within 2^64 / sets of each other, so that the low 58 bits tell them apart when there are 64 sets or
// more.
//
//	bits   meaning
//	0-1    how often the hand will spare the key
//	2      flips when the hand passes: the hand stands at the first slot where this differs from slot 0,
//	       or at slot 0
//	3      the slot is in use
//	4-5    0
//	6-63   low bits of the key
//
// No locks: all changes are compare-and-swap of one slot. Two callers that bring the same new key at once may
// both put it in, which costs a slot and is harmless.
type RAMCache struct {
	mem  []byte
	sets []slotSet
}

// slotSet is a cache line.
type slotSet [setSlots]atomic.Uint64

const (
	setSlots = 8
	minSets  = 64

	rounds    = 3
	slotTurn  = 1 << 2
	slotUsed  = 1 << 3
	slotFlags = 6 // bits below the key
)

// NewRAMCache returns an empty cache of bytes bytes, rounded down to whole sets of 64 but at least 4 KiB. The
// RAM is taken as it is touched.
func NewRAMCache(bytes int64) *RAMCache {
	c := &RAMCache{mem: disk.Alloc(int(max(minSets, bytes/(8*setSlots)) * 8 * setSlots))}
	_ = unix.Madvise(c.mem, unix.MADV_HUGEPAGE) // a hint; without it each probe also misses the TLB
	c.sets = atomicSets(c.mem)
	return c
}

// Close frees the memory; no other call may be running.
func (c *RAMCache) Close() {
	disk.Free(c.mem)
	c.mem, c.sets = nil, nil
}

// Entries returns the number of keys that the cache has room for.
func (c *RAMCache) Entries() int64 { return int64(len(c.sets)) * setSlots }

// TestAndSet tells whether key is among the recent ones, and makes it so. Safe for concurrent use: of several
// calls that bring in a new key at least one gets false.
func (c *RAMCache) TestAndSet(key Key) bool { return c.sets[c.set(key)].testAndSet(key) }

// TestAndSetBatch does TestAndSet for all keys in order; seen[i] is the answer about keys[i]. Several
// times as fast as single calls when the cache is larger than the CPU's: while some sets are searched, the next
// are fetched.
func (c *RAMCache) TestAndSetBatch(keys []Key, seen []bool) {
	// About as many lines as a core fetches at once: 8 to 24 do as well, within what a run differs from the next.
	const ahead = 16
	_ = seen[:len(keys)]
	prefetchSets(c.sets, keys[:min(ahead, len(keys))])
	for len(keys) > 0 {
		n := min(ahead, len(keys))
		prefetchSets(c.sets, keys[n:min(n+ahead, len(keys))])
		for i, key := range keys[:n] {
			seen[i] = c.sets[c.set(key)].testAndSet(key)
		}
		keys, seen = keys[n:], seen[n:]
	}
}

// set returns the number of the set that key belongs to.
func (c *RAMCache) set(key Key) uint64 {
	hi, _ := bits.Mul64(uint64(key), uint64(len(c.sets)))
	return hi
}

func (s *slotSet) testAndSet(key Key) bool {
	want := uint64(key)<<slotFlags | slotUsed
	for {
		if found := s.find(want); found == 0 {
			if s.insert(want) {
				return false
			}
		} else if s.renew(bits.TrailingZeros64(found), want) {
			return true
		}
	}
}

// find returns bit i for slot i that holds a key. Without branches, since whether it is found, and where, is hard
// to foretell.
func (s *slotSet) find(want uint64) uint64 {
	return same(s[0].Load(), want) | same(s[1].Load(), want)<<1 | same(s[2].Load(), want)<<2 |
		same(s[3].Load(), want)<<3 | same(s[4].Load(), want)<<4 | same(s[5].Load(), want)<<5 |
		same(s[6].Load(), want)<<6 | same(s[7].Load(), want)<<7
}

// same is 1 if a slot in use has the key of want, and else 0.
func same(v, want uint64) uint64 { return ((v^want)>>3 - 1) >> 63 }

// renew makes the hand spare slot i, which had the key; false means that it has it no more.
func (s *slotSet) renew(i int, want uint64) bool {
	slot := &s[i%setSlots]
	v := slot.Load()
	if same(v, want) == 0 {
		return false
	}
	if v&rounds != rounds {
		slot.CompareAndSwap(v, v|rounds) // lost only to another hit or a replacement
	}
	return true
}

// hand returns the number of the slot where the hand stands.
func (s *slotSet) hand() int {
	const turn = slotTurn
	first := s[0].Load()
	differ := (s[1].Load()^first)&turn>>1 | (s[2].Load()^first)&turn | (s[3].Load()^first)&turn<<1 |
		(s[4].Load()^first)&turn<<2 | (s[5].Load()^first)&turn<<3 | (s[6].Load()^first)&turn<<4 |
		(s[7].Load()^first)&turn<<5
	return bits.TrailingZeros64(differ|1<<setSlots) % setSlots
}

// insert puts a key in the place of the first one that the hand doesn't spare; false means that somebody else
// changed the set meanwhile.
func (s *slotSet) insert(want uint64) bool {
	hand := s.hand()
	for range rounds*setSlots + 1 {
		slot := &s[hand%setSlots]
		v := slot.Load()
		if v&rounds == 0 {
			return slot.CompareAndSwap(v, want|^v&slotTurn)
		}
		if !slot.CompareAndSwap(v, (v-1)^slotTurn) {
			return false
		}
		hand++
	}
	return false
}
