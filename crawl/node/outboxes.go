package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/star"
	"drumbeat/state"
)

// outboxes has the records for other nodes. A record stays in the outbox for its node until a durable
// checkpoint of that node covers it. The goroutines are "publish-<node>" for each other node.
//
// The records are guarded by the transaction lock; an outbox has its own lock for its figures.
type outboxes struct {
	run        *account.Run
	opt        *Options
	gone       *abandoned
	doubts     *doubts
	recentEdge func(e star.Edge) bool // an earlier transaction has sent it
	boxes      []*cluster.Outbox      // by node; nil for this one
	publishers []*cluster.Publisher   // by node; nil for this one and for abandoned ones
}

// open makes the publishers, which publish once ready is closed. The outboxes must be open.
func (b *outboxes) open(ready chan struct{}) {
	for node, o := range b.boxes {
		if o == nil || b.gone.has(node) {
			continue
		}
		p := cluster.NewPublisher()
		p.Outbox, p.Transport, p.ResendAfter, p.Ready = o, b.opt.Transport, b.opt.ResendAfter, ready
		p.Doubt = b.doubts.totals
		p.Waits = func(err error, pause time.Duration) {
			b.opt.Log.Debug("waiting to publish", "error", err, "pause", pause)
		}
		p.Transact = func(f func() error) error {
			return b.run.Transact(func(tx *account.Tx) error { tx.Nothing = true; return f() })
		}
		b.publishers[node] = p
	}
}

// start starts the goroutines.
func (b *outboxes) start(ctx context.Context) {
	for node, p := range b.publishers {
		if p != nil {
			b.run.Start(ctx, fmt.Sprintf("publish-%d", node), p.Run)
		}
	}
}

