package node

import (
	"context"
	"fmt"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// replacements answers nodes that continue from their backups (cluster.Replacement). Its goroutine is "replace".
type replacements struct {
	run    *account.Run
	opt    *Options
	gone   *abandoned
	heard  *heard
	doubts *doubts
	outs   *outboxes
	intake *intake
	end    *crawlEnd
	marks  *marks

	checkpoints Checkpoints
}

// errReplaced is the error of a node whose place another machine has.
func errReplaced(node int, host string) error {
	return fmt.Errorf("crawl: node %d has begun again from its backup on %s (drumbeat cluster replace): these "+
		"directories must not be used any more: %w", node, host, state.ErrIncompatible)
}

// watch follows the requests.
func (s *replacements) watch(ctx context.Context) error {
	return follow(ctx, s.opt.Transport, cluster.ReplacePattern, func(bool) {}, func(v *cluster.Value) error {
		if v.Deleted {
			return nil
		}
		r, err := cluster.DecodeReplacement(v.Key, v.Data, s.opt.Table)
		if err != nil {
			if s.doubts.refuse(-1, logUnreadable, false) {
				s.opt.Log.Error("refused the request of a node that is to be replaced", "error", err)
			}
			return nil
		}
		return s.take(ctx, r)
	})
}

// take binds this node to a replacement, and answers. The command repeats its request until it has the answer, so an
// answer that the broker does not take is no error.
func (s *replacements) take(ctx context.Context, r *cluster.Replacement) error {
	switch {
	case r.Node == s.opt.Node:
		if r.Incarnation > s.intake.incarnationOf(r.Node) {
			return errReplaced(r.Node, r.Host)
		}
		return nil
	case r.Done:
		return nil
	}
	if !s.gone.has(r.Node) && s.bind(r) { // the answer tells an abandoned node that it is
		s.run.Hook("replace")
		s.opt.Log.Warn("a node has lost its directories and takes its place again from a backup: its messages since "+
			"then are void", "node", r.Node, "host", r.Host, "life", r.Incarnation)
		if err := s.checkpoints.Save(); err != nil {
			return err
		}
	}
	s.run.Hook("replace")
	bound, taken := s.intake.exchanged(r.Node)
	f := s.outs.boxes[r.Node].Figures()
	a := &cluster.ReplaceAnswer{Node: s.opt.Node, Of: r.Node, Bound: bound, Own: s.intake.incarnationOf(s.opt.Node),
		Table: s.opt.Table.Sum(), Taken: taken, Last: f.Last, Out: f.Added,
		Gone: cluster.Taken{Number: f.TakenNumber, Totals: f.Gone}, Abandoned: s.gone.nodes()}
	if err := s.opt.put(ctx, cluster.AnswerKey(r.Node, s.opt.Node), a); err != nil {
		s.opt.Log.Debug("waiting to answer a node that is replaced", "error", err)
	}
	return nil
}

// bind accepts a replacement of a later incarnation. From then on the account of its node does not change: earlier
// messages and marks of the node are void, and nothing is dropped from the outbox for it until its next mark.
func (s *replacements) bind(r *cluster.Replacement) (changed bool) {
	s.marks.taking.Lock() // a mark of an earlier incarnation may be about to be noted
	defer s.marks.taking.Unlock()
	s.run.TxLock.Lock()
	defer s.run.TxLock.Unlock()
	if changed = s.intake.bind(r); !changed {
		return false
	}
	if p := s.outs.publishers[r.Node]; p != nil {
		p.Void()
	}
	s.heard.forget(r.Node)
	s.marks.pulls.forget(r.Node)
	s.end.withdraw()
	return true
}
