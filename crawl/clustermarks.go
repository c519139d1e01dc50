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
		s.quiet(), s.outs.counts(), s.full.Load()
}

// checkpointed tells the other nodes, and this node's publishers, of a durable checkpoint.
func (s *clusterStage) checkpointed(gen uint64, m *moment) {
	if !s.on() {
		return
	}
	s.noteMark(gen, m)
	s.outs.wake()
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
			m.Agreed = cluster.Terms(s.heard.all())
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
		if s.gone.gone[node] {
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
		Gone: s.outs.goneNumbers(), Abandoned: s.gone.nodes()}
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
	s.heard.marks[s.node].Store(mark)
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
		s.heard.marks[m.Node].Store(m)
		s.checkAgreement(m)
		s.outs.mark(m)
		s.WakeWatch.Raise()
	}
}

// concluded reports whether the crawl is over on all nodes. The caller ensures that this node has nothing
// left to do.
func (s *clusterStage) concluded() bool {
	if !s.on() {
		return true
	}
	s.early.idling()
	marks, outs := s.heard.all(), s.outs.counts()
	for node, m := range marks {
		// A mark from the former end of the crawl lacks the messages that this node has sent since.
		if node == s.node || s.gone.gone[node] || m == nil {
			continue
		}
		if left := outs[node] - m.Taken[s.node].Totals.Records(); left != 0 {
			s.logWait(m, left)
			return false
		}
	}
	if cluster.EndedWith(marks, s.gone.gone, s.node, s.term()) {
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

// judgeMark decides whether to take a mark of another node. The error is final.
func (s *clusterStage) judgeMark(m *cluster.Mark) (take bool, _ error) {
	switch {
	case m.Node == s.node: // this node needs no mark of its own
		return false, nil
	case m.Incarnation < s.incarnationOf(m.Node): // from before the node was set back, until it has started again
		return false, nil
	case m.Moves < s.opt.Cluster.Table.Moves(): // from before the last move of slots, until the node has started again
		return false, nil
	}
	s.noteDisowned(m.Node, slices.Contains(m.Abandoned, s.node))
	if err := s.checkMark(m); err != nil {
		return false, s.doubts.doubted(m.Node, doubtMark, m.Revision, err)
	}
	s.doubts.clear(m.Node, doubtMark)
	if err := m.CheckSince(s.heard.mark(m.Node)); err != nil {
		if err := s.doubts.doubted(m.Node, doubtOld, m.Revision, err); err == nil {
			return false, nil
		}
		s.opt.Observe.Log.Warn("the marks of another node have gone back: they are accepted", "node",
			m.Node, "error", err)
	}
	s.doubts.clear(m.Node, doubtOld)
	return true, nil
}

// checkMark returns an error if the crawl cannot continue with the mark of another node.
func (s *clusterStage) checkMark(m *cluster.Mark) error {
	switch {
	case m.Incarnation > s.incarnationOf(m.Node):
		return fmt.Errorf("crawl: node %d was set back and resynced: run drumbeat repair --resync %[1]d on this "+
			"node, too, with the audit of "+
			"node %[1]d after its own: %w", m.Node, state.ErrIncompatible)
	case m.Table != s.opt.Cluster.Table.Sum():
		return fmt.Errorf("crawl: node %d and this node have different tables of owners: %w", m.Node,
			state.ErrIncompatible)
	case slices.Contains(m.Abandoned, s.node):
		return s.gone.err()
	}
	if err := s.checkGone(m); err != nil {
		return err
	}
	if o := s.outs.boxes[m.Node]; !o.Abandoned() {
		f := o.Figures()
		return m.CheckTaken(s.node, &f)
	}
	return nil
}

// incarnationOf returns the incarnation of a node whose marks are taken. It is constant during a run.
func (s *clusterStage) incarnationOf(node int) uint64 {
	if node == s.node {
		return s.intake.Incarnation
	}
	return s.intake.IncarnationOf(node)
}

// checkGone returns an error if another node has dropped messages that this one has not taken.
func (s *clusterStage) checkGone(m *cluster.Mark) error {
	err := m.CheckGone(s.node, s.takenTo[m.Node].Load())
	if err != nil && s.began == 0 {
		return s.errEmpty()
	}
	return err
}

// noteDisowned notes whether the last mark of another node abandons this one. While a mark does, nothing is
// fetched: if the mark is true, this node must end (doubted), and its sites are lost to the crawl. It belongs
// to the goroutine that reads marks.
func (s *clusterStage) noteDisowned(node int, says bool) {
	if s.disowns[node] == says {
		return
	}
	if s.disowns[node] = says; says {
		s.disowners.Add(1)
	} else if s.disowners.Add(-1) == 0 {
		s.dispatcher.morePages()
	}
}

// disowned reports whether the mark of a node abandons this one.
func (s *clusterStage) disowned() bool { return s.disowners.Load() > 0 }

// flush ends the open messages, so that the next checkpoint covers all records.
func (s *clusterStage) flush() error {
	if !s.on() {
		return nil
	}
	return s.outs.flush()
}
