package node

import (
	"bytes"
	"context"
	"fmt"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
)

// Links and edges wait in the outboxes for a node when it is forgotten. Others own its slots from then on. So each node
// passes on what waits, by the table of now: to its own stores, and to the outboxes for the others. A message leaves
// the outbox in the transaction that takes its records, so each checkpoint has them in one place. It is like a message
// that the lost node has taken and sent on.
//
// The lost node may have taken some of these messages: then the new owners of its slots get links that they would lack.
// Not passed on are parts of slots that moved to the lost node, which it has taken (a node is not forgotten before),
// loans of pages, and keys of the scope, which all nodes were sent.

// passOn passes on what waits for nodes that take part no more. It belongs to the goroutine "intake", which takes
// nothing else meanwhile: it is as fast as taking, and RAM holds one message.
func (s *intake) passOn(ctx context.Context) error {
	for node := range s.opt.nodes() {
		if !s.outs.passes(node) {
			continue
		}
		if err := s.passOutbox(ctx, node); err != nil {
			return fmt.Errorf("crawl: the outbox for node %d, which takes part no more (--give-up-node %[1]d drops "+
				"its records): %w", node, err)
		}
	}
	return nil
}

// passOutbox passes on the records of one outbox, in order, until ctx ends.
func (s *intake) passOutbox(ctx context.Context, node int) error {
	o := s.outs.boxes[node]
	transact := func(f func() error) error {
		return s.run.Transact(func(tx *account.Tx) error { tx.Nothing = true; return f() })
	}
	err := o.Order(transact)
	if err == nil {
		err = transact(o.Flush)
	}
	for err == nil && s.awaitSpace(ctx) {
		msg, ok, bad := o.First()
		switch {
		case bad != nil:
			return bad
		case !ok:
			return s.passedOn(node, o)
		}
		err = s.passMessage(o, bytes.Clone(msg))
	}
	return err
}

// passMessage passes on one message.
func (s *intake) passMessage(o *cluster.Outbox, msg []byte) error {
	h, err := cluster.ReadHeader(msg)
	if err == nil {
		s.reset(h.From)
		err = s.decoder.Records(msg, &h, s.inlet)
	}
	if err != nil {
		return err
	}
	s.inlet.Parts, s.inlet.Scopes, s.inlet.Lent = s.inlet.Parts[:0], s.inlet.Scopes[:0], 0
	s.run.Hook("passon")
	return s.run.Transact(func(tx *account.Tx) error {
		o.PassOn(&h)
		return s.takeLinks(s.inlet, tx)
	})
}

// passedOn ends the outbox for a node. Since Flush it can only have got keys of the scope.
func (s *intake) passedOn(node int, o *cluster.Outbox) error {
	return s.run.Transact(func(tx *account.Tx) error {
		o.Abandon()
		passed := o.Figures().PassedOn
		if passed.Records() == 0 { // as always at a node that has joined since
			return nil
		}
		tx.Late.Add(s.opt.Log.Info, "a node takes part no more: the records that waited for it were passed on to the "+
			"new owners of its slots", "node", node, "links", passed.Links.N, "edges", passed.Edges.N)
		return nil
	})
}
