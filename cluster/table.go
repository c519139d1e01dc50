package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"drumbeat/weburl"
)

// Slots is the number of parts into which the PLDs of a crawl are divided. A node owns whole slots.
const Slots = weburl.Slots

// Table maps each slot, and so all PLDs of the slot, to its owner. It is immutable: Move returns a new one.
// It is safe for concurrent use.
type Table struct {
	nodes  int
	moves  int // how often slots were moved
	owners [Slots]uint16
	// departed says, by node, which take part no more; nil: none. It is not changed.
	departed []bool
	// since has, by node, the number of the last change that moved slots to or from it; nil: not known. It is not
	// changed.
	since []int
	// divided has the divided PLDs, by name; nil: none. It is not changed.
	divided map[string]*Division
}

// NewTable divides the slots among nodes by rendezvous hashing with quotas: a node's quota is its share by
// weight, to within one slot, and each slot goes to the node with the highest score that has quota left.
// weights has one element for each node.
//
// Without quotas the largest of 64 equal nodes would have 1.28 times the mean, of 1,000 nodes 2.9 times.
func NewTable(weights []float64) (*Table, error) {
	if len(weights) < 1 || len(weights) > MaxNodes {
		return nil, fmt.Errorf("cluster: %d nodes, want 1 to %d", len(weights), MaxNodes)
	}
	for node, w := range weights {
		if !(w > 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("cluster: node %d has the weight %v, want more than 0", node, w)
		}
	}
	t := &Table{nodes: len(weights), since: make([]int, len(weights))}
	left := quotas(weights)
	for slot := range t.owners {
		best := math.Inf(-1)
		for node, w := range weights {
			if left[node] == 0 {
				continue
			}
			h := xxhash.Sum64([]byte{byte(slot), byte(slot >> 8), byte(node), byte(node >> 8)})
			u := (float64(h>>11) + 0.5) / (1 << 53) // above 0, below 1
			if score := -w / math.Log(u); score > best {
				best, t.owners[slot] = score, uint16(node)
			}
		}
		left[t.owners[slot]]--
	}
	return t, nil
}

// quotas divides the slots in proportion to weights. Slots left by rounding down go to the largest
// remainders; the first node wins a tie.
func quotas(weights []float64) []int {
	largest, sum := slices.Max(weights), 0.0
	for _, w := range weights {
		sum += w / largest // weights near the largest number have a finite sum
	}
	n, order, left := make([]int, len(weights)), make([]int, len(weights)), Slots
	remainders := make([]float64, len(weights))
	for node, w := range weights {
		part := Slots * (w / largest) / sum
		n[node], order[node] = int(part), node
		remainders[node] = part - math.Floor(part)
		left -= n[node]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	for i := range left {
		n[order[i%len(order)]]++
	}
	return n
}

// ParseTable reads the owners of the slots, 2 bytes each, little-endian.
func ParseTable(nodes int, owners []byte) (*Table, error) {
	if nodes < 1 || nodes > MaxNodes || len(owners) != 2*Slots {
		return nil, fmt.Errorf("cluster: a table of %d bytes for %d nodes", len(owners), nodes)
	}
	t := &Table{nodes: nodes}
	for slot := range t.owners {
		owner := uint16(owners[2*slot]) | uint16(owners[2*slot+1])<<8
		if int(owner) >= nodes {
			return nil, fmt.Errorf("cluster: slot %d belongs to node %d of %d", slot, owner, nodes)
		}
		t.owners[slot] = owner
	}
	return t, nil
}

// appendOwners appends the owners of the slots to dst, 2 bytes each, little-endian.
func (t *Table) appendOwners(dst []byte) []byte {
	for _, owner := range t.owners {
		dst = append(dst, byte(owner), byte(owner>>8))
	}
	return dst
}

// Nodes returns the number of nodes. Their numbers are 0 to Nodes-1.
func (t *Table) Nodes() int { return t.nodes }

// Owner returns the node that owns a PLD, given its key.
func (t *Table) Owner(pld uint64) int { return int(t.owners[weburl.Slot(pld)]) }

// Moves returns how often slots were moved to get this table.
func (t *Table) Moves() int { return t.moves }

// Move returns a table in which the slots first to last belong to a node. If from is not -1, only slots of
// node from move.
func (t *Table) Move(first, last, from, node int) (*Table, error) {
	switch {
	case first < 0 || first > last || last >= Slots:
		return nil, fmt.Errorf("cluster: slots %d-%d: want a range of 0 to %d", first, last, Slots-1)
	case node < 0 || node >= t.nodes || from < -1 || from >= t.nodes:
		return nil, fmt.Errorf("cluster: a move from node %d to node %d: want 0 to %d", from, node, t.nodes-1)
	}
	moved := *t
	moved.moves++
	for slot := first; slot <= last; slot++ {
		if from == -1 || t.OwnerOf(slot) == from {
			moved.owners[slot] = uint16(node)
		}
	}
	if moved.owners == t.owners {
		return nil, fmt.Errorf("cluster: no slot from %d to %d would move to node %d: it already owns them, or node "+
			"%d owns none", first, last, node, from)
	}
	moved.follow(t)
	return &moved, nil
}

// OwnerOf returns the node that owns a slot.
func (t *Table) OwnerOf(slot int) int { return int(t.owners[slot]) }

// Share returns the number of slots that a node owns.
func (t *Table) Share(node int) (n int) {
	for _, owner := range t.owners {
		if int(owner) == node {
			n++
		}
	}
	return n
}

// LargestShare returns the largest share of the slots that one of a number of nodes with equal weights owns.
func LargestShare(nodes int) float64 { return float64((Slots+nodes-1)/nodes) / Slots }

// Sum returns a hash by which two nodes compare their tables.
func (t *Table) Sum() uint64 {
	head := []byte{byte(t.nodes), byte(t.nodes >> 8)}
	if t.moves > 0 {
		head = fmt.Append(head, t.moves)
	}
	if gone := t.Departed(); len(gone) > 0 {
		head = fmt.Append(head, gone)
	}
	for _, d := range t.divisionForms() {
		head = fmt.Append(head, d.PLD, " ", d.Slot, d.Nodes)
	}
	return xxhash.Sum64(t.appendOwners(head))
}
