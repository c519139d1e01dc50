package node

import (
	"sync/atomic"

	"drumbeat/cluster"
)

// heard has the last mark and the last status of each node that this one has seen. It is safe for concurrent use.
type heard struct {
	marks    []atomic.Pointer[cluster.Mark]
	statuses []atomic.Pointer[cluster.Status]
}

func newHeard(nodes int) *heard {
	return &heard{make([]atomic.Pointer[cluster.Mark], nodes), make([]atomic.Pointer[cluster.Status], nodes)}
}

// mark returns the last mark of a node; nil for none.
func (h *heard) mark(node int) *cluster.Mark { return h.marks[node].Load() }

// status returns the last status of a node; nil for none.
func (h *heard) status(node int) *cluster.Status { return h.statuses[node].Load() }

// noteMark notes the mark of a node.
func (h *heard) noteMark(m *cluster.Mark) { h.marks[m.Node].Store(m) }

// noteStatus notes the status of a node.
func (h *heard) noteStatus(st *cluster.Status) { h.statuses[st.Node].Store(st) }

// all returns the last mark of each node.
func (h *heard) all() []*cluster.Mark {
	marks := make([]*cluster.Mark, len(h.marks))
	for node := range marks {
		marks[node] = h.mark(node)
	}
	return marks
}
