package cache

import (
	"math/bits"

	"drumbeat/drum"
)

// keyCache is a compared cache: testAndSet returns whether it has the key, and adds it.
type keyCache interface{ testAndSet(key uint64) bool }

// ours is the crawler's own cache.
type ours struct{ *drum.RAMCache }

func (o ours) testAndSet(key uint64) bool { return o.TestAndSet(drum.Key(key)) }

// keyTable finds the slot of a key for the other caches: open addressing with linear probing, at most half
// full.
type keyTable struct {
	keys  []uint64 // keys of the slots
	used  int
	at    []uint32 // slot number plus 1; 0 means empty
	shift int
}

func newKeyTable(entries int) keyTable {
	log := bits.Len(uint(2*entries - 1))
	return keyTable{keys: make([]uint64, entries), at: make([]uint32, 1<<log), shift: 64 - log}
}

// find returns the place of a key in the table, or where to put it, and its slot, or -1.
func (t *keyTable) find(key uint64) (place uint32, slot int) {
	mask := uint32(len(t.at) - 1)
	for i := uint32(key >> t.shift); ; i++ {
		n := t.at[i&mask]
		if n == 0 {
			return i & mask, -1
		}
		if t.keys[n-1] == key {
			return i & mask, int(n - 1)
		}
	}
}

// full reports that a new key must replace an old one.
func (t *keyTable) full() bool { return t.used == len(t.keys) }

// replace assigns a slot to a new key: the next free slot, or that of the key that it evicts.
func (t *keyTable) replace(slot int, key uint64) {
	place, _ := t.find(t.keys[slot])
	t.remove(place)
	t.keys[slot] = key
	place, _ = t.find(key)
	t.at[place] = uint32(slot + 1)
}

// add assigns the next free slot to a key.
func (t *keyTable) add(place uint32, key uint64) int {
	slot := t.used
	t.used++
	t.keys[slot] = key
	t.at[place] = uint32(slot + 1)
	return slot
}

// remove empties a place and closes the gap.
func (t *keyTable) remove(place uint32) {
	mask := uint32(len(t.at) - 1)
	for next := place; ; {
		next = (next + 1) & mask
		n := t.at[next]
		if n == 0 {
			break
		}
		home := uint32(t.keys[n-1] >> t.shift)
		if (next-home)&mask >= (next-place)&mask {
			t.at[place] = n
			place = next
		}
	}
	t.at[place] = 0
}

// exactLRU evicts the least recently used key.
type exactLRU struct {
	keyTable
	list recency
}

func newExactLRU(entries int) *exactLRU { return &exactLRU{newKeyTable(entries), newRecency(entries)} }

func (c *exactLRU) testAndSet(key uint64) bool {
	place, slot := c.find(key)
	switch {
	case slot >= 0:
		c.list.touch(slot)
		return true
	case !c.full():
		c.list.add(c.add(place, key))
	default:
		slot = c.list.oldest()
		c.replace(slot, key)
		c.list.touch(slot)
	}
	return false
}

// recency is a circular doubly linked list of slots by time of use. Slot i is link i+1; link 0 is the head.
type recency struct{ newer, older []uint32 }

func newRecency(entries int) recency {
	return recency{newer: make([]uint32, entries+1), older: make([]uint32, entries+1)}
}

func (r *recency) add(slot int) {
	i := uint32(slot + 1)
	last := r.older[0]
	r.older[i], r.newer[i] = last, 0
	r.newer[last], r.older[0] = i, i
}

func (r *recency) touch(slot int) {
	i := slot + 1
	r.newer[r.older[i]], r.older[r.newer[i]] = r.newer[i], r.older[i]
	r.add(slot)
}

func (r *recency) oldest() int { return int(r.newer[0]) - 1 }

// clock is the paper's CLOCK: one hand for all keys; a key used since the last round survives one more round.
type clock struct {
	keyTable
	met  []bool
	hand int
}

func newClock(entries int) *clock { return &clock{newKeyTable(entries), make([]bool, entries), 0} }

func (c *clock) testAndSet(key uint64) bool {
	place, slot := c.find(key)
	switch {
	case slot >= 0:
		c.met[slot] = true
		return true
	case !c.full():
		c.add(place, key)
		return false
	}
	for c.met[c.hand] {
		c.met[c.hand] = false
		c.hand = (c.hand + 1) % len(c.met)
	}
	c.replace(c.hand, key)
	c.hand = (c.hand + 1) % len(c.met)
	return false
}
