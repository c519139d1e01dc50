package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// MarkSums is in the head of a mark in place of the entries.
type MarkSums struct {
	Nodes int `json:"nodes"` // number of entries
	// Records received from all nodes, and sent to all, but for those that the node has abandoned.
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
	// Resends is the sum of ResendRequests, so that the head changes with them.
	Resends uint64 `json:"resends,omitempty"`
}

// Pair is a mark's entry for one other node.
type Pair struct {
	Taken   Taken  `json:"taken"`            // from it
	Out     int64  `json:"out"`              // to it
	Gone    uint64 `json:"gone"`             // number of the last message to it that was dropped
	Resends uint64 `json:"want,omitempty"`   // ResendRequests
	Agreed  uint64 `json:"agreed,omitempty"` // its term, in Agreed
}

// Whole reports whether the mark has the entries of all nodes.
func (m *Mark) Whole() bool { return m.Sums == nil }

// With returns the mark's entry for a node: for a head that of the node that has read it. It is empty if the mark is of
// a table without that node.
func (m *Mark) With(node int) (p Pair) {
	switch {
	case !m.Whole():
		if m.Pair != nil {
			p = *m.Pair
		}
		return p
	case node < len(m.Taken) && node < len(m.Out) && node < len(m.Gone) && node < len(m.ResendRequests):
		p = Pair{Taken: m.Taken[node], Out: m.Out[node], Gone: m.Gone[node], Resends: m.ResendRequests[node]}
		if node < len(m.Agreed) {
			p.Agreed = m.Agreed[node]
		}
	}
	return p
}

// Head returns the head of a whole mark.
func (m *Mark) Head() *Mark {
	h := *m
	h.V = PairsVersion
	h.Sums = &MarkSums{Nodes: len(m.Taken)}
	h.Sums.Received, h.Sums.Sent, _ = m.sums(m.abandons)
	h.Sums.Resends = m.resends()
	h.Taken, h.Out, h.Gone, h.ResendRequests, h.Agreed = nil, nil, nil, nil, nil
	return &h
}

// abandons reports whether the node of the mark has abandoned another one.
func (m *Mark) abandons(node int) bool { return slices.Contains(m.Abandoned, node) }

// sums returns the records that the node of the mark has received from all nodes, and sent to all, without those that
// its reader has abandoned. known is false if they cannot be computed: the head is of a node that has abandoned others.
func (m *Mark) sums(abandoned func(int) bool) (received, sent int64, known bool) {
	if !m.Whole() {
		return m.Sums.Received, m.Sums.Sent, m.AbandonsAs(abandoned)
	}
	for node := range m.Taken {
		if node != m.Node && !abandoned(node) {
			received += m.Taken[node].Totals.Records()
			sent += m.Out[node]
		}
	}
	return received, sent, true
}

// AbandonsAs reports whether the node of a mark has abandoned the same nodes as the reader.
func (m *Mark) AbandonsAs(abandoned func(int) bool) bool {
	n := len(m.Taken)
	if !m.Whole() {
		n = m.Sums.Nodes
	}
	for node := range n {
		if m.abandons(node) != abandoned(node) {
			return false
		}
	}
	return true
}

// The value "pairs.<node>" is the head, as JSON, a line feed, an entry of pairBytes for each node, and the xxHash64 of
// all before. An entry has, little-endian: the number and the totals of Taken, Out, Gone, Resends, Agreed.
const pairBytes = 8 + 48 + 4*8

// EncodePairs returns the value "pairs.<node>" of a whole mark.
func (m *Mark) EncodePairs() ([]byte, error) {
	data, err := m.Head().Encode()
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	for node := range m.Taken {
		p := m.With(node)
		data = p.Taken.Totals.append(binary.LittleEndian.AppendUint64(data, p.Taken.Number))
		for _, n := range []uint64{uint64(p.Out), p.Gone, p.Resends, p.Agreed} {
			data = binary.LittleEndian.AppendUint64(data, n)
		}
	}
	return binary.LittleEndian.AppendUint64(data, xxhash.Sum64(data)), nil
}

