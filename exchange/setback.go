package exchange

import "fmt"

// SetBackError means that a node was set back to an older copy of its directories. Then it has forgotten what other
// nodes rely on: messages that it has sent, or has taken. The crawl cannot go on with these directories.
type SetBackError struct {
	Node, Peer int // the pair of nodes in which it shows; Peer is -1 if it shows in Node's own mark
	Back       int // the node that was set back; -1: Node or Peer
	Why        string
}

func (e *SetBackError) Error() string {
	if e.Back < 0 {
		return fmt.Sprintf("exchange: %s: node %d or node %d was set back to an older copy of its directories", e.Why, e.Node, e.Peer)
	}
	return fmt.Sprintf("exchange: %s: node %d was set back to an older copy of its directories", e.Why, e.Back)
}

// Unsent is the error if node to has taken a message that node from has not sent.
func Unsent(from, to int, taken, last uint64) *SetBackError {
	return &SetBackError{Node: from, Peer: to, Back: from,
		Why: fmt.Sprintf("node %d has taken message %d of node %d, which has sent only %d", to, taken, from, last)}
}

// disagree is the error if two nodes know a message by other records.
func disagree(from, to int, number uint64) *SetBackError {
	return &SetBackError{Node: from, Peer: to, Back: -1,
		Why: fmt.Sprintf("message %d of node %d to node %d has other records than node %d has taken or expects", number, from, to, to)}
}

// dropped is the error if node to has not taken messages that node from has dropped, because to had them.
func dropped(from, to int, taken, gone uint64) *SetBackError {
	return &SetBackError{Node: from, Peer: to, Back: to,
		Why: fmt.Sprintf("node %d has taken %d messages of node %d, which has dropped %d, because node %d had them", to, taken, from, gone, to)}
}

// CheckGone returns a *SetBackError if a node has not taken from the sender of a mark what that one has dropped, because
// the node had it. taken is what the node has taken, durable or not.
func (m *Mark) CheckGone(node int, taken uint64) error {
	if gone := m.Gone[node]; gone > taken {
		return dropped(m.Node, node, taken, gone)
	}
	return nil
}

// CheckOwn returns a *SetBackError if a node in a life, whose last checkpoint has the number checkpoint, finds its own mark
// of a later one. A mark is written after its checkpoint is durable.
func (m *Mark) CheckOwn(incarnation, checkpoint uint64) error {
	if m.Incarnation < incarnation || m.Incarnation == incarnation && m.Checkpoint <= checkpoint {
		return nil
	}
	return &SetBackError{Node: m.Node, Peer: -1, Back: m.Node,
		Why: fmt.Sprintf("node %d continues at checkpoint %d, but has told the other nodes of checkpoint %d", m.Node, checkpoint, m.Checkpoint)}
}

// Sent is what a sender keeps of its messages to one receiver.
type Sent struct {
	Out, Gone  Totals
	Dropped    Totals // because the receiver was given up
	Abandoned  bool
	Last       uint64   // number of the last whole message
	GoneNumber uint64   // of the last that the receiver has for good
	Sums       []uint64 // of OutboxFound
}

// Check compares what node from has sent with what node to has taken, given that both have stopped at checkpoints of
// any time. It returns a *SetBackError if what was taken is not a part of what was sent, or lacks what was dropped.
// It returns the records that were not taken.
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
	case t.Number-s.GoneNumber > uint64(len(s.Sums)):
		return above, fmt.Errorf("exchange: node %d has no sums of message %d to node %d: %w", from, t.Number, to, ErrMessage)
	}
	sum := s.Sums[t.Number-s.GoneNumber-1]
	if sum != 0 && sum != t.Totals.hash() { // 0: lost, which the audit of the sender says
		return above, disagree(from, to, t.Number)
	}
	return above, nil
}
