package crawl

import (
	"encoding/binary"
	"sync"

	"drumbeat/disk"
	"drumbeat/drum"
)

// recentBodies is a table of bodies seen lately, with the values of the store of contents. A page whose body it
// has needs no answer from the disk, and its body is not even compressed: mirrors are often crawled at the same
// time. The size is fixed; a new body takes the place of another with the same slot. It is safe for concurrent use.
type recentBodies struct {
	mem   []byte
	slots uint64
	locks [64]sync.Mutex // of the slots with a number modulo 64
}

// A slot is a key, the value's length (2 bytes) and the value. Longer values are not kept; recentValue leaves room
// for a URL of 158 bytes.
const (
	recentSlot  = 192
	recentValue = recentSlot - 8 - 2
)

// newRecentBodies returns a table of the given size. One smaller than a slot keeps nothing.
func newRecentBodies(bytes int64) *recentBodies {
	n := bytes / recentSlot
	if n == 0 {
		return &recentBodies{}
	}
	return &recentBodies{mem: disk.Alloc(int(n) * recentSlot), slots: uint64(n)}
}

func (r *recentBodies) close() {
	if r.mem != nil {
		disk.Free(r.mem)
	}
}

// slot returns the slot of a key and its lock.
func (r *recentBodies) slot(key drum.Key) ([]byte, *sync.Mutex) {
	n := uint64(key) % r.slots
	return r.mem[n*recentSlot:][:recentSlot], &r.locks[n%uint64(len(r.locks))]
}

// get appends the value of a key to dst; found is false if the table does not have it.
func (r *recentBodies) get(dst []byte, key drum.Key) (_ []byte, found bool) {
	if r.slots == 0 {
		return dst, false
	}
	s, mu := r.slot(key)
	mu.Lock()
	defer mu.Unlock()
	n := binary.LittleEndian.Uint16(s[8:])
	if n == 0 || binary.LittleEndian.Uint64(s) != uint64(key) {
		return dst, false
	}
	return append(dst, s[10:][:n]...), true
}

// put keeps the value of a key, unless it is too long.
func (r *recentBodies) put(key drum.Key, value []byte) {
	if len(value) > recentValue || r.slots == 0 {
		return
	}
	s, mu := r.slot(key)
	mu.Lock()
	defer mu.Unlock()
	binary.LittleEndian.PutUint64(s, uint64(key))
	binary.LittleEndian.PutUint16(s[8:], uint16(len(value)))
	copy(s[10:], value)
}
