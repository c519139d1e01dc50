package exchange

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mark is what a node says of its last durable checkpoint, in the value "marks.<node>" of BucketCrawl. It is
// written after the manifest is durable, so what it says can no longer be lost. A broker that forgets marks
// costs time: nodes write theirs again.
type Mark struct {
	Node        int    `json:"node"`
	Incarnation uint64 `json:"life,omitempty"` // how often the node was resynced
	Checkpoint  uint64 `json:"checkpoint"`     // its number
	Table       uint64 `json:"table"`          // Table.Sum
	Idle        bool   `json:"idle,omitempty"` // the node had nothing to do but wait for others
	// Term names the time since the node last took back its agreement to the end, or started. It never
	// returns. Agreed is what the node has agreed on: the terms of all nodes; nil: it has not agreed.
	Term   uint64   `json:"term,omitempty"`
	Agreed []uint64 `json:"agreed,omitempty"`

	Done      bool     `json:"done,omitempty"`     // the node has found that the crawl is over
	Round     int64    `json:"round,omitempty"`    // Intake.Round
	Pages     int64    `json:"pages,omitempty"`    // that the node has fetched
	Short     bool     `json:"short,omitempty"`    // the node runs short of pages of the crawl's limit; newer than the checkpoint
	Full      int64    `json:"full,omitempty"`     // a limit of pages that the node has found to be reached
	Taken     []Taken  `json:"taken"`              // by sender; this node's own is empty
	Out       []int64  `json:"out"`                // by receiver: records that were added to the outbox
	Gone      []uint64 `json:"gone"`               // by receiver: number of the last message that was dropped, because it has it for good
	Moves     int      `json:"moves,omitempty"`    // Table.Moves
	Abandoned []int    `json:"given_up,omitempty"` // nodes for which this one does not wait any more
	Spent     bool     `json:"spent,omitempty"`    // no page of the crawl's limit is left, and none that was lent is on its way
	// ResendRequests is, by sender, how often this node has missed messages. A sender that sees it rise resends what
	// was not taken. It is newer than the checkpoint.
	ResendRequests []uint64 `json:"want"`
	// Reads is the latest version of messages that the node reads; 0: the mark is older than the field, and the version is 2.
	Reads int `json:"reads,omitempty"`

	Revision uint64 `json:"-"` // of the value, if the mark was read from the broker
}

// firstReads is what nodes read whose marks do not say it.
const firstReads = 2

// ReadsAll reports whether the node reads the messages of this program.
func (m *Mark) ReadsAll() bool { return cmp.Or(m.Reads, firstReads) >= MessageVersion }

// maxRound bounds rounds in marks: each end of the crawl adds one.
const maxRound = 1 << 32

// Taken is what a node has taken from another.
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

// Encode returns the value of the mark.
func (m *Mark) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err == nil && len(data) > MaxValueBytes {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("exchange: mark of node %d: %w", m.Node, err)
	}
	return data, nil
}

// DecodeMark decodes the value of a key in a cluster of nodes. It comes from outside.
func DecodeMark(key string, data []byte, nodes int) (*Mark, error) {
	var m Mark
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("exchange: %s: %w", key, err)
	}
	if MarkNode(key) != m.Node || m.Node < 0 || m.Node >= nodes || !m.valid(nodes) {
		return nil, fmt.Errorf("exchange: %s is not the mark of one of %d nodes", key, nodes)
	}
	return &m, nil
}

// valid reports whether a mark from outside has what a mark in a cluster of nodes has, in its bounds.
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
	return m.Pages >= 0 && m.Pages <= maxPages/MaxNodes && m.Round >= 0 && m.Round <= maxRound && m.Reads >= 0 &&
		CheckIncarnation(m.Incarnation) == nil
}

// Over reports whether the crawl is over, given the last marks of all nodes (nil: none): one of them has
// found that it is, in this node's round or a later one, or all are quiet and have agreed on each other's
// terms.
//
// It is enough that this holds for marks of different times. A node agrees while it has nothing to do and its
// mark is complete: Out has all that it has sent, Taken all that it has taken. Until it takes its agreement
// back, which ends its term, it sends nothing. It does that only after hearing of another term of another
// node, or of one that is not idle, or after taking a message. Suppose that Over holds, and that nodes have
// ended their terms after these marks. Consider the first, X.
//   - If X heard of another term of Y, it heard of it after the term it agreed on, which is that of Y's mark here, since terms
//     never return. So Y ended its term before X: a contradiction. A node that has agreed stays idle in all marks of its term.
//   - If X took a message, its sender Y has sent it after its mark here, since what Y had sent then was taken, and so after the
//     end of Y's term: a contradiction, too.
//
// It does not hold for a process that is killed after its mark, nor for the mark that a node has left at the
// end of a crawl that continues: that node may start with more work. So a node that begins a round must wait
// for marks of that round before it asks, and asks only if all have taken what it sent. The mark of a node that
// has ended counts as agreed.
//
// Nodes that were given up do not count: abandoned has one element for each node, or is nil.
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

// EndedWith reports whether all other nodes that were not given up have found that the crawl is over, and one of
// them has ended with the process of node that has a term: also in an earlier round than that of this process.
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

// Quiet reports whether all nodes that were not given up are idle, and all that was added to an outbox was
// taken.
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

// Intake is how far a node has read its stream: its part of the manifest. It changes in transactions.
type Intake struct {
	Epoch int64   `json:"epoch"` // of the stream
	Seq   uint64  `json:"seq"`   // of the last message that was taken or skipped
	Taken []Taken `json:"taken"` // by sender

	// Round is 0 until the crawl is over. A node that starts after that is in a round above those in which
	// the others have found the crawl to be over.
	Round int64 `json:"round,omitempty"`

	Incarnation  uint64   `json:"life,omitempty"`  // how often this node was resynced
	Incarnations []uint64 `json:"lives,omitempty"` // by sender: the life whose messages and marks are taken; nil: all 0
	Lost         []Totals `json:"lost,omitempty"`  // by sender: of those in Taken, those that were lost when the node was set back; nil: none
}

// Verdict says what to do with a message.
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
		return Skip, fmt.Errorf("exchange: %w: from node %d to node %d, crawl %016x", ErrMessage, h.From, h.To, h.Crawl)
	}
	if incarnation := in.IncarnationOf(h.From); h.Crawl != CrawlKey(crawl, incarnation) {
		for old := range incarnation {
			if h.Crawl == CrawlKey(crawl, old) {
				return Skip, nil // the node was set back since, and numbers anew
			}
		}
		return Skip, fmt.Errorf("exchange: %w: from node %d to node %d, crawl %016x", ErrMessage, h.From, h.To, h.Crawl)
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
