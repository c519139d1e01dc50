package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/internal/human"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// intake takes the messages of other nodes, in order, in transactions. Its goroutine is "intake"; figures, taken
// numbers and requests are safe for concurrent use.
type intake struct {
	run       *account.Run
	opt       *Options
	space     *space.Keeper
	tables    *tables
	gone      *abandoned
	outs      *outboxes
	doubts    *doubts
	withdraw  func()                                      // crawlEnd.withdraw
	takeLinks func(in *admit.Inlet, tx *account.Tx) error // passes records to the stores; part of a transaction
	morePages func()                                      // more pages may be fetched
	wakeMark  account.Signal

	in          cluster.Intake // guarded by the transaction lock
	reading     uint64         // cluster.State.Connects when the stream was read from the beginning; the same lock
	inlet       *admit.Inlet   // this field and decoder are of the goroutine "intake"
	decoder     cluster.Decoder
	quarantine  *queue.Queue    // unreadable messages; read by the goroutine "intake"
	quarantined []atomic.Int64  // of these, those of each node
	stuck       []bool          // by node: the quarantine has no room for its next message; of the goroutine "intake"
	taken       []atomic.Int64  // records taken from each node
	takenTo     []atomic.Uint64 // number of the last message taken from each node
	requests    []atomic.Uint64 // by node, how often this one has asked it for a resend
	last        []resendRequest // by node; of the goroutine "intake"
	unreadSince time.Time       // since when the stream is not readable; the same, like unreadSaid
	unreadSaid  time.Time       // when that was last logged
	lives       []atomic.Uint64 // by node: in.IncarnationOf
}

// restore continues from the intake of a manifest, nil for a new crawl. links decides where records belong.
func (s *intake) restore(in *cluster.Intake, links *admit.Policy) error {
	n := s.opt.nodes()
	s.decoder.Reads = s.opt.reads()
	s.inlet, s.last, s.stuck = admit.NewInlet(links), make([]resendRequest, n), make([]bool, n)
	s.quarantined, s.requests = make([]atomic.Int64, n), make([]atomic.Uint64, n)
	s.taken, s.takenTo = make([]atomic.Int64, n), make([]atomic.Uint64, n)
	s.in = cluster.Intake{Taken: make([]cluster.Taken, n)}
	if in != nil {
		if len(in.Taken) > n {
			return fmt.Errorf("crawl: manifest: intake from %s, want %d: %w",
				human.Counted(len(in.Taken), "node", "nodes"), n,
				state.ErrIncompatible)
		}
		s.in = *in
		s.in.Taken = make([]cluster.Taken, n) // the mark must not follow undurable changes; the cluster may have grown
		copy(s.in.Taken, in.Taken)
	}
	s.lives = make([]atomic.Uint64, n)
	for node := range s.taken {
		s.lives[node].Store(s.in.IncarnationOf(node))
		s.takenTo[node].Store(s.in.Taken[node].Number)
		s.taken[node].Store(s.in.Taken[node].Totals.Records())
	}
	return nil
}

// incarnationOf returns the incarnation of a node whose marks are taken.
func (s *intake) incarnationOf(node int) uint64 {
	if node == s.opt.Node {
		return s.in.Incarnation
	}
	return s.lives[node].Load()
}

// bind accepts a replacement of a node if it is of a later incarnation. The transaction lock is held exclusively.
func (s *intake) bind(r *cluster.Replacement) (changed bool) {
	if changed = s.in.Bind(r, s.opt.nodes()); changed {
		s.lives[r.Node].Store(r.Incarnation)
	}
	return changed
}

// exchanged returns the accepted incarnation of a node, and what was taken from it.
func (s *intake) exchanged(node int) (cluster.Bound, cluster.Taken) {
	s.run.TxLock.RLock()
	defer s.run.TxLock.RUnlock()
	return s.in.BoundOf(node), s.in.Taken[node]
}

// freeze returns a copy of the intake, and the connection of its sequence. The transaction lock is held.
func (s *intake) freeze() (*cluster.Intake, uint64) {
	in := s.in
	in.Taken = slices.Clone(in.Taken)
	return &in, s.reading
}

// lastTaken returns the number of the last message taken from a node.
func (s *intake) lastTaken(node int) uint64 { return s.takenTo[node].Load() }

// show puts the figures of the messages of a node into a snapshot.
func (s *intake) show(p *snapshot.Pair) {
	p.Taken, p.Holes = s.taken[p.Node].Load(), int64(s.requests[p.Node].Load())
	p.Quarantined = s.quarantined[p.Node].Load()
}

// resends returns, by node, how often this one has asked for a resend.
func (s *intake) resends() []uint64 {
	all := make([]uint64, len(s.requests))
	for node := range all {
		all[node] = s.requests[node].Load()
	}
	return all
}

