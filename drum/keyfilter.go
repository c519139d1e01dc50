package drum

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"drumbeat/disk"
)

// KeyFilter tells keys that were never added from those that may have been: a Bloom filter in front of a Drum
// whose new keys need no answer from the disk. Its size is fixed. The more keys it holds, the more new ones it
// takes for known: 1 in 80 at 10 bits a key, 1 in 3 at 4, 3 in 4 at 2.4.
//
// The eight bits of a key lie in one cache line, one in each word, so a test costs one miss (Putze, Sanders and
// Singler, "Cache-, hash- and space-efficient Bloom filters", 2007). Keys should be uniform.
type KeyFilter struct {
	mem   []byte
	lines []filterLine
}

type filterLine [8]atomic.Uint64

const filterLineBytes = 64

// filterSalts make eight bit numbers of the lower half of a key: odd numbers without pattern.
var filterSalts = [8]uint32{0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f, 0x165667b1, 0xd3a2646d, 0xfd7046c5, 0xb55a4f09}

// NewKeyFilter returns an empty filter of the given size, rounded down to whole cache lines but at least one.
// It takes RAM as it is touched.
func NewKeyFilter(size int64) *KeyFilter {
	n := max(1, size/filterLineBytes)
	f := &KeyFilter{mem: disk.Alloc(int(n) * filterLineBytes)}
	f.lines = unsafe.Slice((*filterLine)(unsafe.Pointer(&f.mem[0])), n)
	return f
}

// Close frees the memory. No other call may be running.
func (f *KeyFilter) Close() {
	disk.Free(f.mem)
	f.mem, f.lines = nil, nil
}

// Add adds a key and reports whether it may have been added before; false is certain. It is safe for concurrent
// use. Of several concurrent calls with one new key, more than one may return false.
func (f *KeyFilter) Add(key Key) (maybe bool) {
	at, _ := bits.Mul64(uint64(key), uint64(len(f.lines)))
	line, low := &f.lines[at], uint32(key)
	maybe = true
	for i, salt := range filterSalts {
		bit := uint64(1) << (low * salt >> 26)
		if line[i].Load()&bit == 0 {
			line[i].Or(bit)
			maybe = false
		}
	}
	return maybe
}
