package drum

import "math/bits"

// entry is one tuple of a round: its key, and its arrival number with flags in the low bits. Sorting takes
// no other memory, so a round takes 16 bytes per tuple; the paper takes H + P = 12.
type entry struct {
	key uint64
	tag uint64
}

const entryBytes = 16

// Low bits of a tag.
const (
	tagOp    = 3 // the two bits of Op
	tagNew   = 4
	tagFound = 8
	tagShift = 4
)

// newEntry returns the entry of the tuple with arrival number n.
func newEntry(key, n uint64, op Op) entry { return entry{key, n<<tagShift | uint64(op)} }

func (e *entry) arrival() uint64 { return e.tag >> tagShift }

func (e *entry) op() Op { return Op(e.tag & tagOp) }

// smallSort is the largest number of entries for which insertion is faster than another radix pass.
const smallSort = 24

// sortEntries sorts by key, and within a key by order of arrival. It is an in-place radix sort that starts
// at the highest differing bits.
func sortEntries(es []entry) {
	for len(es) > smallSort {
		var diff uint64
		first := es[0].key
		for i := range es {
			diff |= es[i].key ^ first
		}
		if diff == 0 {
			sortArrival(es)
			return
		}
		// The digit starts at the highest differing bit and leaves about 8 entries per group.
		width := min(8, max(1, bits.Len(uint(len(es)))-3))
		shift := uint(max(0, bits.Len64(diff)-width))
		var ends [256]uint32
		permute(es, shift, ends[:1<<width])
		largest, start := 0, uint32(0)
		var rest []entry
		for _, end := range ends[:1<<width] {
			group := es[start:end]
			start = end
			// The loop handles the largest group, without recursion. So the depth is logarithmic for any
			// keys.
			if len(group) > largest {
				largest = len(group)
				group, rest = rest, group
			}
			sortEntries(group)
		}
		es = rest
	}
	insertionSort(es)
}

// permute distributes es in place by the digit (key >> shift) mod len(ends), a power of 2. ends[d] becomes
// the end of group d. Wider digits need fewer passes, but then each entry is a cache miss on which the next
// one depends: 2 passes of 9 bits take longer than 3 of 6.
func permute(es []entry, shift uint, ends []uint32) {
	var counts [256]uint32
	next, mask := counts[:len(ends)], uint64(len(ends)-1)
	for i := range es {
		next[es[i].key>>shift&mask]++
	}
	sum := uint32(0)
	for d := range next {
		n := next[d]
		next[d] = sum
		sum += n
		ends[d] = sum
	}
	for d := range next {
		for i := next[d]; i < ends[d]; i = next[d] {
			e := es[i]
			for {
				g := e.key >> shift & mask
				at := next[g]
				next[g]++
				if g == uint64(d) {
					es[at] = e
					break
				}
				e, es[at] = es[at], e
			}
		}
	}
}

// insertionSort sorts a few entries by key and order of arrival.
func insertionSort(es []entry) {
	for i := 1; i < len(es); i++ {
		e := es[i]
		j := i
		for ; j > 0 && (es[j-1].key > e.key || es[j-1].key == e.key && es[j-1].tag > e.tag); j-- {
			es[j] = es[j-1]
		}
		es[j] = e
	}
}

// sortArrival sorts the entries of one key by order of arrival. It sorts with the tags as keys.
func sortArrival(es []entry) {
	key, sorted := es[0].key, true
	for i := 1; i < len(es) && sorted; i++ {
		sorted = es[i-1].tag < es[i].tag
	}
	if sorted {
		return
	}
	for i := range es {
		es[i].key = es[i].tag
	}
	sortEntries(es) // the keys are now distinct
	for i := range es {
		es[i].key = key
	}
}

// restoreArrival restores the order of arrival of sorted entries with the numbers 0 to len(es)-1.
func restoreArrival(es []entry) {
	for i := range es {
		for es[i].arrival() != uint64(i) {
			j := es[i].arrival()
			es[i], es[j] = es[j], es[i]
		}
	}
}
