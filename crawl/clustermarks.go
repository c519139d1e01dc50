package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// The checkpoints of a node of a cluster, and its marks.

// freeze copies the stage's state. It also decides whether the crawl is idle at the moment of the checkpoint.
func (s *clusterStage) freeze(m *moment) {
	if !s.on() {
		return
	}
	in := s.intake
	in.Taken = slices.Clone(in.Taken)
	m.intake, m.reading, m.idle, m.outs, m.full = &in, s.reading, s.doneHere() ||
		s.quiet(), s.outCounts(), s.full.Load()
}

// outCounts returns the number of records added to each outbox.
func (s *clusterStage) outCounts() []int64 {
	outs := make([]int64, s.nodes)
	for node, o := range s.outboxes {
		if o != nil {
			f := o.Figures()
			outs[node] = f.Added.Records()
		}
	}
	return outs
}

// goneNumbers returns, for each outbox, the number of the last message that its node has made durable.
func (s *clusterStage) goneNumbers() []uint64 {
	gones := make([]uint64, s.nodes)
	for node, o := range s.outboxes {
		if o != nil {
			gones[node] = o.Figures().TakenNumber
		}
	}
	return gones
}

// flush ends the open messages, so that the next checkpoint covers all records.
func (s *clusterStage) flush() error {
	if !s.on() {
		return nil
	}
	return s.Transact(func(tx *account.Tx) error {
		tx.Nothing = true
		for _, o := range s.outboxes {
			if o != nil {
				if err := o.Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkpointed tells the other nodes, and this node's publishers, of a durable checkpoint.
func (s *clusterStage) checkpointed(gen uint64, m *moment) {
	if !s.on() {
		return
	}
	s.noteMark(gen, m)
	for _, p := range s.publishers {
		if p != nil {
			p.Wake()
		}
	}
}

// end tells the other nodes that this one has found the crawl over. They find it themselves, too, unless the
// broker loses marks.
func (s *clusterStage) end(ctx context.Context) {
	if !s.on() {
		return
	}
	told := func(m *cluster.Mark) bool { return m.Done }
	s.conclude(ctx, func(m *cluster.Mark) {
		if m.Done = true; m.Agreed == nil { // another node found it over: name the agreed terms
			m.Agreed = cluster.Terms(s.lastMarks())
			m.Agreed[s.node] = m.Term
		}
	}, told)
}

// conclude changes the last mark, writes it, and waits until the marks of all nodes have the change.
func (s *clusterStage) conclude(ctx context.Context, change func(m *cluster.Mark), told func(m *cluster.Mark) bool) {
	s.markMu.Lock()
	mark := *s.mark
	mark.ResendRequests = slices.Clone(s.resendRequests)
	s.agreement.put(&mark)
	change(&mark)
	covered, in := s.marked, s.markedConn
	s.markMu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeTimeout)
	defer cancel()
	for {
		err := s.putMark(ctx, &mark, covered.Seq, in)
		if err == nil {
			s.awaitEnd(ctx, told)
			return
		}
		if !account.Sleep(ctx, transportRetry) {
			s.opt.Observe.Log.Warn(
				"the other nodes have not learned that the crawl is over: if they wait for this node, start it again",
				"error", err)
			return
		}
	}
}

// awaitEnd waits until the other nodes have found the crawl over, or ctx ends: the broker may run in this
// process.
func (s *clusterStage) awaitEnd(ctx context.Context, told func(m *cluster.Mark) bool) {
	for node := 0; node < s.nodes; {
		if s.abandoned[node] {
			node++
			continue
		}
		v, err := s.opt.Cluster.Transport.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
		if err == nil {
			var m *cluster.Mark
			if m, err = cluster.DecodeMark(v.Key, v.Data, s.nodes); err == nil && told(m) {
				node++
				continue
			}
		}
		if !account.Sleep(ctx, transportRetry) {
			return
		}
	}
}

// concludeTimeout limits the wait of a node at its end for the broker.
const concludeTimeout = 30 * time.Second

// noteMark makes the mark of a durable checkpoint.
func (s *clusterStage) noteMark(gen uint64, m *moment) {
	if m.intake == nil {
		return
	}
	table := s.opt.Cluster.Table
	mark := &cluster.Mark{Node: s.node, Incarnation: m.intake.Incarnation, Checkpoint: gen, Table: table.Sum(),
		Moves: table.Moves(), Reads: cluster.MessageVersion, Idle: m.idle, Round: m.intake.Round,
		Pages: m.accounts.Counters[state.CountPages], Full: m.full, Taken: m.intake.Taken, Out: m.outs,
		Gone: s.goneNumbers(), Abandoned: s.abandonedNodes()}
	s.markMu.Lock()
	s.mark, s.marked, s.markedConn = mark, *m.intake, m.reading
	s.markMu.Unlock()
	s.wakeMark.Raise()
}

// putMarks writes the mark of each checkpoint, and then purges the covered messages from the stream. It
// rewrites the last mark at intervals, in case the broker has lost it.
func (s *clusterStage) putMarks(ctx context.Context) error {
	if err := s.checkOwn(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		s.markMu.Lock()
		var mark cluster.Mark
		have, covered, in := s.mark != nil, s.marked, s.markedConn
		if have {
			mark = *s.mark
			mark.ResendRequests, mark.Short, mark.Spent = slices.Clone(s.resendRequests), s.short.Load(), s.spent.Load()
			s.agreement.put(&mark)
		}
		s.markMu.Unlock()
		if mark.Spent { // a loan may have arrived since
			s.dispatcher.pagesLeft(func(left int64) { mark.Spent = left <= 0 })
		}
		if have {
			if err := s.putMark(ctx, &mark, covered.Seq, in); err != nil {
				s.opt.Observe.Log.Debug("writing the mark waits", "error", err)
				account.Sleep(ctx, transportRetry)
				continue
			}
		}
		s.Await(ctx, s.wakeMark, account.WakeAfter)
	}
	return nil
}

// checkOwn compares the broker's mark of this node, if any, with the directories. If this crawl is new, then
// the cluster's file is that of an earlier crawl, whose messages would be mistaken for those of this one, or
// the node has lost its directories. If the mark is of a later checkpoint, the node was set back.
func (s *clusterStage) checkOwn(ctx context.Context) error {
	for ctx.Err() == nil {
		v, err := s.opt.Cluster.Transport.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(s.node))
		switch {
		case err == nil && s.began == 0:
			return s.errEmpty()
		case err == nil:
			m, err := cluster.DecodeMark(v.Key, v.Data, s.nodes)
			if err != nil {
				s.opt.Observe.Log.Error("the mark of this node is refused", "error", err)
				return nil
			}
			return m.CheckOwn(s.intake.Incarnation, s.began)
		case errors.Is(err, cluster.ErrNotFound):
			return nil
		}
		account.Sleep(ctx, transportRetry)
	}
	return nil
}

// errEmpty is the error of a node that is known to the others, or to the broker, but whose directories are
// empty.
func (s *clusterStage) errEmpty() error {
	return fmt.Errorf(
		"crawl: node %d has crawled before, but its directories hold nothing: give the directories of that time, "+
			"or make another file by drumbeat cluster init for another crawl: %w", s.node, state.ErrIncompatible)
}

// putMark writes a mark, and purges the stream up to seq, a sequence of that connection.
func (s *clusterStage) putMark(ctx context.Context, mark *cluster.Mark, seq, connection uint64) error {
	data, err := mark.Encode()
	if err != nil {
		return err
	}
	e := s.opt.Cluster.Transport
	if _, err := e.Put(ctx, cluster.BucketCrawl, cluster.MarkKey(s.node), data); err != nil {
		return err
	}
	s.marks[s.node].Store(mark)
	s.WakeWatch.Raise()
	if seq == 0 || connection != e.State().Connects {
		return nil // nothing to purge, or sequences that the broker may have reused
	}
	return e.Purge(ctx, s.node, seq+1)
}

// watchMarks follows the marks of the other nodes.
func (s *clusterStage) watchMarks(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := s.opt.Cluster.Transport.Watch(ctx, cluster.BucketCrawl, cluster.MarkPattern)
		if err != nil {
			account.Sleep(ctx, transportRetry)
			continue
		}
		err = s.followMarks(ctx, w)
		w.Close()
		if err != nil {
			return err
		}
		account.Sleep(ctx, transportRetry)
	}
	return nil
}

func (s *clusterStage) followMarks(ctx context.Context, w cluster.Watcher) error {
	for {
		v, ok, err := w.Next(ctx)
		if err != nil {
			return nil
		}
		if !ok {
			s.marksListed.Do(func() { close(s.listed) })
		}
		if !ok || v.Deleted {
			continue
		}
		m, err := cluster.DecodeMark(v.Key, v.Data, s.nodes)
		if err != nil {
			if s.doubts.refuse(cluster.MarkNode(v.Key), logUnreadable, true) {
				s.opt.Observe.Log.Error("a mark of another node is refused", "error", err)
			}
			continue
		}
		m.Revision = v.Revision
		take, err := s.judgeMark(m)
		if err != nil {
			return err
		}
		if !take {
			continue
		}
		s.marks[m.Node].Store(m)
		s.checkAgreement(m)
		if p := s.publishers[m.Node]; p != nil {
			p.Mark(m)
		}
		s.WakeWatch.Raise()
	}
}

// concluded reports whether the crawl is over on all nodes. The caller ensures that this node has nothing
// left to do.
func (s *clusterStage) concluded() bool {
	if !s.on() {
		return true
	}
	s.idle.Store(true)
	s.wakeEarly.Raise()
	marks, outs := s.lastMarks(), s.outCounts()
	for node, m := range marks {
		// A mark from the former end of the crawl lacks the messages that this node has sent since.
		if node == s.node || s.abandoned[node] || m == nil {
			continue
		}
		if left := outs[node] - m.Taken[s.node].Totals.Records(); left != 0 {
			s.logWait(m, left)
			return false
		}
	}
	if cluster.EndedWith(marks, s.abandoned, s.node, s.term()) {
		return true
	}
	if s.rejoining() > 0 {
		s.logAwaited()
		return false
	}
	s.endWait = time.Time{}
	without := s.withoutMarks(marks)
	return cluster.Over(marks, without, s.round)
}

// Bounds of early checkpoints: a record can be published only after one.
const (
	earlyEvery = 2 * time.Second
	earlyBytes = 64 << 20
)

// checkpointEarly makes a checkpoint early if many records await publication, or if this node is idle and its
// mark does not say so.
func (s *clusterStage) checkpointEarly(ctx context.Context) error {
	for account.Sleep(ctx, earlyEvery) {
		s.Await(ctx, s.wakeEarly, earlyEvery)
		idle := s.idle.Swap(false)
		var waiting, bytes int64
		for _, o := range s.outboxes {
			if o != nil {
				f := o.Figures()
				waiting += int64(f.Last-f.Durable) + f.OpenBytes
				bytes += f.OpenBytes
				if f.Last > f.Durable {
					bytes += f.Bytes
				}
			}
		}
		m := s.marks[s.node].Load()
		short := s.Accounts.In(state.PlaceReady, state.PlaceRAM) < int64(s.opt.Network.Connections)
		switch {
		case bytes >= earlyBytes, s.urgent.Swap(false), waiting > 0 && (idle || short):
		case idle && (m == nil || !m.Idle || s.checkpointer.Unsaved()):
		default:
			continue
		}
		if err := s.checkpointer.checkpoint(false, ""); err != nil {
			return err
		}
	}
	return nil
}
