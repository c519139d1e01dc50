package drum

import "sync/atomic"

// recentKeys is a table of keys that were added lately to a store with text logs. Add drops tuples of these keys: such a
// key is in the store or in the input of its bucket, so a later tuple of it is not new, and the store emits only new ones.
// This stays true over passes. A checkpoint waits for every Add that has begun, so it has the earlier tuple of each one
// that was dropped before it; after a restart the table is empty. The table is safe for concurrent use.
type recentKeys struct {
	slots []atomic.Uint64
	shift uint
}

// newRecentKeys returns a table of at most the given size in bytes.
func newRecentKeys(bytes int) *recentKeys {
	r := &recentKeys{shift: 64}
	n := 1
	for ; 2*8*n <= bytes; n *= 2 {
		r.shift--
	}
	r.slots = make([]atomic.Uint64, n)
	return r
}

// testAndSet notes a key and reports whether it was there. If so, another Add has appended its tuple or will do so, or
// the store has failed. Keys are hashes, and their leading bits are those of the bucket. The key 0 never is there.
func (r *recentKeys) testAndSet(key Key) bool {
	slot := &r.slots[uint64(key)*0x9e3779b97f4a7c15>>r.shift&uint64(len(r.slots)-1)]
	if key != 0 && slot.Load() == uint64(key) {
		return true
	}
	slot.Store(uint64(key))
	return false
}
