package node

import (
	"sync/atomic"
	"time"

	"drumbeat/cluster"
)

// heard has the last mark and the last status of each node that this one has seen. It is safe for concurrent use.
type heard struct {
	marks    []atomic.Pointer[cluster.Mark]
	statuses []atomic.Pointer[cluster.Status]
	at       []atomic.Int64 // when a status came, by this machine's clock, Unix ns; 0: never
}

func newHeard(nodes int) *heard {
	return &heard{make([]atomic.Pointer[cluster.Mark], nodes), make([]atomic.Pointer[cluster.Status], nodes),
		make([]atomic.Int64, nodes)}
}

// mark returns the last mark of a node; nil for none.
func (h *heard) mark(node int) *cluster.Mark { return h.marks[node].Load() }

// status returns the last status of a node; nil for none.
func (h *heard) status(node int) *cluster.Status { return h.statuses[node].Load() }

// noteMark notes the mark of a node.
func (h *heard) noteMark(m *cluster.Mark) { h.marks[m.Node].Store(m) }

// forget forgets the mark of a node that was replaced.
func (h *heard) forget(node int) { h.marks[node].Store(nil) }

// noteStatus notes the status of a node.
func (h *heard) noteStatus(st *cluster.Status) {
	h.statuses[st.Node].Store(st)
	h.at[st.Node].Store(time.Now().UnixNano())
}

// silent returns how long a node has said nothing, at most upTo; 0 for one whose run has ended.
func (h *heard) silent(node int, now time.Time, upTo time.Duration) time.Duration {
	if st := h.status(node); st != nil && st.Ended != "" {
		return 0
	}
	if at := h.at[node].Load(); at > 0 {
		return max(0, min(upTo, now.Sub(time.Unix(0, at))))
	}
	return upTo
}

// missing reports whether a node has said nothing in this run, and has not said that it ended.
func (h *heard) missing(node int) bool {
	st := h.status(node)
	return h.at[node].Load() == 0 && (st == nil || st.Ended == "")
}

// all returns the last mark of each node.
func (h *heard) all() []*cluster.Mark {
	marks := make([]*cluster.Mark, len(h.marks))
	for node := range marks {
		marks[node] = h.mark(node)
	}
	return marks
}
