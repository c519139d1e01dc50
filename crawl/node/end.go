package node

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
)

// The end of a crawl of several nodes needs two steps (cluster.Over has the proof). First all nodes are
// idle, and all sent messages are taken. A node that reads this from the marks agrees: its mark says so, and
// the node begins no work on its own. Due deferred URLs and the operator's seeds wait. The node withdraws its
// agreement only when it reads that another node has more work, or has withdrawn. When all nodes have agreed
// on the same state, the crawl is over.
//
// One step is not enough. An idle node has URLs for which Options.Limits.Linger does not wait. When one of them
// comes due, the node may send links to a node that ends at that moment, and would wait for it without end.

// agreement is this node's agreement to the end. crawlEnd.mu guards it.
type agreement struct {
	term  uint64   // random; new in each process, after each withdrawal, and with other sums in the mark
	terms []uint64 // terms of all nodes in the agreed marks; nil: this node has not agreed
	to    uint64   // cluster.Agreement of these marks

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

func newTerm() uint64 { return rand.Uint64() | 1 } // 0: a mark of a version without agreements

// crawlEnd finds when the crawl is over on all nodes. agree and concluded belong to the goroutine "watch", restore
// and rejoin to the start; the other methods are safe for concurrent use.
type crawlEnd struct {
	opt      *Options
	gone     *abandoned
	heard    *heard
	outs     *outboxes
	early    *earlySaver
	goOn     func() // tells the stages that begin work on their own that quiet is over
	wakeMark account.Signal

	round       int64       // of the intake; fixed before the goroutines start
	rejoined    time.Time   // when this node started if the crawl was over then; fixed before the goroutines start
	endWait     time.Time   // since when this node has waited for one that has ended
	awaitLogged time.Time   // when the awaited nodes were last logged
	promised    atomic.Bool // this node has agreed to the end; changes under mu

	mu             sync.Mutex // guards the fields below; taken after the lock of marks
	idle           bool       // by the last mark
	received, sent int64      // in it
	agreement
}

// pausing returns the remaining time before this node may agree to the end.
func (e *crawlEnd) pausing() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.agreement.pause-time.Since(e.agreement.withdrawn))
}

// quiet reports whether this node has agreed to the end, and so begins no work on its own.
func (e *crawlEnd) quiet() bool { return e.promised.Load() }

// agree agrees to the end if all nodes seem idle. The transaction lock is held exclusively, and this
// node has nothing left to do. taken is the state of its intake. idle is asked once the marks
// are read, on which it depends.
func (e *crawlEnd) agree(taken []cluster.Taken, idle func() bool) {
	if e.promised.Load() || e.rejoining() > 0 || e.pausing() > 0 {
		return
	}
	marks := e.heard.all()
	mine := marks[e.opt.Node]
	if mine == nil || !slices.Equal(mine.Out, e.outs.counts()) || !cluster.Quiet(marks, e.without(marks)) {
		return
	}
	if !idle() {
		return
	}
	for node := range marks { // a checkpoint may have been followed by a message
		if marks[e.opt.Node].Taken[node].Number != taken[node].Number {
			return
		}
	}
	e.mu.Lock()
	own := *mine
	own.Term, marks[e.opt.Node] = e.agreement.term, &own
	e.agreement.terms, e.agreement.to = cluster.Terms(marks), cluster.Agreement(marks, e.without(marks))
	e.promised.Store(true)
	e.mu.Unlock()
	e.wakeMark.Raise()
}

// withdraw withdraws the agreement.
func (e *crawlEnd) withdraw() {
	e.mu.Lock()
	was := e.promised.Swap(false)
	if was {
		e.agreement = e.agreement.withdrew(time.Now())
	}
	e.mu.Unlock()
	if was {
		e.goOn()
		e.wakeMark.Raise()
	}
}

// check withdraws the agreement if the mark of another node differs from the agreed state.
func (e *crawlEnd) check(m *cluster.Mark) {
	e.mu.Lock()
	changed := e.promised.Load() && (!m.Idle || m.Term != e.agreement.terms[m.Node])
	e.mu.Unlock()
	if changed {
		e.withdraw()
	}
}

// without returns the nodes that do not count at the end: abandoned nodes, and nodes that have ended and
// whose marks the broker has lost since.
func (e *crawlEnd) without(marks []*cluster.Mark) []bool {
	without := slices.Clone(e.gone.flags())
	for node := range marks {
		if node != e.opt.Node && marks[node] == nil && !e.rejoined.IsZero() && e.outs.waiting(node) == 0 {
			without[node] = true
		}
	}
	return without
}

// put puts the agreement into a mark. A node ends its term if it has sent or received records since its last mark, or
// was idle by that one and is not: others may have agreed to it.
func (e *crawlEnd) put(m *cluster.Mark) {
	sums := m.Head().Sums
	e.mu.Lock()
	if e.idle && !m.Idle || sums.Received != e.received || sums.Sent != e.sent {
		e.agreement.term = newTerm()
	}
	e.idle, e.received, e.sent = m.Idle, sums.Received, sums.Sent
	m.Term, m.Agreed, m.AgreedTo = e.agreement.term, slices.Clone(e.terms), e.to
	e.mu.Unlock()
}

// endLogEvery is the time before a node logs that it waits for one that has ended, and between two such
// lines.
const endLogEvery = 5 * time.Minute

// logWait logs that a node has ended with untaken messages of this one, and must be started again.
func (e *crawlEnd) logWait(m *cluster.Mark, records int64) {
	now := time.Now()
	if e.endWait.IsZero() {
		e.endWait = now
	}
	if m.Done && now.Sub(e.endWait) >= endLogEvery {
		e.endWait = now
		e.opt.Log.Warn(
			"waiting for a node that ended before it received all messages: start that node again",
			"node", m.Node, "records", records)
	}
}

// concluded reports whether the crawl is over on all nodes. The caller ensures that this node has nothing
// left to do.
func (e *crawlEnd) concluded() bool {
	e.early.idling()
	marks, outs := e.heard.all(), e.outs.counts()
	for node, m := range marks {
		// A mark from the former end of the crawl lacks the messages that this node has sent since.
		if node == e.opt.Node || e.gone.has(node) || m == nil {
			continue
		}
		p := m.With(e.opt.Node)
		if left := outs[node] - p.Taken.Totals.Records(); left != 0 {
			e.logWait(m, left)
			return false
		}
	}
	if cluster.EndedWith(marks, e.gone.flags(), e.opt.Node, e.currentTerm()) {
		return true
	}
	if e.rejoining() > 0 {
		e.logAwaited()
		return false
	}
	e.endWait = time.Time{}
	return cluster.Over(marks, e.without(marks), e.round)
}
