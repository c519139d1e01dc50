package drum

import "sync/atomic"

// recentKeys is a table of keys that were added lately to a store with text logs. Add drops tuples of these keys: such a
// key is in the store or in the input of its bucket, so a later tuple of it is not new, and the store emits only new ones.
// This stays true over passes. A checkpoint waits for every Add that has begun, so it has the earlier tuple of each one
// that was dropped before it; after a restart the table is empty. The table is safe for concurrent use.
type recentKeys struct {
	sets  [][recentWays]atomic.Uint64 // the latest key first
	shift uint
}

// recentWays is the number of keys in a set. Direct mapping forgets recent keys sooner: as if the table were half as large.
const recentWays = 2

// newRecentKeys returns a table of at most the given size in bytes.
func newRecentKeys(bytes int) *recentKeys {
	r := &recentKeys{shift: 64}
	n := 1
	for ; 2*8*recentWays*n <= bytes; n *= 2 {
		r.shift--
	}
	r.sets = make([][recentWays]atomic.Uint64, n)
	return r
}

// testAndSet notes a key and reports whether it was there. If so, another Add has appended its tuple or will do so, or
// the store has failed. Keys are hashes, and their leading bits are those of the bucket. The key 0 never is there.
// Concurrent calls may drop or repeat a key of a set.
func (r *recentKeys) testAndSet(key Key) bool {
	set := &r.sets[uint64(key)*0x9e3779b97f4a7c15>>r.shift&uint64(len(r.sets)-1)]
	last := set[0].Load()
	if last == uint64(key) {
		return key != 0
	}
	had := set[1].Load() == uint64(key) && key != 0
	set[1].Store(last)
	set[0].Store(uint64(key))
	return had
}
