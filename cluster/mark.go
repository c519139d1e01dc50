package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mark describes a node's last durable checkpoint, in values of BucketCrawl. The node writes it after the manifest is
// durable, so a crash cannot invalidate it. If the broker loses marks, the nodes write theirs again.
//
// A mark has an entry for each other node, and each of these needs its own entry alone. So it has two values: its head,
// "marks.<node>", without the entries, for all nodes; and "pairs.<node>", the whole mark, for commands and for nodes
// that get no answer. A node that reads a head asks its node for the head with the one entry (MarkKind). While a node
// reads no PairsVersion, "marks.<node>" has the whole mark.
type Mark struct {
	Form
	Node        int    `json:"node"`
	Incarnation uint64 `json:"life,omitempty"` // how often the node was resynced
	Checkpoint  uint64 `json:"checkpoint"`     // its number
	Table       uint64 `json:"table"`          // Table.Sum
	Idle        bool   `json:"idle,omitempty"` // the node had nothing to do but wait for others
	// Term identifies the time since the node last withdrew its agreement to the end, sent or received a record, was
	// idle and had work again, or started. A node never reuses a term. Agreed holds the terms of all nodes to which the
	// node has agreed; nil: it has not agreed. AgreedTo is Agreement of the marks to which it has; 0: none, or by a
	// program from before PairsVersion.
	Term     uint64   `json:"term,omitempty"`
	Agreed   []uint64 `json:"agreed,omitempty"`
	AgreedTo uint64   `json:"agreed_to,omitempty"`

	Done  bool  `json:"done,omitempty"`  // the node has found that the crawl is over
	Round int64 `json:"round,omitempty"` // Intake.Round
	Pages int64 `json:"pages,omitempty"` // that the node has fetched
	// The node is short of pages of the crawl's limit; newer than the checkpoint.
	Short bool    `json:"short,omitempty"`
	Full  int64   `json:"full,omitempty"`  // a limit of pages that the node has found to be reached
	Taken []Taken `json:"taken,omitempty"` // by sender; this node's own is empty
	Out   []int64 `json:"out,omitempty"`   // by receiver: records that were added to the outbox
	// By receiver: number of the last message dropped, because the receiver has made it durable.
	Gone      []uint64 `json:"gone,omitempty"`
	Moves     int      `json:"moves,omitempty"`    // Table.Moves
	Abandoned []int    `json:"given_up,omitempty"` // nodes that this one has abandoned
	Spent     bool     `json:"spent,omitempty"`    // no page of the crawl's limit is left or lent
	// WalkHosts is the number of hosts to which walkers of a random walk may jump; newer than the checkpoint.
	WalkHosts int64 `json:"walk_hosts,omitempty"`
	Renders   int64 `json:"renders,omitempty"` // pages that wait for the node's browser, or are with it
	// ResendRequests counts, by sender, the resends that this node has requested. When it rises, the sender
	// resends all messages that this node has not taken. It is newer than the checkpoint.
	ResendRequests []uint64 `json:"want,omitempty"`
	// ReadsTo is Version of the node's program; see Reads. 0: the mark is of a release without the field.
	ReadsTo int `json:"reads,omitempty"`

	// Sums is part of a head.
	Sums *MarkSums `json:"sums,omitempty"`
	Pair *Pair     `json:"pair,omitempty"` // the entry for the node that has asked for it

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

// MarkKey returns the key of a node's mark, or of its head.
func MarkKey(node int) string { return "marks." + strconv.Itoa(node) }

// PairsKey returns the key of a node's whole mark, if MarkKey has its head.
func PairsKey(node int) string { return "pairs." + strconv.Itoa(node) }

// MarkKind is the kind of request to which a node answers with the head of its mark, and the entry for the asking node.
// The request is empty.
const MarkKind = "mark"

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

// Encode returns the value of a head, of a whole mark for programs from before PairsVersion, or of an answer.
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

// DecodeMark decodes the value of a key, a whole mark or a head, in a cluster of nodes. The value is untrusted.
func DecodeMark(key string, data []byte, nodes int) (*Mark, error) {
	var m Mark
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", key, err)
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	n := len(m.Taken)
	if !m.Whole() {
		n = m.Sums.Nodes
	}
	if n > nodes && n <= MaxNodes && MarkNode(key) == m.Node && m.valid(n) {
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
	m.Agreed, m.AgreedTo = nil, 0
	if !m.Whole() {
		m.Sums.Nodes = nodes
		return
	}
	m.Taken = append(m.Taken, make([]Taken, nodes-len(m.Taken))...)
	m.Out = append(m.Out, make([]int64, nodes-len(m.Out))...)
	m.Gone = append(m.Gone, make([]uint64, nodes-len(m.Gone))...)
	m.ResendRequests = append(m.ResendRequests, make([]uint64, nodes-len(m.ResendRequests))...)
}

// valid reports whether an untrusted mark is complete and within the bounds of a cluster of nodes.
func (m *Mark) valid(nodes int) bool {
	entries := nodes
	if !m.Whole() {
		entries = 0
		if m.Sums.Nodes != nodes || m.Sums.Received < 0 || m.Sums.Sent < 0 || m.Pair != nil && !m.Pair.valid() {
			return false
		}
	}
	lengths := []int{len(m.Taken), len(m.Out), len(m.Gone), len(m.ResendRequests)}
	if slices.ContainsFunc(lengths, func(n int) bool { return n != entries }) || len(m.Abandoned) > nodes ||
		len(m.Agreed) != 0 && len(m.Agreed) != entries {
		return false
	}
	for node := range entries {
		if p := m.With(node); !p.valid() {
			return false
		}
	}
	return m.Pages >= 0 && m.Pages <= maxPages/MaxNodes && m.Round >= 0 && m.Round <= maxRound && m.ReadsTo >= 0 &&
		m.Renders >= 0 && CheckIncarnation(m.Incarnation) == nil
}

func (p *Pair) valid() bool {
	t := &p.Taken.Totals
	return t.Links.N >= 0 && t.Edges.N >= 0 && p.Out >= 0
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
