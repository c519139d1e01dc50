package contents

import (
	"encoding/binary"
	"sync"

	"drumbeat/disk"
	"drumbeat/drum"
)

// recentBodies is a table of bodies seen lately, with the values of the store of contents. A page whose body it
// has needs no answer from the disk, and its body is not even compressed: mirrors are often crawled at the same
// time. The size is fixed: the table is a cache of sets of recentWays slots, and a new body takes the place of that of
// its set which was asked for or put longest ago. It is safe for concurrent use.
type recentBodies struct {
	mem   []byte
	sets  uint64
	locks [64]sync.Mutex // of the sets with a number modulo 64
}

// A slot is a key, its age (the number of slots in its set that were used since; 1 byte), the value's length (1 byte)
// and the value. Longer values are not kept; recentValue leaves room for a URL of 158 bytes.
const (
	recentSlot  = 192
	recentValue = recentSlot - recentHead
	recentHead  = 8 + 1 + 1
	recentWays  = 4
	recentSet   = recentWays * recentSlot
)

// newRecentBodies returns a table of the given size. One smaller than a set keeps nothing.
func newRecentBodies(bytes int64) *recentBodies {
	n := bytes / recentSet
	if n == 0 {
		return &recentBodies{}
	}
	return &recentBodies{mem: disk.Alloc(int(n) * recentSet), sets: uint64(n)}
}

func (r *recentBodies) close() {
	if r.mem != nil {
		disk.Free(r.mem)
	}
}

// set locks the set of a key and returns it. The caller unlocks it.
func (r *recentBodies) set(key drum.Key) ([]byte, *sync.Mutex) {
	n := uint64(key) % r.sets
	mu := &r.locks[n%uint64(len(r.locks))]
	mu.Lock()
	return r.mem[n*recentSet:][:recentSet], mu
}

// slotOf returns the slot of a key in a set, or nil.
func slotOf(set []byte, key drum.Key) []byte {
	for ; len(set) > 0; set = set[recentSlot:] {
		if s := set[:recentSlot]; s[9] > 0 && binary.LittleEndian.Uint64(s) == uint64(key) {
			return s
		}
	}
	return nil
}

// get appends the value of a key to dst; found is false if the table does not have it.
func (r *recentBodies) get(dst []byte, key drum.Key) (_ []byte, found bool) {
	if r.sets == 0 {
		return dst, false
	}
	set, mu := r.set(key)
	defer mu.Unlock()
	s := slotOf(set, key)
	if s == nil {
		return dst, false
	}
	use(set, s)
	return append(dst, s[recentHead:][:s[9]]...), true
}

// put keeps the value of a key, unless it is too long.
func (r *recentBodies) put(key drum.Key, value []byte) {
	if len(value) > recentValue || r.sets == 0 {
		return
	}
	set, mu := r.set(key)
	defer mu.Unlock()
	s := slotOf(set, key)
	if s == nil {
		s = oldest(set)
	}
	use(set, s)
	binary.LittleEndian.PutUint64(s, uint64(key))
	s[9] = uint8(len(value))
	copy(s[recentHead:], value)
}

// oldest returns an empty slot of a set, or that of the greatest age.
func oldest(set []byte) []byte {
	s := set[:recentSlot]
	for ; len(set) > 0; set = set[recentSlot:] {
		if set[9] == 0 {
			set[8] = recentWays
			return set[:recentSlot]
		}
		if set[8] > s[8] {
			s = set[:recentSlot]
		}
	}
	return s
}

// use makes a slot the youngest of its set.
func use(set, s []byte) {
	for age := s[8]; len(set) > 0; set = set[recentSlot:] {
		if set[9] > 0 && set[8] < age {
			set[8]++
		}
	}
	s[8] = 0
}
