package cluster

import "fmt"

// SetBackError means that a node was set back to an older copy of its directories. It has forgotten messages
// that it sent or took, and on which other nodes rely. The crawl cannot continue with these directories.
type SetBackError struct {
	Node, Peer int // the pair of nodes whose accounts disagree; Peer is -1 if only Node's own mark does
	Back       int // the node that was set back; -1: Node or Peer
	Why        string
}

func (e *SetBackError) Error() string {
	if e.Back < 0 {
		return fmt.Sprintf("cluster: %s: node %d or node %d was set back to an older copy of its directories", e.Why,
			e.Node, e.Peer)
	}
	return fmt.Sprintf("cluster: %s: node %d was set back to an older copy of its directories", e.Why, e.Back)
}

// Unsent is the error for a message that node to has taken, and node from has not sent.
func Unsent(from, to int, taken, last uint64) *SetBackError {
	return &SetBackError{Node: from, Peer: to, Back: from,
		Why: fmt.Sprintf("node %d has received message %d from node %d, which has sent only %d", to, taken, from, last)}
}

// disagree is the error for a message whose records differ on two nodes.
func disagree(from, to int, number uint64) *SetBackError {
	return &SetBackError{Node: from, Peer: to, Back: -1,
		Why: fmt.Sprintf("the records of message %d from node %d to node %d differ from those node %d received",
			number, from, to, to)}
}

// dropped is the error for messages that node from dropped because node to had them, and node to has not
// taken.
func dropped(from, to int, taken, gone uint64) *SetBackError {
	return &SetBackError{Node: from, Peer: to, Back: to,
		Why: fmt.Sprintf("node %d has received %d messages from node %d, which dropped %d as confirmed by node %d",
			to, taken, from, gone, to)}
}

// CheckGone returns a *SetBackError if the sender of a mark has dropped messages that a node has not taken.
// The sender drops messages only after the node made them durable. taken is the node's account, durable or
// not.
func (m *Mark) CheckGone(node int, taken uint64) error {
	if gone := m.With(node).Gone; gone > taken {
		return dropped(m.Node, node, taken, gone)
	}
	return nil
}

// CheckOwn returns a *SetBackError if the node's own mark is of a later checkpoint than its last, in the same
// incarnation. A mark is written after its checkpoint is durable.
func (m *Mark) CheckOwn(incarnation, checkpoint uint64) error {
	if m.Incarnation < incarnation || m.Incarnation == incarnation && m.Checkpoint <= checkpoint {
		return nil
	}
	return &SetBackError{Node: m.Node, Peer: -1, Back: m.Node,
		Why: fmt.Sprintf("node %d continues at checkpoint %d, but its mark names checkpoint %d", m.Node,
			checkpoint, m.Checkpoint)}
}

// Sent is a sender's account of its messages to one receiver.
type Sent struct {
	Out, Gone  Totals
	PassedOn   Totals // of Gone: to others, because the receiver takes part no more
	Dropped    Totals // because the receiver was abandoned
	Abandoned  bool
	Last       uint64   // number of the last whole message
	GoneNumber uint64   // of the last message that the receiver has made durable
	Sums       []uint64 // of OutboxFound
	Unsummed   bool     // Sums are not known: the sender runs
}

// Check compares the messages that node from sent with those that node to took. Both nodes have stopped, at
// checkpoints of any time. It returns a *SetBackError if node to took unsent messages, or lacks dropped ones.
// Otherwise it returns the untaken records.
func (s *Sent) Check(from, to int, t Taken) (above Totals, _ error) {
	above = s.Out
	above.Sub(t.Totals)
	switch {
	case t.Number > s.Last:
		return above, Unsent(from, to, t.Number, s.Last)
	case t.Number < s.GoneNumber:
		return above, dropped(from, to, t.Number, s.GoneNumber)
	case t.Number == s.GoneNumber:
		if t.Totals != s.Gone {
			return above, disagree(from, to, t.Number)
		}
		return above, nil
	case s.Unsummed:
		return above, nil
	case t.Number-s.GoneNumber > uint64(len(s.Sums)):
		return above, fmt.Errorf("cluster: node %d has no sums of message %d to node %d: %w", from, t.Number,
			to, ErrMessage)
	}
	sum := s.Sums[t.Number-s.GoneNumber-1]
	if sum != 0 && sum != t.Totals.hash() { // 0: lost; the audit of the sender reports it
		return above, disagree(from, to, t.Number)
	}
	return above, nil
}
