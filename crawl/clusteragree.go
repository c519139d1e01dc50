package crawl

import (
	"math/rand/v2"
	"slices"
	"time"

	"drumbeat/exchange"
)

// The end of a crawl of several nodes needs two steps (exchange.Over has the proof). First all nodes are
// idle, and all that was sent was taken. A node that sees that agrees: its mark says so, and from then on it
// begins nothing on its own. Deferred URLs that come due and seeds from the operator wait. It takes its
// agreement back only when it hears that another node has more work, or has taken back its own. When all
// nodes have agreed on the same state, the crawl is over.
//
// One step is not enough. An idle node has URLs for which Options.Linger does not wait. When one of them
// comes due, the node may send links to a node that ends at that moment, and would wait for it without end.

// agreement is that of this node. Guarded by clusterStage.markMu.
type agreement struct {
	term  uint64   // drawn again whenever the agreement is taken back, and by each process
	terms []uint64 // of all nodes, by the marks on which it was made; nil: this node has not agreed

	withdrawn time.Time     // when this node last took it back
	pause     time.Duration // how long this node does not agree since then
}

// A node that has taken its agreement back pauses before it agrees again. Its new term makes those that have
// agreed on its former one take theirs back, too, which must reach it before it agrees: else it has agreed on
// a term that is over, withdraws again, and nodes do so in turn without end. How long a mark takes is not
// known, so the pause doubles each time.
const (
	firstPause = 500 * time.Millisecond // much more than a mark takes in one data centre
	mostPause  = 20 * time.Second       // more than a broker that works takes
)

// withdrew returns what follows an agreement that is taken back.
func (a *agreement) withdrew(now time.Time) agreement {
	pause := firstPause
	if now.Sub(a.withdrawn) < 4*a.pause {
		pause = min(mostPause, 2*a.pause)
	}
	return agreement{term: newTerm(), withdrawn: now, pause: pause}
}

// pausing returns how long this node does not agree to the end yet.
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
func (a *agreement) put(m *exchange.Mark) { m.Term, m.Agreed = a.term, slices.Clone(a.terms) }

// quiet reports whether this node has agreed to the end, and so begins nothing on its own.
func (s *clusterStage) quiet() bool { return s.on() && s.promised.Load() }

// agreeToEnd agrees to the end if all nodes seem idle. The transaction lock is held exclusively, and this
// node has nothing left to do.
func (s *clusterStage) agreeToEnd() {
	if !s.on() || s.promised.Load() || s.rejoining() > 0 || s.pausing() > 0 {
		return
	}
	marks := s.lastMarks()
	mine := marks[s.node]
	if mine == nil || !slices.Equal(mine.Out, s.outCounts()) || !exchange.Quiet(marks, s.withoutMarks(marks)) {
		return
	}
	for node := range marks { // a checkpoint may have been followed by a message
		if marks[s.node].Taken[node].Number != s.intake.Taken[node].Number {
			return
		}
	}
	s.markMu.Lock()
	s.agreement.terms = exchange.Terms(marks)
	s.agreement.terms[s.node] = s.agreement.term
	s.promised.Store(true)
	s.markMu.Unlock()
	s.wakeMark.raise()
}

// withdraw takes the agreement back.
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
		s.wakeMark.raise()
	}
}

// checkAgreement takes the agreement back if the mark of another node is not the state that was agreed on.
func (s *clusterStage) checkAgreement(m *exchange.Mark) {
	s.markMu.Lock()
	changed := s.promised.Load() && (!m.Idle || m.Term != s.agreement.terms[m.Node])
	s.markMu.Unlock()
	if changed {
		s.withdraw()
	}
}

func (s *clusterStage) lastMarks() []*exchange.Mark {
	marks := make([]*exchange.Mark, s.nodes)
	for node := range marks {
		marks[node] = s.marks[node].Load()
	}
	return marks
}

// withoutMarks returns the nodes that do not count at the end: those that were given up, and those that have
// ended and whose marks the broker has lost since.
func (s *clusterStage) withoutMarks(marks []*exchange.Mark) []bool {
	without := slices.Clone(s.abandoned)
	for node := range marks {
		if marks[node] != nil || s.rejoined.IsZero() || s.outboxes[node] == nil {
			continue
		}
		if f := s.outboxes[node].Figures(); f.Waiting() == 0 {
			without[node] = true
		}
	}
	return without
}

// endLogEvery is how long a node waits for one that has ended before it says so, and the time between two such
// lines.
const endLogEvery = 5 * time.Minute

// logWait tells that a node that has ended does not take what this one has sent: it must be started again.
func (s *clusterStage) logWait(m *exchange.Mark, records int64) {
	now := time.Now()
	if s.endWait.IsZero() {
		s.endWait = now
	}
	if m.Done && now.Sub(s.endWait) >= endLogEvery {
		s.endWait = now
		s.opt.Log.Warn("this node waits for a node that has ended and has not taken all that was sent to it: start that node again",
			"node", m.Node, "records", records)
	}
}
