package star

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Order is a value of PLDs by which they are ranked.
type Order int

// The orders.
const (
	ByIndegree Order = iota
	ByPages          // PLD.Fetched
	ByBytes          // PLD.Bytes
	numOrders
)

// mostRanked is the number of PLDs of the rankings by pages and by bytes. That by in-degree has Ranks+1.
const mostRanked = 1000

// Ranked is one PLD of a ranking, with the value by which it is ranked.
type Ranked struct{ PLD, Value uint64 }

// ranking holds the PLDs with the largest values of an order. It is exact, because the values only grow and
// every change is passed to set: a PLD outside the ranking has at most the lowest value in it. It takes
// memory for max PLDs, however many the crawl has.
type ranking struct {
	max     int
	at      map[uint64]int // index in heap
	heap    []Ranked       // min-heap by value
	changed bool           // since it was last cleared
}

func newRanking(max int) ranking { return ranking{max: max, at: map[uint64]int{}} }

// rankings are the rankings of all orders.
type rankings [numOrders]ranking

// newRankings returns empty rankings, that by in-degree of max PLDs.
func newRankings(max int) rankings {
	return rankings{ByIndegree: newRanking(max), ByPages: newRanking(mostRanked), ByBytes: newRanking(mostRanked)}
}

// rank records the values of a PLD that have changed.
func (r *rankings) rank(pld uint64, was, now [numOrders]uint64) {
	for order, v := range now {
		if v != was[order] {
			r[order].set(pld, v)
		}
	}
}

// set records the value of a PLD.
func (r *ranking) set(pld, value uint64) {
	// Skip PLDs below the ranking, or in it with this value. These are nearly all, without a map lookup.
	if len(r.heap) == r.max && value <= r.heap[0].Value {
		return
	}
	i, in := r.at[pld]
	if in && r.heap[i].Value == value {
		return
	}
	r.changed = true
	switch {
	case in:
		r.heap[i].Value = value
		r.down(i)
		r.up(r.at[pld])
	case len(r.heap) < r.max:
		r.heap = append(r.heap, Ranked{pld, value})
		r.at[pld] = len(r.heap) - 1
		r.up(len(r.heap) - 1)
	case value > r.heap[0].Value:
		delete(r.at, r.heap[0].PLD)
		r.heap[0] = Ranked{pld, value}
		r.at[pld] = 0
		r.down(0)
	}
}

func (r *ranking) up(i int) {
	for i > 0 && r.heap[i].Value < r.heap[(i-1)/2].Value {
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
		if c+1 < len(r.heap) && r.heap[c+1].Value < r.heap[c].Value {
			c++
		}
		if r.heap[i].Value <= r.heap[c].Value {
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

// degrees returns the values of a ranking by in-degree in descending order.
func (r *ranking) degrees() []uint32 {
	d := make([]uint32, len(r.heap))
	for i := range r.heap {
		d[i] = uint32(r.heap[i].Value)
	}
	slices.Sort(d)
	slices.Reverse(d)
	return d
}

// sorted returns a copy sorted by descending value, then by key.
func (r *ranking) sorted() []Ranked {
	s := slices.Clone(r.heap)
	slices.SortFunc(s, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.PLD, b.PLD))
	})
	return s
}

// Encoding of the ranking by in-degree in the tail, little-endian: 4 bytes with the number of PLDs; for each,
// by descending in-degree, 8 bytes key and 4 bytes in-degree; 4 bytes with the number of in-degrees of the
// current budget function; 4 bytes for each of them, descending.

func appendRanking(dst []byte, ranked []Ranked, degrees []uint32) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(ranked)))
	for _, p := range ranked {
		dst = binary.LittleEndian.AppendUint64(dst, p.PLD)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(p.Value))
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
		p := Ranked{PLD: binary.LittleEndian.Uint64(rest), Value: uint64(binary.LittleEndian.Uint32(rest[8:]))}
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

// Encoding of the rankings by pages and by bytes, one after the other: 4 bytes with the number of PLDs; for
// each, by descending value, 8 bytes key and 8 bytes value.

func appendTops(dst []byte, tops [][]Ranked) []byte {
	for _, top := range tops {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(top)))
		for _, p := range top {
			dst = binary.LittleEndian.AppendUint64(dst, p.PLD)
			dst = binary.LittleEndian.AppendUint64(dst, p.Value)
		}
	}
	return dst
}

// decodeTops decodes the rankings. No bytes are two empty ones.
func decodeTops(b []byte) (tops [numOrders - 1][]Ranked, err error) {
	bad := fmt.Errorf("rankings by pages and bytes have an invalid length, %d bytes", len(b))
	if len(b) == 0 {
		return tops, nil
	}
	for i := range tops {
		if len(b) < 4 || (len(b)-4)/16 < int(binary.LittleEndian.Uint32(b)) {
			return tops, bad
		}
		n := int(binary.LittleEndian.Uint32(b))
		b = b[4:]
		for range n {
			tops[i] = append(tops[i], Ranked{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])})
			b = b[16:]
		}
	}
	if len(b) > 0 {
		return tops, bad
	}
	return tops, nil
}
