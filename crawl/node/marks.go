package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// marks tells the other nodes of this one's checkpoints, and takes their marks. The goroutines are "marks", which
// writes, "watchmarks", which reads, and "pairs", which gets the entries of this node for the heads that it has read;
// note, conclude and disowned are safe for concurrent use.
type marks struct {
	run       *account.Run
	opt       *Options
	gone      *abandoned
	heard     *heard
	doubts    *doubts
	outs      *outboxes
	intake    *intake
	end       *crawlEnd
	shares    *pageShares
	tables    *tables
	morePages func() // more pages may be fetched
	walkHosts func() int
	wake      account.Signal

	began     uint64        // number of the checkpoint that this run continues; 0 for a new crawl
	disowns   []bool        // by node: noteDisowned; of the goroutine "watchmarks"
	disowners atomic.Int32  // how many of disowns are true
	taking    sync.Mutex    // held while a mark is judged and noted
	listed    chan struct{} // closed when the broker's marks are known
	once      sync.Once     // closes it
	written   atomic.Pointer[written]
	pulls     pulls

	mu         sync.Mutex // guards the fields below; taken before the lock of the end
	mark       *cluster.Mark
	marked     cluster.Intake // of the checkpoint of mark
	markedConn uint64         // connection of the sequences in marked; 0: of an earlier run
}

// tellEnd tells the other nodes that this one has found the crawl over.
func (s *marks) tellEnd(ctx context.Context) {
	s.conclude(ctx, func(m *cluster.Mark) {
		if m.Done = true; m.Agreed == nil { // another node found it over: name the agreed terms
			m.Agreed = cluster.Terms(s.heard.all())
			m.Agreed[s.opt.Node] = m.Term
		}
	}, func(m *cluster.Mark) bool { return m.Done })
}

// conclude changes the last mark, writes it, and waits until the marks of all nodes have the change.
func (s *marks) conclude(ctx context.Context, change func(m *cluster.Mark), told func(m *cluster.Mark) bool) {
	s.mu.Lock()
	mark := *s.mark
	mark.ResendRequests = s.intake.resends()
	s.end.put(&mark)
	covered, in := s.marked, s.markedConn
	s.mu.Unlock()
	change(&mark)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeTimeout)
	defer cancel()
	for {
		err := s.write(ctx, &mark, covered.Seq, in)
		if err == nil {
			s.awaitEnd(ctx, told)
			return
		}
		if !account.Sleep(ctx, transportRetry) {
			s.opt.Log.Warn(
				"the other nodes have not learned that the crawl is over: if they wait for this node, start it again",
				"error", err)
			return
		}
	}
}

