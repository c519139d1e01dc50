package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mark describes a node's last durable checkpoint, in the value "marks.<node>" of BucketCrawl. The node
// writes it after the manifest is durable, so a crash cannot invalidate it. If the broker loses marks, the
// nodes write theirs again.
type Mark struct {
	Form
	Node        int    `json:"node"`
	Incarnation uint64 `json:"life,omitempty"` // how often the node was resynced
	Checkpoint  uint64 `json:"checkpoint"`     // its number
	Table       uint64 `json:"table"`          // Table.Sum
	Idle        bool   `json:"idle,omitempty"` // the node had nothing to do but wait for others
	// Term identifies the time since the node last withdrew its agreement to the end, or started. A node
	// never reuses a term. Agreed holds the terms of all nodes to which the node has agreed; nil: it has not
	// agreed.
	Term   uint64   `json:"term,omitempty"`
	Agreed []uint64 `json:"agreed,omitempty"`

	Done  bool  `json:"done,omitempty"`  // the node has found that the crawl is over
	Round int64 `json:"round,omitempty"` // Intake.Round
	Pages int64 `json:"pages,omitempty"` // that the node has fetched
	// The node is short of pages of the crawl's limit; newer than the checkpoint.
	Short bool    `json:"short,omitempty"`
	Full  int64   `json:"full,omitempty"` // a limit of pages that the node has found to be reached
	Taken []Taken `json:"taken"`          // by sender; this node's own is empty
	Out   []int64 `json:"out"`            // by receiver: records that were added to the outbox
	// By receiver: number of the last message dropped, because the receiver has made it durable.
	Gone      []uint64 `json:"gone"`
	Moves     int      `json:"moves,omitempty"`    // Table.Moves
	Abandoned []int    `json:"given_up,omitempty"` // nodes that this one has abandoned
	Spent     bool     `json:"spent,omitempty"`    // no page of the crawl's limit is left or lent
	// WalkHosts is the number of hosts to which walkers of a random walk may jump; newer than the checkpoint.
	WalkHosts int64 `json:"walk_hosts,omitempty"`
	Renders   int64 `json:"renders,omitempty"` // pages that wait for the node's browser, or are with it
	// ResendRequests counts, by sender, the resends that this node has requested. When it rises, the sender
	// resends all messages that this node has not taken. It is newer than the checkpoint.
	ResendRequests []uint64 `json:"want"`
	// ReadsTo is Version of the node's program; see Reads. 0: the mark is of a release without the field.
	ReadsTo int `json:"reads,omitempty"`

	Revision uint64 `json:"-"` // of the value, if the mark was read from the broker
}

// maxRound bounds rounds in marks: each end of the crawl adds one.
const maxRound = 1 << 32

// Taken counts the messages and records that a node has taken from another.
type Taken struct {
	Number uint64 `json:"number"` // of the last message
	Totals Totals `json:"totals"`
}

// MarkPattern matches the keys of all marks.
const MarkPattern = "marks.*"

// MarkKey returns the key of a node's mark.
func MarkKey(node int) string { return "marks." + strconv.Itoa(node) }

// MarkNode returns the node whose mark a key is; -1 if it is none.
func MarkNode(key string) int {
	node, err := strconv.Atoi(strings.TrimPrefix(key, "marks."))
	if err != nil || node < 0 || MarkKey(node) != key {
		return -1
	}
	return node
}

// MarkMoves returns the number of the table of a mark, which may have another number of nodes; -1 if it is no mark.
func MarkMoves(data []byte) int {
	m := struct {
		Moves int `json:"moves"`
	}{}
	if json.Unmarshal(data, &m) != nil || m.Moves < 0 {
		return -1
	}
	return m.Moves
}

// Encode returns the value of the mark.
func (m *Mark) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err == nil && len(data) > MaxValueBytes {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: mark of node %d: %w", m.Node, err)
	}
	return data, nil
}