// send moves the links and edges of other nodes from a page's batch to the outboxes. It is part of the page's
// transaction.
func (b *outboxes) send(batch *admit.Batch, tx *account.Tx) error {
	own := batch.Tuples[:0]
	for i, t := range batch.Tuples {
		node := int(batch.Nodes[i])
		if node == b.opt.Node {
			own = append(own, t)
		} else if err := b.link(node, uint64(t.Key), t.Aux, tx); err != nil {
			return err
		}
	}
	batch.Tuples = own
	for i := range batch.Away {
		e := &batch.Away[i]
		if b.recentEdge(e.Recent) {
			continue
		}
		if err := b.edge(e.Node, e.From, e.To, tx); err != nil {
			return err
		}
	}
	for _, key := range batch.Extended {
		for _, o := range b.boxes {
			if o != nil {
				if err := o.AddScope(key); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sendOn puts the records of a message that other nodes own into their outboxes. It is part of a transaction.
func (b *outboxes) sendOn(in *admit.Inlet, tx *account.Tx) error {
	for i := range in.Onward.Links {
		l := &in.Onward.Links[i]
		if err := b.link(l.Node, l.Key, l.Record, tx); err != nil {
			return err
		}
	}
	for i := range in.Onward.Edges {
		e := &in.Onward.Edges[i]
		if err := b.edge(e.Node, e.From, e.To, tx); err != nil {
			return err
		}
	}
	tx.Count(state.CountLinksTaken, int64(len(in.Onward.Links)))
	tx.Count(state.CountEdgesTaken, int64(len(in.Onward.Edges)))
	return nil
}

// link puts a link into the outbox for a node.
func (b *outboxes) link(node int, key uint64, record []byte, tx *account.Tx) error {
	tx.Count(state.CountLinksSent, 1)
	if b.gone.has(node) {
		tx.Count(state.CountLinksAbandoned, 1)
	}
	return b.boxes[node].AddLink(key, record)
}

// handOut puts a URL that this node has found new into the outbox for the node that visits its host.
func (b *outboxes) handOut(node int, key uint64, record []byte, tx *account.Tx) error {
	tx.Count(state.CountLinksSent, 1)
	if b.gone.has(node) {
		tx.Count(state.CountLinksAbandoned, 1)
	}
	return b.boxes[node].AddChecked(key, record)
}

// edge puts an edge into the outbox for a node.
func (b *outboxes) edge(node int, from, to []byte, tx *account.Tx) error {
	tx.Count(state.CountEdgesSent, 1)
	if b.gone.has(node) {
		tx.Count(state.CountEdgesAbandoned, 1)
	}
	return b.boxes[node].AddEdge(from, to)
}

// dropAbandoned empties the outboxes for abandoned nodes. Those for nodes that take part no more are passed on, unless
// the operator abandons these nodes, too. No goroutine of the node runs yet.
func (b *outboxes) dropAbandoned() error {
	for _, node := range b.gone.nodes() {
		o := b.boxes[node]
		if o.Abandoned() || b.gone.hasLeft(node) && !slices.Contains(b.opt.Abandoned, node) {
			continue
		}
		if err := b.run.Transact(func(tx *account.Tx) error {
			dropped := o.Abandon()
			tx.Count(state.CountLinksAbandoned, dropped.Links.N)
			tx.Count(state.CountEdgesAbandoned, dropped.Edges.N)
			tx.Late.Add(b.opt.Log.Warn, "a node was abandoned: dropped the records waiting for it; further links "+
				"to its sites are dropped too", "node", node, "links", dropped.Links.N, "edges", dropped.Edges.N)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// passes reports whether the records for a node are passed on to others, because it takes part no more.
func (b *outboxes) passes(node int) bool { return b.gone.hasLeft(node) && !b.boxes[node].Abandoned() }

// passing reports whether records wait to be passed on, so that the crawl cannot be over.
func (b *outboxes) passing() bool {
	for node := range b.boxes {
		if b.passes(node) {
			return true
		}
	}
	return false
}

// waiting returns how many records another node has not yet made durable.
func (b *outboxes) waiting(node int) int64 {
	f := b.boxes[node].Figures()
	return f.Waiting()
}

// lend adds a loan of n pages to the outbox for another node, in a transaction. It returns the number of its message.
func (b *outboxes) lend(node int, n int64) (number uint64, _ error) {
	err := b.boxes[node].AddPages(n)
	return b.lastNumber(node), err
}

// checkTaken returns an error if a mark of another node disagrees with its outbox.
func (b *outboxes) checkTaken(m *cluster.Mark) error {
	o := b.boxes[m.Node]
	if o.Abandoned() {
		return nil
	}
	f := o.Figures()
	return m.CheckTaken(b.opt.Node, &f)
}

// dropped reports whether the outbox for a node has dropped its records.
func (b *outboxes) dropped(node int) bool { return b.boxes[node].Abandoned() }

// counts returns the number of records added to each outbox.
func (b *outboxes) counts() []int64 {
	outs := make([]int64, len(b.boxes))
	for node, o := range b.boxes {
		if o != nil {
			f := o.Figures()
			outs[node] = f.Added.Records()
		}
	}
	return outs
}

// goneNumbers returns, for each outbox, the number of the last message that its node has made durable.
func (b *outboxes) goneNumbers() []uint64 {
	gones := make([]uint64, len(b.boxes))
	for node, o := range b.boxes {
		if o != nil {
			gones[node] = o.Figures().TakenNumber
		}
	}
	return gones
}

// lastNumber returns the number of the last message of an outbox, which may still be open; 0 for this node.
func (b *outboxes) lastNumber(node int) uint64 {
	if b.boxes[node] == nil {
		return 0
	}
	f := b.boxes[node].Figures()
	if f.OpenBytes > 0 {
		return f.Last + 1
	}
	return f.Last
}

// unpublished returns how much awaits a checkpoint, before it can be published; records is not 0 if anything does.
func (b *outboxes) unpublished() (records, bytes int64) {
	for _, o := range b.boxes {
		if o != nil {
			f := o.Figures()
			records += int64(f.Last-f.Durable) + f.OpenBytes
			bytes += f.OpenBytes
			if f.Last > f.Durable {
				bytes += f.Bytes
			}
		}
	}
	return records, bytes
}

// flush ends the open messages, so that the next checkpoint covers all records.
func (b *outboxes) flush() error {
	return b.run.Transact(func(tx *account.Tx) error {
		tx.Nothing = true
		for _, o := range b.boxes {
			if o != nil {
				if err := o.Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// wake tells the publishers of a durable checkpoint.
func (b *outboxes) wake() {
	for _, p := range b.publishers {
		if p != nil {
			p.Wake()
		}
	}
}

// mark gives the publisher for a node its mark.
func (b *outboxes) mark(m *cluster.Mark) {
	if p := b.publishers[m.Node]; p != nil {
		p.Mark(m)
	}
}
