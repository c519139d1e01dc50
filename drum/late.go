package drum

import "slices"

// Late keys. A pass of a small crawl has a tuple or two for a bucket, and rewriting the bucket's part for a
// key costs pages. So a store with text logs keeps up to fewKeys keys a bucket beside its part, in RAM and in
// the state, as long as all buckets have at most maxFewKeys. They are entries of the cache like those in the
// part: whoever reads the part merges them in, and the next part has them.

// Bounds of the late keys: of one bucket, and of all. A state in the manifest has 21 bytes for each.
const (
	fewKeys    = 16
	maxFewKeys = 1 << 10
)

// holds reports whether the keys of the round that are new can become late keys of its bucket.
func (p *pass) holds(b *bucket) bool {
	n := len(p.round.entries)
	return p.d.opt.logged() && b.part.gen != 0 && len(b.late)+n <= fewKeys && int(p.d.lateKeys.Load())+n <= maxFewKeys
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
	for to := len(r.keys); n > 0; to-- {
		if from > 0 && r.keys[from-1] > late[n-1] {
			from--
			r.keys[to-1] = r.keys[from]
		} else {
			n--
			r.keys[to-1] = late[n]
		}
	}
}

// possibleLate reports whether a part can have its late keys.
func (ps *PartState) possibleLate(st *State) bool {
	for i, key := range ps.Late {
		if int(key>>shiftOf(st.Buckets)) != ps.Bucket || i > 0 && key <= ps.Late[i-1] {
			return false
		}
	}
	return len(ps.Late) == 0 || st.Aux == AuxLog && len(ps.Late) <= fewKeys
}
