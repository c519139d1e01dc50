package weburl

import "math/bits"

// Slots is the number of parts into which the PLDs of a crawl of several nodes are divided. A node owns whole slots.
const Slots = 1 << slotBits

// Keys with slots have that of their PLD in slotBits bits from slotShift on (Hasher.WithSlots). The bits above choose
// the buckets of stores, and those below choose among few alternatives: both stay uniform on a node that has only some
// slots.
const (
	slotBits  = 12
	slotShift = 16
	slotMask  = (Slots - 1) << slotShift
)

// Slot returns the slot of a PLD by its key. It depends on all bits of the key, because the stores of a node
// use the upper and the lower ones to spread their keys.
func Slot(pld uint64) int {
	hi, lo := bits.Mul64(pld, 0x9e3779b97f4a7c15)
	return int((hi ^ lo) >> (64 - slotBits))
}

// SlotOf returns the slot in a key of a URL, a host or an origin. The key must come from a hasher with slots.
func SlotOf(key uint64) int { return int(key & slotMask >> slotShift) }

// WithSlots returns a hasher whose keys of URLs, hosts and origins hold the slot of their PLD, as crawls of several
// nodes need it: what a node keeps by key alone can be told by slot, and moved to another node. Two such keys of one
// slot differ in 52 bits instead of 64. All other keys are the same.
func (h *Hasher) WithSlots(suffixes *Suffixes) *Hasher {
	with := *h
	with.suffixes = suffixes
	return &with
}

// slotted puts the slot of a host into a key, if the keys have slots.
func (h *Hasher) slotted(key uint64, host []byte) uint64 {
	if h.suffixes == nil {
		return key
	}
	return withSlot(key, h.PLDKey(h.suffixes.PLDBytes(host)))
}

// withSlot puts the slot of a PLD, by its key, into a key.
func withSlot(key, pld uint64) uint64 { return key&^slotMask | uint64(Slot(pld))<<slotShift }