// DecodePairs decodes the value "pairs.<node>" of a node in a cluster of nodes. The value is untrusted.
func DecodePairs(node int, data []byte, nodes int) (*Mark, error) {
	head, entries, _ := bytes.Cut(data, []byte{'\n'})
	m, err := DecodeMark(MarkKey(node), head, nodes)
	if err != nil {
		return nil, err
	}
	n := (len(entries) - 8) / pairBytes
	if m.Whole() || n < 1 || n > nodes || len(entries) != n*pairBytes+8 ||
		binary.LittleEndian.Uint64(entries[n*pairBytes:]) != xxhash.Sum64(data[:len(data)-8]) {
		return nil, fmt.Errorf("cluster: %s is damaged", PairsKey(node))
	}
	m.Sums, m.Agreed = nil, make([]uint64, n)
	for i := range n {
		b := entries[i*pairBytes:]
		at := func(field int) uint64 { return binary.LittleEndian.Uint64(b[56+8*field:]) }
		m.Taken = append(m.Taken, Taken{Number: binary.LittleEndian.Uint64(b), Totals: decodeTotals(b[8:])})
		m.Out, m.Gone = append(m.Out, int64(at(0))), append(m.Gone, at(1))
		m.ResendRequests, m.Agreed[i] = append(m.ResendRequests, at(2)), at(3)
	}
	if !slices.ContainsFunc(m.Agreed, func(term uint64) bool { return term != 0 }) {
		m.Agreed = nil
	}
	if n < nodes { // from before the cluster grew
		m.pad(nodes)
	}
	if !m.valid(nodes) {
		return nil, fmt.Errorf("cluster: %s is not the mark of one of %d nodes", PairsKey(node), nodes)
	}
	return m, nil
}

// ReadMark reads the whole mark of a node; nil: there is none that this program reads, or the broker has lost its
// entries. The error is that of the transport.
func ReadMark(ctx context.Context, e Transport, node, nodes int) (*Mark, error) {
	v, err := e.Get(ctx, BucketCrawl, MarkKey(node))
	if err != nil {
		return nil, unless(err, ErrNotFound)
	}
	head, err := DecodeMark(v.Key, v.Data, nodes)
	if err != nil {
		return nil, nil
	}
	if head.Whole() {
		return head, nil
	}
	if v, err = e.Get(ctx, BucketCrawl, PairsKey(node)); err != nil {
		return nil, unless(err, ErrNotFound)
	}
	m, err := DecodePairs(node, v.Data, nodes)
	if err != nil || m.Before(head) {
		return nil, nil
	}
	return m, nil
}

// unless returns err unless it is except.
func unless(err, except error) error {
	if errors.Is(err, except) {
		return nil
	}
	return err
}

// Joined returns a head of a node together with the entries of m, a whole mark of that node: with all of them if whole
// is set, otherwise with that of reader. It returns m if that is of a later checkpoint, and nil if the entries are
// older than the head.
func (m *Mark) Joined(head *Mark, reader int, whole bool) *Mark {
	if m.Before(head) {
		return nil
	}
	j, p := *head, m.With(reader)
	switch {
	case head.Before(m):
		j = *m
	case m.AgreedTo != head.AgreedTo || m.resends() < head.Sums.Resends:
		return nil
	case whole:
		j.Sums, j.Taken, j.Out, j.Gone = nil, m.Taken, m.Out, m.Gone
		j.ResendRequests, j.Agreed = m.ResendRequests, m.Agreed
	default:
		j.Pair = &p
	}
	j.Revision = head.Revision
	return &j
}

// resends returns the sum of ResendRequests.
func (m *Mark) resends() (sum uint64) {
	if !m.Whole() {
		return m.Sums.Resends
	}
	for _, n := range m.ResendRequests {
		sum += n
	}
	return sum
}

// Before reports whether a mark is of an earlier checkpoint than a head of the same node.
func (m *Mark) Before(head *Mark) bool {
	return m.Incarnation < head.Incarnation || m.Incarnation == head.Incarnation && m.Checkpoint < head.Checkpoint
}
