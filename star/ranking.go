package star

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Ranked is one PLD of the ranking.
type Ranked struct {
	PLD      uint64
	Indegree uint32
}

// ranking holds the PLDs with the largest in-degrees. It is exact, because in-degrees only grow and every
// change is passed to set: a PLD outside the ranking has at most the lowest in-degree in it.
type ranking struct {
	max     int
	at      map[uint64]int // index in heap
	heap    []Ranked       // min-heap by in-degree
	changed bool           // since it was last cleared
}

func newRanking(max int) ranking { return ranking{max: max, at: map[uint64]int{}} }

// set records the in-degree of a PLD.
func (r *ranking) set(pld uint64, degree uint32) {
	// Skip PLDs below the ranking, or in it with this in-degree. These are nearly all, without a map lookup.
	if len(r.heap) == r.max && degree <= r.heap[0].Indegree {
		return
	}
	i, in := r.at[pld]
	if in && r.heap[i].Indegree == degree {
		return
	}
	r.changed = true
	switch {
	case in:
		r.heap[i].Indegree = degree
		r.down(i)
		r.up(r.at[pld])
	case len(r.heap) < r.max:
		r.heap = append(r.heap, Ranked{pld, degree})
		r.at[pld] = len(r.heap) - 1
		r.up(len(r.heap) - 1)
	case degree > r.heap[0].Indegree:
		delete(r.at, r.heap[0].PLD)
		r.heap[0] = Ranked{pld, degree}
		r.at[pld] = 0
		r.down(0)
	}
}

func (r *ranking) up(i int) {
	for i > 0 && r.heap[i].Indegree < r.heap[(i-1)/2].Indegree {
		r.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (r *ranking) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(r.heap) {
			return
		}
		if c+1 < len(r.heap) && r.heap[c+1].Indegree < r.heap[c].Indegree {
			c++
		}
		if r.heap[i].Indegree <= r.heap[c].Indegree {
			return
		}
		r.swap(i, c)
		i = c
	}
}

func (r *ranking) swap(i, j int) {
	r.heap[i], r.heap[j] = r.heap[j], r.heap[i]
	r.at[r.heap[i].PLD], r.at[r.heap[j].PLD] = i, j
}

// degrees returns the in-degrees in descending order.
func (r *ranking) degrees() []uint32 {
	d := make([]uint32, len(r.heap))
	for i := range r.heap {
		d[i] = r.heap[i].Indegree
	}
	slices.Sort(d)
	slices.Reverse(d)
	return d
}

// sorted returns a copy sorted by descending in-degree, then by key.
func (r *ranking) sorted() []Ranked {
	s := slices.Clone(r.heap)
	slices.SortFunc(s, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Indegree, a.Indegree), cmp.Compare(a.PLD, b.PLD))
	})
	return s
}

// Encoding in the tail, little-endian: 4 bytes with the number of PLDs; for each, by descending in-degree,
// 8 bytes key and 4 bytes in-degree; 4 bytes with the number of in-degrees of the current budget function;
// 4 bytes for each of them, descending.

func appendRanking(dst []byte, ranked []Ranked, degrees []uint32) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(ranked)))
	for _, p := range ranked {
		dst = binary.LittleEndian.AppendUint64(dst, p.PLD)
		dst = binary.LittleEndian.AppendUint32(dst, p.Indegree)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(degrees)))
	for _, d := range degrees {
		dst = binary.LittleEndian.AppendUint32(dst, d)
	}
	return dst
}

func decodeRanking(b []byte) (ranked []Ranked, degrees []uint32, err error) {
	bad := func() ([]Ranked, []uint32, error) {
		return nil, nil, fmt.Errorf("ranking has an invalid length, %d bytes", len(b))
	}
	if len(b) < 4 {
		return bad()
	}
	n := int(binary.LittleEndian.Uint32(b))
	rest := b[4:]
	if len(rest) < 12*n+4 {
		return bad()
	}
	for range n {
		p := Ranked{PLD: binary.LittleEndian.Uint64(rest), Indegree: binary.LittleEndian.Uint32(rest[8:])}
		ranked = append(ranked, p)
		rest = rest[12:]
	}
	n = int(binary.LittleEndian.Uint32(rest))
	rest = rest[4:]
	if len(rest) != 4*n {
		return bad()
	}
	for range n {
		degrees = append(degrees, binary.LittleEndian.Uint32(rest))
		rest = rest[4:]
	}
	return ranked, degrees, nil
}
