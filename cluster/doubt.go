package cluster

import (
	"errors"
	"fmt"
)

// A mark is untrusted, and makes its reader drop messages, or end. So the reader refuses an impossible mark
// at first. If the node was set back, its next mark is impossible, too. If something else wrote the mark, the
// node's next mark is plausible.

// CheckTaken returns a *SetBackError if a mark names messages of node from that this node never sent. f
// describes node from's outbox for the node of the mark.
func (m *Mark) CheckTaken(from int, f *OutboxFigures) error {
	t := m.With(from).Taken
	switch {
	case t.Number > f.Durable:
		return Unsent(from, m.Node, t.Number, f.Durable)
	case t.Number < f.TakenNumber:
		return nil // an older one
	case t.Number == f.TakenNumber && t.Totals != f.Gone, !within(&f.Gone, &t.Totals), !within(&t.Totals, &f.Added):
		return disagree(from, m.Node, t.Number)
	}
	return nil
}

// within reports whether t has no more records than o.
func within(t, o *Totals) bool { return t.Links.N <= o.Links.N && t.Edges.N <= o.Edges.N }

// ErrOldMark means that a node's mark is older than one read before. It comes wrapped.
var ErrOldMark = errors.New("an older mark")

// CheckSince returns ErrOldMark if a mark that a node has read is older than last, an earlier one of the same node. A
// broker with replicas may show old marks for a moment.
func (m *Mark) CheckSince(last *Mark, reader int) error {
	if last == nil || m.Incarnation != last.Incarnation || m.Moves != last.Moves {
		return nil
	}
	old := func(what string, now, was any) error {
		return fmt.Errorf("cluster: %w of node %d: %s %d, after %d", ErrOldMark, m.Node, what, now, was)
	}
	switch {
	case m.Checkpoint < last.Checkpoint:
		return old("checkpoint", m.Checkpoint, last.Checkpoint)
	case m.Round < last.Round:
		return old("round", m.Round, last.Round)
	}
	now, was := m.With(reader), last.With(reader)
	switch {
	case now.Taken.Number < was.Taken.Number:
		return old("message received from here", now.Taken.Number, was.Taken.Number)
	case now.Out < was.Out:
		return old("records sent here", now.Out, was.Out)
	case now.Gone < was.Gone:
		return old("message dropped for this node", now.Gone, was.Gone)
	}
	return nil
}
