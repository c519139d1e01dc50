package drum

import "slices"

// Late keys. A pass of a small crawl has a tuple or two for a bucket, and rewriting the bucket's part for a
// key costs pages. One that finds a few new keys for a large part would code all its keys again, at 4 ns
// each. So a store with text logs keeps some keys beside a bucket's part, in RAM and in the state. They are
// entries of the cache like those in the part: whoever reads the part merges them in, and the next part has
// them.

// Bounds of the late keys. A bucket has at most fewKeys, or a share of its part's keys, but not more than
// manyKeys; all buckets together have maxLateKeys, and at most a round of each worker more. A state in the
// manifest has 21 bytes for each.
const (
	fewKeys     = 16
	lateShare   = 64
	manyKeys    = 1 << 11
	maxLateKeys = 1 << 13
)

// mostLate returns how many late keys a bucket may have whose part has so many keys.
func mostLate(keys int64) int64 { return min(manyKeys, max(fewKeys, keys/lateShare)) }

// holds reports whether the keys of the round that are new can become late keys of its bucket.
func (p *pass) holds(b *bucket) bool {
	n := len(p.round.entries)
	return p.d.opt.logged() && b.part.gen != 0 && int64(len(b.late)+n) <= mostLate(b.part.keys) &&
		int(p.d.lateKeys.Load())+n <= maxLateKeys
}

// withLate returns the late keys of a bucket together with those held back by a merge. The slices do not share memory,
// because a Frozen may hold the first.
func withLate(late, held []uint64) []uint64 {
	if len(held) == 0 {
		return late
	}
	all := slices.Concat(late, held)
	slices.Sort(all)
	return all
}

// mergeLate adds to the current block the late keys below its last one. The rest belongs to later blocks, or follows
// the last.
func (r *partReader) mergeLate() {
	n, _ := slices.BinarySearch(r.late, r.last)
	if n == 0 {
		return
	}
	late, from := r.late[:n], len(r.keys)
	r.late = r.late[n:]
	r.keys = r.keys[:from+n]
	for ; n > 0; n-- { // from the last one on, so that each key of the block moves once
		at, _ := slices.BinarySearch(r.keys[:from], late[n-1])
		copy(r.keys[at+n:], r.keys[at:from])
		r.keys[at+n-1] = late[n-1]
		from = at
	}
}

// possibleLate reports whether a part can have its late keys.
func (ps *PartState) possibleLate(st *State) bool {
	for i, key := range ps.Late {
		if int(key>>shiftOf(st.Buckets)) != ps.Bucket || i > 0 && key <= ps.Late[i-1] {
			return false
		}
	}
	return len(ps.Late) == 0 || st.Aux == AuxLog && int64(len(ps.Late)) <= mostLate(ps.Keys)
}
