package drum

import "sync/atomic"

// recentKeys is a table of keys that were added lately to a store with text logs. It tells that a key has waited
// before; if it does not know, nothing is lost but space. A key that it has is in the store or before in the input
// of its bucket, so a later tuple of that key is not new, and its text need not be kept. This stays true over passes
// and checkpoints. It is safe for concurrent use.
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

// slot returns the slot of a key. Keys are hashes, and the leading bits are those of the bucket.
func (r *recentKeys) slot(key Key) *atomic.Uint64 {
	return &r.slots[uint64(key)*0x9e3779b97f4a7c15>>r.shift&uint64(len(r.slots)-1)]
}

// has reports whether the key was put lately. The key 0 never was.
func (r *recentKeys) has(key Key) bool { return key != 0 && r.slot(key).Load() == uint64(key) }

// put notes a key whose tuple is in its bucket's input.
func (r *recentKeys) put(key Key) { r.slot(key).Store(uint64(key)) }
