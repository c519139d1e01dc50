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
//
// The first keys go to a small part. In the large part each of them would touch a memory page of its own: 4 KiB of RAM
// and two page faults, 2 to 3 µs a key in a virtual machine, where a key in the small part takes 0.04 µs.
type KeyFilter struct {
	mem          []byte
	small, large []filterLine
	room         atomic.Int64 // number of keys that small still takes
}

type filterLine [8]atomic.Uint64

const (
	filterLineBytes = 64
	// smallShare is the part of the lines that is small.
	smallShare = 64
	// smallLineKeys is how many keys a line of small takes: at 25 bits a key, 1 in 2,500 others is taken for known.
	smallLineKeys = 20
)

// filterSalts make eight bit numbers of the lower half of a key: odd numbers without pattern.
var filterSalts = [8]uint32{0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f, 0x165667b1, 0xd3a2646d,
	0xfd7046c5, 0xb55a4f09}

// NewKeyFilter returns an empty filter of the given size, rounded down to whole cache lines but at least one.
// It takes RAM as it is touched.
func NewKeyFilter(size int64) *KeyFilter {
	n := max(1, size/filterLineBytes)
	f := &KeyFilter{mem: disk.Alloc(int(n) * filterLineBytes)}
	lines := unsafe.Slice((*filterLine)(unsafe.Pointer(&f.mem[0])), n)
	f.small, f.large = lines[:n/smallShare], lines[n/smallShare:]
	f.room.Store(int64(len(f.small)) * smallLineKeys)
	return f
}

// Close frees the memory. No other call may be running.
func (f *KeyFilter) Close() {
	disk.Free(f.mem)
	f.mem, f.small, f.large = nil, nil, nil
}

// Add adds a key and reports whether it may have been added before; false is certain. It is safe for concurrent
// use. Of several concurrent calls with one new key, more than one may return false.
func (f *KeyFilter) Add(key Key) (maybe bool) {
	if f.room.Load() > 0 {
		if maybe = lineOf(f.small, key).add(key); !maybe {
			f.room.Add(-1)
		}
		return maybe
	}
	return len(f.small) > 0 && lineOf(f.small, key).has(key) || lineOf(f.large, key).add(key)
}

func lineOf(lines []filterLine, key Key) *filterLine {
	at, _ := bits.Mul64(uint64(key), uint64(len(lines)))
	return &lines[at]
}

// filterBit returns the bit of a key in a word of its line, given the word's salt.
func filterBit(key Key, salt uint32) uint64 { return 1 << (uint32(key) * salt >> 26) }

// has reports whether the line has all bits of a key.
func (l *filterLine) has(key Key) bool {
	for i, salt := range filterSalts {
		if l[i].Load()&filterBit(key, salt) == 0 {
			return false
		}
	}
	return true
}

// add sets the bits of a key and reports whether the line had all of them.
func (l *filterLine) add(key Key) (had bool) {
	had = true
	for i, salt := range filterSalts {
		if bit := filterBit(key, salt); l[i].Load()&bit == 0 {
			l[i].Or(bit)
			had = false
		}
	}
	return had
}
