package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/exchange"
)

// The intake of a node of a cluster: what other nodes send it.

// readStream takes the messages of this node's stream. It waits for an engine that is away as long as it takes.
//
// It always reads from the beginning, where purges leave what came since the last checkpoint; messages that were taken
// are skipped by their own numbers. The stream's numbers tell nothing after a new connection: a broker that lost the end of the
// stream may have used them again for messages that nodes with an earlier connection have sent.
func (s *clusterStage) readStream(ctx context.Context) error {
	e := s.opt.Cluster.Engine
	for ctx.Err() == nil {
		connects := e.State().Connects
		r, err := e.Read(ctx, s.node, 1)
		if err != nil {
			sleep(ctx, engineEvery)
			continue
		}
		if e.State().Connects != connects {
			r.Close()
			continue
		}
		err = s.transact(func(tx *transaction) error {
			tx.nothing = true
			s.intake.Epoch, s.intake.Seq, s.reading = r.Stream().Epoch, 0, connects
			return nil
		})
		if err == nil {
			err = s.takeAll(ctx, r)
		}
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// engineEvery is the pause after an error of the engine.
const engineEvery = time.Second

// takeAll takes messages until the reader ends.
func (s *clusterStage) takeAll(ctx context.Context, r exchange.Reader) error {
	for {
		for s.space.pausing() != "" {
			if !sleep(ctx, spaceEvery) {
				return nil
			}
		}
		msg, err := r.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				sleep(ctx, engineEvery)
			}
			return nil
		}
		if err := s.take(&msg); err != nil {
			return err
		}
	}
}

// take takes one message. Bytes that no node of this crawl has sent are refused.
func (s *clusterStage) take(msg *exchange.Message) error {
	h, err := exchange.ReadHeader(msg.Data)
	verdict := exchange.Skip
	if err == nil && h.From != msg.From {
		err = fmt.Errorf("crawl: %w: node %d has sent a message of node %d", exchange.ErrMessage, msg.From, h.From)
	}
	if err == nil {
		s.txLock.RLock()
		verdict, err = s.intake.Judge(&h, s.opt.Cluster.Crawl, s.node)
		s.txLock.RUnlock()
	}
	if err == nil && verdict == exchange.Take {
		s.inlet.Reset()
		err = s.decoder.Records(msg.Data, &h, s.inlet)
	}
	switch {
	case errors.Is(err, exchange.ErrMessage):
		s.opt.Log.Error("a message of another node is refused", "node", msg.From, "error", err)
		s.wants(msg.From)
		verdict = exchange.Skip
	case err != nil:
		return err
	case verdict == exchange.Hole:
		s.wants(h.From)
	}
	if verdict == exchange.Take && s.inlet.Lent > 0 {
		defer s.dispatcher.morePages()
	}
	return s.transact(func(tx *transaction) error {
		s.testHook("intake")
		s.intake.Seq = msg.Seq
		if verdict != exchange.Take {
			tx.nothing = true
			return nil
		}
		s.withdraw() // in the transaction: agreeToEnd must not come between
		s.intake.Taken[h.From] = exchange.Taken{Number: h.Number, Totals: h.After}
		s.taken[h.From].Store(h.After.Records())
		s.takenTo[h.From].Store(h.Number)
		return s.seen.takeLinks(s.inlet, tx)
	})
}

// wants asks a node to send again what was not taken.
func (s *clusterStage) wants(from int) {
	if from < 0 || from >= s.nodes || from == s.node {
		return
	}
	s.markMu.Lock()
	again := time.Since(s.wanted[from]) >= wantEvery
	if again {
		s.want[from]++
		s.wanted[from] = time.Now()
	}
	s.markMu.Unlock()
	if again {
		s.wakeMark.raise()
	}
}

// wantEvery bounds how often a node asks another to send everything again: each message after a gap would ask.
const wantEvery = 5 * time.Second

// takeLinks sends the records of a message to URLseen, the store of names and STAR. It is part of a transaction.
func (s *seenStage) takeLinks(in *admit.Inlet, tx *transaction) error {
	for _, key := range in.Scopes {
		s.links.Sites.Extend(key)
	}
	tx.count(state.CountPagesBorrowed, in.Lent)
	tx.count(state.CountLinksTaken, int64(len(in.Tuples)))
	if s.drains() {
		tx.count(state.CountLinksDraining, int64(len(in.Tuples)))
		return nil
	}
	if len(in.Tuples) > 0 {
		if err := s.urlSeen.Add(in.Tuples); err != nil {
			return err
		}
		tx.count(state.CountLinksChecked, int64(len(in.Tuples)))
		s.seenMeter.added.Add(int64(len(in.Tuples)))
		s.seenMeter.text.Add(in.Text)
		tx.wake(s.merges)
	}
	if err := s.sendNames(&in.Names, tx); err != nil {
		return err
	}
	tx.count(state.CountEdgesTaken, int64(len(in.Edges)))
	if len(in.Edges) == 0 {
		return nil
	}
	return s.budgets.addEdges(in.Edges)
}