// readStream takes the messages of this node's stream. It waits for an unreachable broker without limit.
//
// It always reads from the beginning: purges leave the messages since the last checkpoint, and taken messages
// are skipped by their own numbers. The stream's sequences are void after a new connection: a broker that
// lost the end of the stream may have reused them for messages that other nodes sent over an earlier
// connection.
func (s *intake) readStream(ctx context.Context) error {
	e := s.opt.Transport
	if err := s.retryQuarantine(); err != nil {
		return err
	}
	if err := s.passOn(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		connects := e.State().Connects
		r, err := e.Read(ctx, s.opt.Node, 1)
		if err != nil {
			s.unread(ctx, err)
			account.Sleep(ctx, transportRetry)
			continue
		}
		s.unreadSince = time.Time{}
		if e.State().Connects != connects {
			r.Close()
			continue
		}
		err = s.run.Transact(func(tx *account.Tx) error {
			tx.Nothing = true
			s.in.Epoch, s.in.Seq, s.reading = r.Stream().Epoch, 0, connects
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

// unread says when the stream of this node has not been readable for some time though the broker answers.
func (s *intake) unread(ctx context.Context, err error) {
	now := time.Now()
	switch {
	case ctx.Err() != nil || !s.opt.Transport.State().Connected:
		s.unreadSince = time.Time{}
	case s.unreadSince.IsZero():
		s.unreadSince = now
	case now.Sub(s.unreadSince) >= unreadAfter && now.Sub(s.unreadSaid) >= doubtLogEvery:
		s.unreadSaid = now
		s.opt.Log.Error("the broker does not make or show the stream of this node, so it takes no links of the "+
			"others: does the broker have room for one more stream of --cluster-stream?", "error", err)
	}
}

// unreadAfter is much more than an election of servers takes.
const unreadAfter = 30 * time.Second

// transportRetry is the pause after an error of the transport.
const transportRetry = time.Second

// takeAll takes messages until the reader ends.
func (s *intake) takeAll(ctx context.Context, r cluster.Reader) error {
	for {
		if !s.awaitSpace(ctx) {
			return nil
		}
		if s.tables.arrived() { // what follows is for the next table
			<-ctx.Done()
			return nil
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

// awaitSpace waits while the disks are full. It returns false if ctx has ended.
func (s *intake) awaitSpace(ctx context.Context) bool {
	for s.space.Pausing() != "" {
		if !account.Sleep(ctx, space.Every) {
			return false
		}
	}
	return ctx.Err() == nil
}

// take takes one message. It refuses bytes that no node of this crawl has sent, and messages that disagree
// with earlier ones. If the records of a node's next message are unreadable, it puts the message into the
// quarantine.
func (s *intake) take(msg *cluster.Message) error {
	h, err := cluster.ReadHeader(msg.Data)
	verdict, life := cluster.Skip, uint64(0)
	if err == nil && h.From != msg.From {
		err = fmt.Errorf("crawl: %w: node %d has sent a message in the name of node %d", cluster.ErrMessage,
			msg.From, h.From)
	}
	if err == nil {
		s.run.TxLock.RLock()
		verdict, err = s.in.Judge(&h, s.opt.Crawl, s.opt.Node)
		life = s.in.IncarnationOf(h.From)
		s.run.TxLock.RUnlock()
	}
	if err == nil && verdict == cluster.Take {
		s.reset(h.From)
		if err = s.decoder.Records(msg.Data, &h, s.inlet); errors.Is(err, cluster.ErrMessage) {
			return s.quarantineMessage(msg, &h, life, err)
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
			s.opt.Log.Error("refused a message from another node", "node", msg.From, "error", err)
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
	if verdict == cluster.Take && s.gone.has(h.From) && s.tables.hasBegunWithout(h.From) {
		s.inlet.Parts = s.inlet.Parts[:0]
	}
	if verdict == cluster.Take {
		later, err := s.tables.begins(s.inlet, h.From)
		switch {
		case err != nil:
			return s.quarantineMessage(msg, &h, life, err)
		case later: // the sender keeps it
			verdict = cluster.Skip
			s.requestResend(h.From)
		}
	}
	if verdict == cluster.Take && s.inlet.Lent > 0 {
		defer s.morePages()
	}
	return s.run.Transact(func(tx *account.Tx) error {
		s.run.Hook("intake")
		s.in.Seq = msg.Seq
		if verdict != cluster.Take || s.in.IncarnationOf(h.From) != life { // its node was replaced meanwhile
			tx.Nothing = true
			return nil
		}
		s.noteTaken(&h)
		if err := s.tables.take(s.inlet, h.From, tx); err != nil {
			return err
		}
		return s.takeLinks(s.inlet, tx)
	})
}

// reset prepares the inlet for a message of a node.
func (s *intake) reset(from int) {
	s.inlet.Reset()
	s.inlet.Arriving = s.tables.comingFrom(from)
}

// noteTaken notes a taken message. It is part of a transaction.
func (s *intake) noteTaken(h *cluster.Header) {
	s.withdraw() // in the transaction, so that the agreement cannot come between
	s.in.Taken[h.From] = cluster.Taken{Number: h.Number, Totals: h.After}
	s.taken[h.From].Store(h.After.Records())
	s.takenTo[h.From].Store(h.Number)
}

// requestResend asks a node to resend all untaken messages. The time between two requests doubles until a
// message is taken.
func (s *intake) requestResend(from int) {
	if from < 0 || from >= s.opt.nodes() || from == s.opt.Node {
		return
	}
	w, now, taken := &s.last[from], time.Now(), s.takenTo[from].Load()
	if w.taken != taken {
		w.taken, w.every = taken, 0
	}
	if now.Sub(w.at) < w.every {
		return
	}
	w.at, w.every = now, min(wantMost, max(wantEvery, 2*w.every))
	s.requests[from].Add(1)
	s.wakeMark.Raise()
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
