package cluster

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Over reports whether the crawl is over, given the last marks of all nodes (nil: none). It is over if a node
// has found it over, in this node's round or a later one, or if all nodes are quiet and have agreed to the same
// marks, these.
//
// The marks may be of different times. A node agrees while it has nothing to do, its mark is complete (it counts all
// that the node has sent and received), and the last marks of all nodes are Quiet. Agreement stands for their terms
// and sums. From then on the node begins no work and sends nothing until it withdraws, which ends its term. It
// withdraws only after it reads a new term of another node, or that another node is not idle, or takes a message. A
// node that has not agreed ends its term, too, when its mark says other sums, or that it is no longer idle.
//
// Suppose that Over holds. Each node had the sums of its mark here when the first node agreed, since that node had read
// them, and it has them in its mark here; sums only grow, so it sent and received nothing between. At that moment the
// sums say that nothing was on its way. Consider the first node X that ends its term after its mark here.
//   - If X read a new term of Y, or that Y is not idle, it read it after the term to which it agreed, the one of Y's
//     mark here, since terms are never reused. So Y ended its term before X: a contradiction.
//   - If X took a message, its sender sent it after that moment, and so after the end of its term: a contradiction.
//
// The sums alone, without agreement to the same ones, prove nothing: one mark may count a record as received that
// another, older one does not count as sent.
//
// The proof fails for a process that is killed after its mark. It also fails for the mark that a node left at
// the end of a crawl that later continues: that node may start with more work. So a node that begins a round
// waits for marks of that round before it calls Over, and calls it only if all have taken what it sent. The
// mark of a node that has ended counts as agreed.
//
// Programs from before PairsVersion agree to terms alone, and find the end by whole marks of all nodes: while one takes
// part, each pair of nodes must have sent and received the same.
//
// Abandoned nodes do not count: abandoned has one element for each node, or is nil.
func Over(marks []*Mark, abandoned []bool, round int64) bool {
	if slices.ContainsFunc(marks, func(m *Mark) bool { return m != nil && m.Done && m.Round >= round }) {
		return true
	}
	if !Quiet(marks, abandoned) {
		return false
	}
	waits := func(node int) bool { return abandoned == nil || !abandoned[node] }
	all := Agreement(marks, abandoned)
	for node, m := range marks {
		switch {
		case !waits(node) || m.Done || m.AgreedTo == all:
		case m.AgreedTo != 0 || len(m.Agreed) != len(marks):
			return false
		default:
			for other, term := range m.Agreed {
				if waits(other) && term != marks[other].Term {
					return false
				}
			}
		}
	}
	return true
}

// Agreement returns a hash of what nodes agree to: terms and sums of marks that are Quiet. It is not 0.
func Agreement(marks []*Mark, abandoned []bool) uint64 {
	gone := func(node int) bool { return abandoned != nil && abandoned[node] }
	var data []byte
	for node, m := range marks {
		if !gone(node) {
			received, sent, _ := m.sums(gone)
			for _, n := range []uint64{uint64(node), m.Term, uint64(received), uint64(sent)} {
				data = binary.LittleEndian.AppendUint64(data, n)
			}
		}
	}
	return xxhash.Sum64(data) | 1
}

// EndedWith reports whether all other nodes, except abandoned ones, have found the crawl over, and one of
// them agreed to the given term of node, which has read their marks. The round does not matter.
func EndedWith(marks []*Mark, abandoned []bool, node int, term uint64) (with bool) {
	for other, m := range marks {
		switch {
		case other == node || abandoned != nil && abandoned[other]:
		case m == nil || !m.Done:
			return false
		case m.With(node).Agreed == term:
			with = true
		}
	}
	return with
}

// Quiet reports whether all nodes, except abandoned ones, are idle and, as far as these marks tell, have taken all
// records of all outboxes.
func Quiet(marks []*Mark, abandoned []bool) bool {
	gone := func(node int) bool { return abandoned != nil && abandoned[node] }
	var onWay int64
	whole := true
	for node, m := range marks {
		if gone(node) {
			continue
		}
		if m == nil || !m.Idle {
			return false
		}
		received, sent, known := m.sums(gone)
		if !known {
			return false
		}
		onWay += sent - received
		whole = whole && m.Whole()
	}
	if onWay != 0 || !whole {
		return onWay == 0
	}
	for to, m := range marks {
		for from := range marks {
			if from != to && !gone(from) && !gone(to) && m.Taken[from].Totals.Records() != marks[from].Out[to] {
				return false
			}
		}
	}
	return true
}

// Terms returns the terms of marks; 0 without a mark.
func Terms(marks []*Mark) []uint64 {
	terms := make([]uint64, len(marks))
	for node, m := range marks {
		if m != nil {
			terms[node] = m.Term
		}
	}
	return terms
}