// DecodeMark decodes the value of a key in a cluster of nodes. The value is untrusted.
func DecodeMark(key string, data []byte, nodes int) (*Mark, error) {
	var m Mark
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", key, err)
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if n := len(m.Taken); n > nodes && n <= MaxNodes && MarkNode(key) == m.Node && m.valid(n) {
		return nil, fmt.Errorf("cluster: %s: %w: %d nodes", key, ErrLaterTable, n)
	} else if n > 0 && n < nodes && m.valid(n) { // from before the cluster grew
		m.pad(nodes)
	}
	if MarkNode(key) != m.Node || m.Node < 0 || m.Node >= nodes || !m.valid(nodes) {
		return nil, fmt.Errorf("cluster: %s is not the mark of one of %d nodes", key, nodes)
	}
	return &m, nil
}

// ErrLaterTable means that a mark is of a table with more nodes than the reader knows. It comes wrapped.
var ErrLaterTable = errors.New("the mark of a cluster that has grown")

// pad makes a mark one of a cluster with more nodes, which this node has not met yet.
func (m *Mark) pad(nodes int) {
	m.Taken = append(m.Taken, make([]Taken, nodes-len(m.Taken))...)
	m.Out = append(m.Out, make([]int64, nodes-len(m.Out))...)
	m.Gone = append(m.Gone, make([]uint64, nodes-len(m.Gone))...)
	m.ResendRequests = append(m.ResendRequests, make([]uint64, nodes-len(m.ResendRequests))...)
	m.Agreed = nil
}

// valid reports whether an untrusted mark is complete and within the bounds of a cluster of nodes.
func (m *Mark) valid(nodes int) bool {
	lengths := []int{len(m.Taken), len(m.Out), len(m.Gone), len(m.ResendRequests)}
	if slices.ContainsFunc(lengths, func(n int) bool { return n != nodes }) || len(m.Abandoned) > nodes ||
		len(m.Agreed) != 0 && len(m.Agreed) != nodes {
		return false
	}
	for node := range nodes {
		if t := &m.Taken[node].Totals; t.Links.N < 0 || t.Edges.N < 0 || m.Out[node] < 0 {
			return false
		}
	}
	return m.Pages >= 0 && m.Pages <= maxPages/MaxNodes && m.Round >= 0 && m.Round <= maxRound && m.ReadsTo >= 0 &&
		m.Renders >= 0 && CheckIncarnation(m.Incarnation) == nil
}

// Over reports whether the crawl is over, given the last marks of all nodes (nil: none). It is over if a node
// has found it over, in this node's round or a later one, or if all nodes are quiet and have agreed on each
// other's terms.
//
// The marks may be of different times. A node agrees while it has nothing to do and its mark is complete: Out
// counts all that it has sent, Taken all that it has taken. It sends nothing until it withdraws, which ends
// its term. It withdraws only after it reads a new term of another node, or reads that another node is not
// idle, or takes a message. Suppose that Over holds, and that nodes have ended their terms after these marks.
// Consider the first, X.
//   - If X read a new term of Y, it read it after the term to which it agreed, the one of Y's mark here,
//     since terms are never reused. So Y ended its term before X: a contradiction. A node that has agreed
//     stays idle in all marks of its term.
//   - If X took a message, its sender Y sent it after its mark here, since all that Y had sent by then was
//     taken. So Y sent it after the end of its term: a contradiction, too.
//
// The proof fails for a process that is killed after its mark. It also fails for the mark that a node left at
// the end of a crawl that later continues: that node may start with more work. So a node that begins a round
// waits for marks of that round before it calls Over, and calls it only if all have taken what it sent. The
// mark of a node that has ended counts as agreed.
//
// Abandoned nodes do not count: abandoned has one element for each node, or is nil.
func Over(marks []*Mark, abandoned []bool, round int64) bool {
	if slices.ContainsFunc(marks, func(m *Mark) bool { return m != nil && m.Done && m.Round >= round }) {
		return true
	}
	if !Quiet(marks, abandoned) {
		return false
	}
	waits := func(node int) bool { return abandoned == nil || !abandoned[node] }
	for node, m := range marks {
		if !waits(node) || m.Done {
			continue
		}
		if len(m.Agreed) != len(marks) {
			return false
		}
		for other, term := range m.Agreed {
			if waits(other) && term != marks[other].Term {
				return false
			}
		}
	}
	return true
}

