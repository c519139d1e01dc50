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

const (
	// smallSort is the largest number of entries for which insertion is faster than another radix pass.
	smallSort = 24
	// scatterBits is the width of the widest digit of scatter, and scatterMost its largest number of entries: with the
	// counts they fit in a core's L2 cache.
	scatterBits = 12
	scatterMost = 1 << scatterBits
)

// sorter sorts the entries of rounds. It has 72 KiB of memory.
type sorter struct {
	// anyArrival leaves entries of one key in any order.
	anyArrival bool

	copy   [scatterMost]entry
	counts [scatterMost]uint16
}

// sort sorts by key, and within a key by order of arrival unless anyArrival is set. It is a radix sort that starts at
// the highest differing bits: in place, until a group fits in the copy.
func (s *sorter) sort(es []entry) {
	for len(es) > smallSort {
		var diff uint64
		first := es[0].key
		for i := range es {
			diff |= es[i].key ^ first
		}
		if diff == 0 {
			if !s.anyArrival {
				s.sortArrival(es)
			}
			return
		}
		if len(es) <= scatterMost {
			s.scatter(es, diff)
			return
		}
		const width = 8
		shift := uint(max(0, bits.Len64(diff)-width))
		var ends [1 << width]uint32
		permute(es, shift, &ends)
		es = s.groups(es, ends[:])
	}
	insertionSort(es)
}

// groups sorts all groups but the largest, which it returns. So the depth is logarithmic for any keys.
func (s *sorter) groups(es []entry, ends []uint32) (rest []entry) {
	largest, start := 0, uint32(0)
	for _, end := range ends {
		group := es[start:end]
		start = end
		if len(group) > largest {
			largest = len(group)
			group, rest = rest, group
		}
		s.sort(group)
	}
	return rest
}

// scatter sorts at most scatterMost entries whose keys differ in the bits of diff. It distributes them by a digit with
// about as many values as there are entries, so that hardly any is far from its place. Insertion does the rest, unless
// the keys are far from uniform.
func (s *sorter) scatter(es []entry, diff uint64) {
	width := min(scatterBits, bits.Len(uint(len(es))))
	shift, mask := uint(max(0, bits.Len64(diff)-width)), uint64(1)<<width-1
	next := s.counts[:1<<width]
	clear(next)
	for i := range es {
		next[es[i].key>>shift&mask]++
	}
	sum, most := uint16(0), uint16(0)
	for d, n := range next {
		next[d] = sum
		sum += n
		most = max(most, n)
	}
	to := s.copy[:len(es)]
	for i := range es {
		d := es[i].key >> shift & mask
		to[next[d]] = es[i]
		next[d]++
	}
	copy(es, to)
	if most <= smallSort {
		insertionSort(es)
		return
	}
	for start := 0; start < len(es); {
		end, d := start+1, es[start].key>>shift
		for end < len(es) && es[end].key>>shift == d {
			end++
		}
		s.sort(es[start:end])
		start = end
	}
}

// permute distributes es in place by the digit (key >> shift) mod 256. ends[d] becomes the end of group d.
func permute(es []entry, shift uint, ends *[256]uint32) {
	var next [256]uint32
	const mask = 255
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
	// Every step puts one entry into its group. A step does not wait for the load of the one before, as it would if it
	// followed the entry that it displaces.
	for left := true; left; {
		left = false
		for d, end := range ends {
			for i := next[d]; i < end; i++ {
				left = true
				e := es[i]
				g := e.key >> shift & mask
				at := next[g]
				next[g]++
				es[i], es[at] = es[at], e
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
func (s *sorter) sortArrival(es []entry) {
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
	s.sort(es) // the keys are now distinct
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
