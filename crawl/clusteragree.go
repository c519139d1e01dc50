package crawl

import (
	"math/rand/v2"
	"slices"
	"time"

	"drumbeat/cluster"
)

// The end of a crawl of several nodes needs two steps (cluster.Over has the proof). First all nodes are
// idle, and all sent messages are taken. A node that reads this from the marks agrees: its mark says so, and
// the node begins no work on its own. Due deferred URLs and the operator's seeds wait. The node withdraws its
// agreement only when it reads that another node has more work, or has withdrawn. When all nodes have agreed
// on the same state, the crawl is over.
//
// One step is not enough. An idle node has URLs for which Options.Limits.Linger does not wait. When one of them
// comes due, the node may send links to a node that ends at that moment, and would wait for it without end.

// agreement is this node's agreement to the end. clusterStage.markMu guards it.
type agreement struct {
	term  uint64   // random; new in each process and after each withdrawal
	terms []uint64 // terms of all nodes in the agreed marks; nil: this node has not agreed

	withdrawn time.Time     // when this node last withdrew it
	pause     time.Duration // how long this node does not agree after that
}

// A node that has withdrawn its agreement pauses before it agrees again. Its new term makes the nodes that
// agreed on the former one withdraw, too. Their marks must reach this node before it agrees. Else it agrees
// on terms that are over, withdraws again, and the nodes could alternate forever. The delay of a mark is
// unknown, so the pause doubles each time.
const (
	firstPause = 500 * time.Millisecond // much more than a mark takes in one data centre
	mostPause  = 20 * time.Second       // more than a broker that works takes
)

// withdrew returns the state after a withdrawn agreement.
func (a *agreement) withdrew(now time.Time) agreement {
	pause := firstPause
	if now.Sub(a.withdrawn) < 4*a.pause {
		pause = min(mostPause, 2*a.pause)
	}
	return agreement{term: newTerm(), withdrawn: now, pause: pause}
}

// pausing returns the remaining time before this node may agree to the end.
func (s *clusterStage) pausing() time.Duration {
	if !s.on() {
		return 0
	}
	s.markMu.Lock()
	defer s.markMu.Unlock()
	return max(0, s.agreement.pause-time.Since(s.agreement.withdrawn))
}

func newTerm() uint64 { return rand.Uint64() | 1 } // 0: a mark of a version without agreements

// put puts the agreement into a mark. markMu must be held.
func (a *agreement) put(m *cluster.Mark) { m.Term, m.Agreed = a.term, slices.Clone(a.terms) }

// quiet reports whether this node has agreed to the end, and so begins no work on its own.
func (s *clusterStage) quiet() bool { return s.on() && s.promised.Load() }

// agreeToEnd agrees to the end if all nodes seem idle. The transaction lock is held exclusively, and this
// node has nothing left to do.
func (s *clusterStage) agreeToEnd() {
	if !s.on() || s.promised.Load() || s.rejoining() > 0 || s.pausing() > 0 {
		return
	}
	marks := s.heard.all()
	mine := marks[s.node]
	if mine == nil || !slices.Equal(mine.Out, s.outs.counts()) || !cluster.Quiet(marks, s.withoutMarks(marks)) {
		return
	}
	for node := range marks { // a checkpoint may have been followed by a message
		if marks[s.node].Taken[node].Number != s.intake.Taken[node].Number {
			return
		}
	}
	s.markMu.Lock()
	s.agreement.terms = cluster.Terms(marks)
	s.agreement.terms[s.node] = s.agreement.term
	s.promised.Store(true)
	s.markMu.Unlock()
	s.wakeMark.Raise()
}

// withdraw withdraws the agreement.
func (s *clusterStage) withdraw() {
	s.markMu.Lock()
	was := s.promised.Swap(false)
	if was {
		s.agreement = s.agreement.withdrew(time.Now())
	}
	s.markMu.Unlock()
	if was {
		s.deferrals.goOn()
		s.operator.goOn()
		s.wakeMark.Raise()
	}
}

// checkAgreement withdraws the agreement if the mark of another node differs from the agreed state.
func (s *clusterStage) checkAgreement(m *cluster.Mark) {
	s.markMu.Lock()
	changed := s.promised.Load() && (!m.Idle || m.Term != s.agreement.terms[m.Node])
	s.markMu.Unlock()
	if changed {
		s.withdraw()
	}
}

func (s *clusterStage) lastMarks() []*cluster.Mark {
	marks := make([]*cluster.Mark, s.nodes)
	for node := range marks {
		marks[node] = s.heard.mark(node)
	}
	return marks
}

// withoutMarks returns the nodes that do not count at the end: abandoned nodes, and nodes that have ended and
// whose marks the broker has lost since.
func (s *clusterStage) withoutMarks(marks []*cluster.Mark) []bool {
	without := slices.Clone(s.gone.gone)
	for node := range marks {
		if marks[node] != nil || s.rejoined.IsZero() || s.outs.boxes[node] == nil {
			continue
		}
		if f := s.outs.boxes[node].Figures(); f.Waiting() == 0 {
			without[node] = true
		}
	}
	return without
}

// endLogEvery is the time before a node logs that it waits for one that has ended, and between two such
// lines.
const endLogEvery = 5 * time.Minute

// logWait logs that a node has ended with untaken messages of this one, and must be started again.
func (s *clusterStage) logWait(m *cluster.Mark, records int64) {
	now := time.Now()
	if s.endWait.IsZero() {
		s.endWait = now
	}
	if m.Done && now.Sub(s.endWait) >= endLogEvery {
		s.endWait = now
		s.opt.Observe.Log.Warn(
			"this node waits for a node that has ended without taking all messages: start that node again",
			"node", m.Node, "records", records)
	}
}