// awaitEnd waits until the other nodes have found the crawl over, or ctx ends: the broker may run in this
// process.
func (s *marks) awaitEnd(ctx context.Context, told func(m *cluster.Mark) bool) {
	for node := 0; node < s.opt.nodes(); {
		if s.gone.has(node) {
			node++
			continue
		}
		v, err := s.opt.Transport.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
		if err == nil {
			var m *cluster.Mark
			if m, err = cluster.DecodeMark(v.Key, v.Data, s.opt.nodes()); err == nil && told(m) {
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

// note makes the mark of a durable checkpoint, until which this node has fetched pages.
func (s *marks) note(gen uint64, pages int64, m *Moment) {
	table := s.opt.Table
	mark := &cluster.Mark{Node: s.opt.Node, Incarnation: m.intake.Incarnation, Checkpoint: gen, Table: table.Sum(),
		Moves: table.Moves(), ReadsTo: s.opt.reads(), Idle: m.idle, Round: m.intake.Round,
		Pages: pages, Renders: m.renders, Full: m.full, Taken: m.intake.Taken, Out: m.outs,
		Gone: m.gone, Abandoned: s.gone.nodes()}
	s.mu.Lock()
	s.mark, s.marked, s.markedConn = mark, *m.intake, m.reading
	s.mu.Unlock()
	s.wake.Raise()
}

// put writes the mark of each checkpoint, and then purges the covered messages from the stream. It
// rewrites the last mark at intervals, in case the broker has lost it.
func (s *marks) put(ctx context.Context) error {
	if err := s.checkOwn(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		s.mu.Lock()
		var mark cluster.Mark
		have, covered, in := s.mark != nil, s.marked, s.markedConn
		if have {
			mark = *s.mark
			mark.ResendRequests = s.intake.resends()
			s.shares.put(&mark)
			s.end.put(&mark)
		}
		s.mu.Unlock()
		mark.WalkHosts = int64(s.walkHosts())
		if mark.Spent { // a loan may have arrived since
			s.shares.pagesLeft(func(left int64) { mark.Spent = left <= 0 })
		}
		if have {
			if err := s.write(ctx, &mark, covered.Seq, in); err != nil {
				s.opt.Log.Debug("waiting to write the mark", "error", err)
				account.Sleep(ctx, transportRetry)
				continue
			}
		}
		s.run.Await(ctx, s.wake, account.WakeAfter)
	}
	return nil
}

// checkOwn compares the broker's mark of this node, if any, with the directories. If this crawl is new, then
// the cluster's file is that of an earlier crawl, whose messages would be mistaken for those of this one, or
// the node has lost its directories. If the mark is of a later checkpoint, the node was set back.
func (s *marks) checkOwn(ctx context.Context) error {
	for ctx.Err() == nil {
		v, err := s.opt.Transport.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(s.opt.Node))
		switch {
		case err == nil && s.began == 0:
			return s.errEmpty()
		case err == nil:
			m, err := cluster.DecodeMark(v.Key, v.Data, s.opt.nodes())
			if err != nil {
				s.opt.Log.Error("refused the mark of this node", "error", err)
				return nil
			}
			return m.CheckOwn(s.intake.incarnationOf(s.opt.Node), s.began)
		case errors.Is(err, cluster.ErrNotFound):
			return nil
		}
		account.Sleep(ctx, transportRetry)
	}
	return nil
}

// errEmpty is the error of a node that is known to the others, or to the broker, but whose directories are
// empty.
func (s *marks) errEmpty() error {
	return fmt.Errorf(
		"crawl: node %d has crawled before, but its directories are empty: give its original directories, "+
			"or create a cluster file for a new crawl with drumbeat cluster init: %w",
		s.opt.Node, state.ErrIncompatible)
}

// write writes a mark, and purges the stream up to seq, a sequence of that connection.
func (s *marks) write(ctx context.Context, mark *cluster.Mark, seq, connection uint64) error {
	e, head := s.opt.Transport, mark.Head()
	s.written.Store(&written{mark, head})
	if !s.apart() {
		head = mark
	} else if data, err := mark.EncodePairs(); err != nil {
		return err
	} else if _, err := e.Put(ctx, cluster.BucketCrawl, cluster.PairsKey(s.opt.Node), data); err != nil {
		return err
	}
	if err := s.opt.put(ctx, cluster.MarkKey(s.opt.Node), head); err != nil {
		return err
	}
	s.heard.noteMark(mark)
	s.run.WakeWatch.Raise()
	if seq == 0 || connection != e.State().Connects {
		return nil // nothing to purge, or sequences that the broker may have reused
	}
	return e.Purge(ctx, s.opt.Node, seq+1)
}

// watch follows the marks of the other nodes.
func (s *marks) watch(ctx context.Context) error {
	select {
	case <-s.tables.listed:
	case <-ctx.Done():
	}
	listed := func(bool) {
		s.once.Do(func() { close(s.listed) })
		s.tables.wake.Raise()
	}
	return follow(ctx, s.opt.Transport, cluster.MarkPattern, listed, s.read)
}

// read reads a mark of another node.
func (s *marks) read(v *cluster.Value) error {
	if v.Deleted {
		return nil
	}
	m, err := cluster.DecodeMark(v.Key, v.Data, s.opt.nodes())
	moves, reads := -1, 0
	if err == nil {
		moves, reads = m.Moves, m.Reads()
	} else { // of another table
		moves = cluster.MarkMoves(v.Data)
	}
	s.tables.noteMark(cluster.MarkNode(v.Key), moves, reads)
	if errors.Is(err, cluster.ErrLaterTable) || cluster.MarkNode(v.Key) >= s.opt.nodes() {
		return nil // until this node has the table, too
	}
	if err != nil {
		if s.doubts.refuse(cluster.MarkNode(v.Key), logUnreadable, true) {
			s.opt.Log.Error("refused a mark from another node", "error", err)
		}
		return nil
	}
	m.Revision = v.Revision
	if m.Whole() || m.Node == s.opt.Node {
		s.pulls.drop(m.Node)
		return s.take(m, func() bool { return true })
	}
	s.pulls.add(m, xxhash.Sum64(v.Data))
	return nil
}

// take judges a mark of another node, and notes it, unless it is wanted no more: a later one has come meanwhile. The
// error is final.
func (s *marks) take(m *cluster.Mark, wanted func() bool) error {
	s.taking.Lock()
	defer s.taking.Unlock()
	if !wanted() {
		return nil
	}
	take, err := s.judgeMark(m)
	if !take {
		return err
	}
	s.heard.noteMark(m)
	s.end.check(m)
	s.outs.mark(m)
	s.run.WakeWatch.Raise()
	return nil
}

// judgeMark decides whether to take a mark of another node. The error is final.
func (s *marks) judgeMark(m *cluster.Mark) (take bool, _ error) {
	switch {
	case m.Node == s.opt.Node: // this node needs no mark of its own
		if own := s.intake.incarnationOf(m.Node); m.Incarnation > own {
			return false, s.doubts.doubted(m.Node, doubtMark, m.Revision, errReplaced(m.Node, "another machine"))
		}
		return false, nil
	case m.Incarnation < s.intake.incarnationOf(m.Node): // from before the node was set back, until it starts again
		return false, nil
	case s.tables.neighbour(m):
		s.markNeighbour(m)
		return false, nil
	case m.Moves < s.opt.Table.Moves(): // from before the last move of slots, until the node has started again
		return false, nil
	}
	s.noteDisowned(m.Node, slices.Contains(m.Abandoned, s.opt.Node))
	if err := s.checkMark(m); err != nil {
		return false, s.doubts.doubted(m.Node, doubtMark, m.Revision, err)
	}
	s.doubts.clear(m.Node, doubtMark)
	if err := m.CheckSince(s.heard.mark(m.Node), s.opt.Node); err != nil {
		if s.pulls.isAhead(m.Node) {
			return false, nil
		}
		if err := s.doubts.doubted(m.Node, doubtOld, m.Revision, err); err == nil {
			return false, nil
		}
		s.opt.Log.Warn("accepted the marks of another node although they went backwards", "node",
			m.Node, "error", err)
	}
	s.doubts.clear(m.Node, doubtOld)
	return true, nil
}

// markNeighbour takes the mark of a node that has the table before this node's, or after it, for the outboxes alone:
// the end of the crawl, and loans, wait for marks of one table.
func (s *marks) markNeighbour(m *cluster.Mark) {
	if s.checkGone(m) == nil && s.outs.checkTaken(m) == nil && m.Incarnation == s.intake.incarnationOf(m.Node) {
		s.outs.mark(m)
	}
}

// checkMark returns an error if the crawl cannot continue with the mark of another node.
func (s *marks) checkMark(m *cluster.Mark) error {
	switch {
	case m.Incarnation > s.intake.incarnationOf(m.Node):
		return fmt.Errorf("crawl: node %d was set back to an older copy and resynced: run drumbeat repair "+
			"--resync %[1]d on this node too, with the audit of "+
			"node %[1]d after its own: %w", m.Node, state.ErrIncompatible)
	case m.Table != s.opt.Table.Sum():
		return fmt.Errorf("crawl: node %d and this node have different tables of owners: %w", m.Node,
			state.ErrIncompatible)
	case slices.Contains(m.Abandoned, s.opt.Node):
		return s.gone.err()
	}
	if err := s.checkGone(m); err != nil {
		return err
	}
	return s.outs.checkTaken(m)
}

// checkGone returns an error if another node has dropped messages that this one has not taken.
func (s *marks) checkGone(m *cluster.Mark) error {
	err := m.CheckGone(s.opt.Node, s.intake.lastTaken(m.Node))
	if err != nil && s.began == 0 {
		return s.errEmpty()
	}
	return err
}

// noteDisowned notes whether the last mark of another node abandons this one. While a mark does, nothing is
// fetched: if the mark is true, this node must end (doubted), and its sites are lost to the crawl. It belongs
// to the goroutine that reads marks.
func (s *marks) noteDisowned(node int, says bool) {
	if s.disowns[node] == says {
		return
	}
	if s.disowns[node] = says; says {
		s.disowners.Add(1)
	} else if s.disowners.Add(-1) == 0 {
		s.morePages()
	}
}

// disowned reports whether the mark of a node abandons this one.
func (s *marks) disowned() bool { return s.disowners.Load() > 0 }
