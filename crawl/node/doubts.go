package node

import (
	"log/slog"
	"sync"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
)

// This node refuses impossible marks and messages of other nodes. The crawl cannot continue beside a node
// that was set back, or that has another table of owners. But every node can write to the broker in another's
// name, and one false mark or message must not stop all nodes. A running node writes its mark each account.WakeAfter.
// So an error of this kind is a doubt at first: its mark or message is refused, counted and logged. The error
// is final when the same node has repeated it doubtTimes times, over doubtFor, without a plausible mark or
// message between. Until then nothing is dropped, so nothing is lost.
const (
	doubtTimes    = 3
	doubtFor      = account.WakeAfter + account.WakeAfter/2 // a running node has written a mark of its own
	doubtLogEvery = 5 * time.Minute                         // between two lines of the log about one node
)

// doubtKind is the kind of a doubt about a node.
type doubtKind int

const (
	doubtMark    doubtKind = iota // an impossible mark
	doubtOld                      // a mark older than an earlier one
	doubtTotals                   // a mark that disagrees about the records of a message
	doubtMessage                  // a message that disagrees about those before it
	// Not doubts, but logged as seldom:
	logQuarantined    // messages in quarantine
	logQuarantineFull // messages without room there
	logUnreadable     // bytes that are not a message or mark of this crawl
	doubtKinds
)

// doubt counts the refusals since the node was last plausible.
type doubt struct {
	times           int
	first, loggedAt time.Time
	last            uint64 // revision of the last mark; a new connection shows it again
}

// doubts are those of all nodes. They are safe for concurrent use.
type doubts struct {
	log             *slog.Logger
	mu              sync.Mutex // guards the fields below
	of              [][doubtKinds]doubt
	stranger        doubt   // about bytes that no node of the crawl has written
	marks, messages []int64 // by node: how many were refused in this run
}

func newDoubts(log *slog.Logger, nodes int) *doubts {
	return &doubts{log: log, of: make([][doubtKinds]doubt, nodes), marks: make([]int64, nodes),
		messages: make([]int64, nodes)}
}

// clear drops a doubt: the node is plausible.
func (d *doubts) clear(node int, kind doubtKind) {
	d.mu.Lock()
	d.of[node][kind] = doubt{loggedAt: d.of[node][kind].loggedAt}
	d.mu.Unlock()
}

// note counts a doubt. revision is that of the mark, 0 for a message. note returns whether the doubt is
// final, and whether to log it.
func (d *doubts) note(node int, kind doubtKind, revision uint64) (final, tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, is := time.Now(), &d.of[node][kind]
	if is.times == 0 {
		is.first = now
	}
	if is.times == 0 || revision == 0 || revision != is.last {
		is.times++
	}
	is.last = revision
	return is.times >= doubtTimes && now.Sub(is.first) >= doubtFor, is.shouldLog(now)
}

// shouldLog reports whether to log a doubt; it limits the rate.
func (d *doubt) shouldLog(now time.Time) bool {
	log := d.loggedAt.IsZero() || now.Sub(d.loggedAt) >= doubtLogEvery
	if log {
		d.loggedAt = now
	}
	return log
}

// refuse counts a refused mark or message of a node. It returns whether to log it.
func (d *doubts) refuse(node int, kind doubtKind, mark bool) (tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if node < 0 || node >= len(d.of) {
		return d.stranger.shouldLog(time.Now())
	}
	switch {
	case mark:
		d.marks[node]++
	case kind != logQuarantined: // the message is kept
		d.messages[node]++
	}
	return d.of[node][kind].shouldLog(time.Now())
}

// counts returns the numbers of marks and messages of a node refused in this run.
func (d *doubts) counts(node int) (marks, messages int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.marks[node], d.messages[node]
}

// doubted refuses a mark or message of a node because of err. It returns err when the doubt is final.
func (d *doubts) doubted(node int, kind doubtKind, revision uint64, err error) error {
	final, tell := d.note(node, kind, revision)
	d.refuse(node, kind, kind != doubtMessage)
	if final {
		return err
	}
	if tell {
		what := "a mark"
		if kind == doubtMessage {
			what = "a message"
		}
		d.log.Error("refused "+what+" from another node; this node ends if the other one repeats it", "node", node,
			"error", err)
	}
	return nil
}

// totals is cluster.Publisher.Doubt.
func (d *doubts) totals(m *cluster.Mark, err error) error {
	if err != nil {
		return d.doubted(m.Node, doubtTotals, m.Revision, err)
	}
	d.clear(m.Node, doubtTotals)
	return nil
}
