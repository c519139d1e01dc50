package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/state"
)

// The intake of a node of a cluster: messages from other nodes.

// readStream takes the messages of this node's stream. It waits for an unreachable broker without limit.
//
// It always reads from the beginning: purges leave the messages since the last checkpoint, and taken messages
// are skipped by their own numbers. The stream's sequences are void after a new connection: a broker that
// lost the end of the stream may have reused them for messages that other nodes sent over an earlier
// connection.
func (s *clusterStage) readStream(ctx context.Context) error {
	e := s.opt.Cluster.Transport
	if err := s.retryQuarantine(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		connects := e.State().Connects
		r, err := e.Read(ctx, s.node, 1)
		if err != nil {
			account.Sleep(ctx, transportRetry)
			continue
		}
		if e.State().Connects != connects {
			r.Close()
			continue
		}
		err = s.Transact(func(tx *account.Tx) error {
			tx.Nothing = true
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

// transportRetry is the pause after an error of the transport.
const transportRetry = time.Second

// takeAll takes messages until the reader ends.
func (s *clusterStage) takeAll(ctx context.Context, r cluster.Reader) error {
	for {
		for s.space.Pausing() != "" {
			if !account.Sleep(ctx, space.Every) {
				return nil
			}
		}
		msg, err := r.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				account.Sleep(ctx, transportRetry)
			}
			return nil
		}
		if err := s.take(&msg); err != nil {
			return err
		}
	}
}

// take takes one message. It refuses bytes that no node of this crawl has sent, and messages that disagree
// with earlier ones. If the records of a node's next message are unreadable, it puts the message into the
// quarantine.
func (s *clusterStage) take(msg *cluster.Message) error {
	h, err := cluster.ReadHeader(msg.Data)
	verdict := cluster.Skip
	if err == nil && h.From != msg.From {
		err = fmt.Errorf("crawl: %w: node %d has sent a message of node %d", cluster.ErrMessage, msg.From, h.From)
	}
	if err == nil {
		s.TxLock.RLock()
		verdict, err = s.intake.Judge(&h, s.opt.Cluster.Crawl, s.node)
		s.TxLock.RUnlock()
	}
	if err == nil && verdict == cluster.Take {
		s.inlet.Reset()
		if err = s.decoder.Records(msg.Data, &h, s.inlet); errors.Is(err, cluster.ErrMessage) {
			return s.quarantineMessage(msg, &h, err)
		}
	}
	back := (*cluster.SetBackError)(nil)
	switch {
	case errors.As(err, &back):
		if err := s.doubts.doubted(h.From, doubtMessage, 0, err); err != nil {
			return err
		}
		s.requestResend(h.From)
	case errors.Is(err, cluster.ErrMessage):
		if s.doubts.refuse(msg.From, logUnreadable, false) {
			s.opt.Observe.Log.Error("a message of another node is refused", "node", msg.From, "error", err)
		}
		s.requestResend(msg.From)
		verdict = cluster.Skip
	case err != nil:
		return err
	case verdict == cluster.Hole && !s.stuck[h.From]:
		s.requestResend(h.From)
	case verdict == cluster.Take:
		s.doubts.clear(h.From, doubtMessage)
		s.stuck[h.From] = false
	}
	if verdict == cluster.Take && s.inlet.Lent > 0 {
		defer s.dispatcher.morePages()
	}
	return s.Transact(func(tx *account.Tx) error {
		s.Hook("intake")
		s.intake.Seq = msg.Seq
		if verdict != cluster.Take {
			tx.Nothing = true
			return nil
		}
		s.noteTaken(&h)
		return s.seen.takeLinks(s.inlet, tx)
	})
}

// noteTaken notes a taken message. It is part of a transaction.
func (s *clusterStage) noteTaken(h *cluster.Header) {
	s.withdraw() // in the transaction, so that agreeToEnd cannot come between
	s.intake.Taken[h.From] = cluster.Taken{Number: h.Number, Totals: h.After}
	s.taken[h.From].Store(h.After.Records())
	s.takenTo[h.From].Store(h.Number)
}

// requestResend asks a node to resend all untaken messages. The time between two requests doubles until a
// message is taken.
func (s *clusterStage) requestResend(from int) {
	if from < 0 || from >= s.nodes || from == s.node {
		return
	}
	s.markMu.Lock()
	w, now, taken := &s.lastRequests[from], time.Now(), s.takenTo[from].Load()
	if w.taken != taken {
		w.taken, w.every = taken, 0
	}
	again := now.Sub(w.at) >= w.every
	if again {
		s.resendRequests[from]++
		w.at, w.every = now, min(wantMost, max(wantEvery, 2*w.every))
	}
	s.markMu.Unlock()
	if again {
		s.wakeMark.Raise()
	}
}

// Bounds of the time between two requests for a resend to one node. Without them, each message after a gap
// would cause one.
const (
	wantEvery = 5 * time.Second
	wantMost  = 5 * time.Minute
)

// resendRequest describes the last request for a resend to a node.
type resendRequest struct {
	at    time.Time
	every time.Duration // least time until the next request
	taken uint64        // number of the last taken message at that time
}

// takeLinks passes the records of a message to URLseen, the store of names and STAR. It is part of a
// transaction.
func (s *seenStage) takeLinks(in *admit.Inlet, tx *account.Tx) error {
	for _, key := range in.Scopes {
		s.links.Sites.Extend(key)
	}
	tx.Count(state.CountPagesBorrowed, in.Lent)
	tx.Count(state.CountLinksTaken, int64(len(in.Tuples)))
	if s.drains() {
		tx.Count(state.CountLinksDraining, int64(len(in.Tuples)))
		return nil
	}
	if len(in.Tuples) > 0 {
		if err := s.urlSeen.Add(in.Tuples); err != nil {
			return err
		}
		tx.Count(state.CountLinksChecked, int64(len(in.Tuples)))
		s.seenMeter.added.Add(int64(len(in.Tuples)))
		s.seenMeter.text.Add(in.Text)
		tx.Wake(s.merges)
	}
	if err := s.sendNames(&in.Names, tx); err != nil {
		return err
	}
	tx.Count(state.CountEdgesTaken, int64(len(in.Edges)))
	if len(in.Edges) == 0 {
		return nil
	}
	return s.budgets.addEdges(in.Edges)
}