// EndedWith reports whether all other nodes, except abandoned ones, have found the crawl over, and one of
// them agreed to the given term of node. The round does not matter.
func EndedWith(marks []*Mark, abandoned []bool, node int, term uint64) (with bool) {
	for other, m := range marks {
		switch {
		case other == node || abandoned != nil && abandoned[other]:
		case m == nil || !m.Done:
			return false
		case len(m.Agreed) == len(marks) && m.Agreed[node] == term:
			with = true
		}
	}
	return with
}

// Quiet reports whether all nodes, except abandoned ones, are idle and have taken all records of all
// outboxes.
func Quiet(marks []*Mark, abandoned []bool) bool {
	waits := func(node int) bool { return abandoned == nil || !abandoned[node] }
	for node, m := range marks {
		if waits(node) && (m == nil || !m.Idle) {
			return false
		}
	}
	for to, m := range marks {
		for from := range marks {
			if from != to && waits(from) && waits(to) && m.Taken[from].Totals.Records() != marks[from].Out[to] {
				return false
			}
		}
	}
	return true
}

// Terms returns the terms of marks; 0 without a mark.
func Terms(marks []*Mark) []uint64 {
	terms := make([]uint64, len(marks))
	for node, m := range marks {
		if m != nil {
			terms[node] = m.Term
		}
	}
	return terms
}

// Intake is the position of a node in its stream, as part of its manifest. It changes in transactions.
type Intake struct {
	Epoch int64   `json:"epoch"` // of the stream
	Seq   uint64  `json:"seq"`   // of the last message that was taken or skipped
	Taken []Taken `json:"taken"` // by sender

	// Round is 0 until the crawl is over. A node that starts after the end begins a higher round than those
	// in which the others found the crawl over.
	Round int64 `json:"round,omitempty"`

	Incarnation uint64 `json:"life,omitempty"` // how often this node was resynced
	// By sender: the incarnation whose messages and marks are taken; nil: all 0.
	Incarnations []uint64 `json:"lives,omitempty"`
	// By node: identity of the replacement that began its incarnation (Bound); this node's own is that of its own.
	Identities []uint64 `json:"identities,omitempty"`
	// By sender: records counted in Taken that the node lost when it was set back; nil: none.
	Lost []Totals `json:"lost,omitempty"`
}

// Verdict is the decision about a message.
type Verdict int

// The verdicts.
const (
	Take Verdict = iota // it is the next one
	Skip                // it was taken before
	Hole                // messages before it are missing
)

// Judge returns the verdict on a message of node h.From. It returns an error if the message cannot come from
// a node of this crawl.
func (in *Intake) Judge(h *Header, crawl uint64, node int) (Verdict, error) {
	if h.To != node || h.From == node || h.From < 0 || h.From >= len(in.Taken) {
		return Skip, fmt.Errorf("cluster: %w: from node %d to node %d, crawl %016x", ErrMessage, h.From, h.To, h.Crawl)
	}
	if incarnation := in.IncarnationOf(h.From); h.Crawl != CrawlKey(crawl, incarnation) {
		for old := range incarnation {
			if h.Crawl == CrawlKey(crawl, old) {
				return Skip, nil // from an earlier incarnation of the node
			}
		}
		return Skip, fmt.Errorf("cluster: %w: from node %d to node %d, crawl %016x", ErrMessage, h.From, h.To, h.Crawl)
	}
	t := &in.Taken[h.From]
	switch {
	case h.Number <= t.Number:
		return Skip, nil
	case h.Number > t.Number+1:
		return Hole, nil
	case h.Before != t.Totals:
		return Skip, disagree(h.From, node, h.Number)
	}
	return Take, nil
}
