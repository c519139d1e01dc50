package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
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
	// idle and had work again, or started. A node never reuses a term. Agreed holds the terms of all nodes to which the node has agreed; nil: it
	// has not agreed. AgreedTo is Agreement of the marks to which it has; 0: none, or by a program from before
	// PairsVersion.
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

// MarkSums is in the head of a mark in place of the entries.
type MarkSums struct {
	Nodes int `json:"nodes"` // number of entries
	// Records received from all nodes, and sent to all, but for those that the node has abandoned.
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
	// Resends is the sum of ResendRequests, so that the head changes with them.
	Resends uint64 `json:"resends,omitempty"`
}

// Pair is a mark's entry for one other node.
type Pair struct {
	Taken   Taken  `json:"taken"`            // from it
	Out     int64  `json:"out"`              // to it
	Gone    uint64 `json:"gone"`             // number of the last message to it that was dropped
	Resends uint64 `json:"want,omitempty"`   // ResendRequests
	Agreed  uint64 `json:"agreed,omitempty"` // its term, in Agreed
}

// Whole reports whether the mark has the entries of all nodes.
func (m *Mark) Whole() bool { return m.Sums == nil }

// With returns the mark's entry for a node: for a head that of the node that has read it. It is empty if the mark is of
// a table without that node.
func (m *Mark) With(node int) (p Pair) {
	switch {
	case !m.Whole():
		if m.Pair != nil {
			p = *m.Pair
		}
		return p
	case node < len(m.Taken) && node < len(m.Out) && node < len(m.Gone) && node < len(m.ResendRequests):
		p = Pair{Taken: m.Taken[node], Out: m.Out[node], Gone: m.Gone[node], Resends: m.ResendRequests[node]}
		if node < len(m.Agreed) {
			p.Agreed = m.Agreed[node]
		}
	}
	return p
}

// Head returns the head of a whole mark.
func (m *Mark) Head() *Mark {
	h := *m
	h.V = PairsVersion
	h.Sums = &MarkSums{Nodes: len(m.Taken)}
	h.Sums.Received, h.Sums.Sent, _ = m.sums(m.abandons)
	h.Sums.Resends = m.resends()
	h.Taken, h.Out, h.Gone, h.ResendRequests, h.Agreed = nil, nil, nil, nil, nil
	return &h
}

// abandons reports whether the node of the mark has abandoned another one.
func (m *Mark) abandons(node int) bool { return slices.Contains(m.Abandoned, node) }

// sums returns the records that the node of the mark has received from all nodes, and sent to all, without those that
// its reader has abandoned. known is false if they cannot be computed: the head is of a node that has abandoned others.
func (m *Mark) sums(abandoned func(int) bool) (received, sent int64, known bool) {
	if !m.Whole() {
		return m.Sums.Received, m.Sums.Sent, m.AbandonsAs(abandoned)
	}
	for node := range m.Taken {
		if node != m.Node && !abandoned(node) {
			received += m.Taken[node].Totals.Records()
			sent += m.Out[node]
		}
	}
	return received, sent, true
}

// AbandonsAs reports whether the node of a mark has abandoned the same nodes as the reader.
func (m *Mark) AbandonsAs(abandoned func(int) bool) bool {
	n := len(m.Taken)
	if !m.Whole() {
		n = m.Sums.Nodes
	}
	for node := range n {
		if m.abandons(node) != abandoned(node) {
			return false
		}
	}
	return true
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

// The value "pairs.<node>" is the head, as JSON, a line feed, an entry of pairBytes for each node, and the xxHash64 of all
// before. An entry has, little-endian: the number and the totals of Taken, Out, Gone, Resends, Agreed.
const pairBytes = 8 + 48 + 4*8

// EncodePairs returns the value "pairs.<node>" of a whole mark.
func (m *Mark) EncodePairs() ([]byte, error) {
	data, err := m.Head().Encode()
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	for node := range m.Taken {
		p := m.With(node)
		data = p.Taken.Totals.append(binary.LittleEndian.AppendUint64(data, p.Taken.Number))
		for _, n := range []uint64{uint64(p.Out), p.Gone, p.Resends, p.Agreed} {
			data = binary.LittleEndian.AppendUint64(data, n)
		}
	}
	return binary.LittleEndian.AppendUint64(data, xxhash.Sum64(data)), nil
}

// DecodePairs decodes the value "pairs.<node>" of a node in a cluster of nodes. The value is untrusted.
func DecodePairs(node int, data []byte, nodes int) (*Mark, error) {
	head, entries, _ := bytes.Cut(data, []byte{'\n'})
	m, err := DecodeMark(MarkKey(node), head, nodes)
	if err != nil {
		return nil, err
	}
	n := (len(entries) - 8) / pairBytes
	if m.Whole() || n < 1 || n > nodes || len(entries) != n*pairBytes+8 ||
		binary.LittleEndian.Uint64(entries[n*pairBytes:]) != xxhash.Sum64(data[:len(data)-8]) {
		return nil, fmt.Errorf("cluster: %s is damaged", PairsKey(node))
	}
	m.Sums, m.Agreed = nil, make([]uint64, n)
	for i := range n {
		b := entries[i*pairBytes:]
		at := func(field int) uint64 { return binary.LittleEndian.Uint64(b[56+8*field:]) }
		m.Taken = append(m.Taken, Taken{Number: binary.LittleEndian.Uint64(b), Totals: decodeTotals(b[8:])})
		m.Out, m.Gone = append(m.Out, int64(at(0))), append(m.Gone, at(1))
		m.ResendRequests, m.Agreed[i] = append(m.ResendRequests, at(2)), at(3)
	}
	if !slices.ContainsFunc(m.Agreed, func(term uint64) bool { return term != 0 }) {
		m.Agreed = nil
	}
	if n < nodes { // from before the cluster grew
		m.pad(nodes)
	}
	if !m.valid(nodes) {
		return nil, fmt.Errorf("cluster: %s is not the mark of one of %d nodes", PairsKey(node), nodes)
	}
	return m, nil
}

// ReadMark reads the whole mark of a node; nil: there is none that this program reads, or the broker has lost its entries.
// The error is that of the transport.
func ReadMark(ctx context.Context, e Transport, node, nodes int) (*Mark, error) {
	v, err := e.Get(ctx, BucketCrawl, MarkKey(node))
	if err != nil {
		return nil, unless(err, ErrNotFound)
	}
	head, err := DecodeMark(v.Key, v.Data, nodes)
	if err != nil {
		return nil, nil
	}
	if head.Whole() {
		return head, nil
	}
	if v, err = e.Get(ctx, BucketCrawl, PairsKey(node)); err != nil {
		return nil, unless(err, ErrNotFound)
	}
	m, err := DecodePairs(node, v.Data, nodes)
	if err != nil || m.Before(head) {
		return nil, nil
	}
	return m, nil
}

// unless returns err unless it is except.
func unless(err, except error) error {
	if errors.Is(err, except) {
		return nil
	}
	return err
}

// Joined returns a head of a node together with the entries of m, another mark of that node: with all of them if whole is
// set, otherwise with that of reader. It returns m if that is of a later checkpoint, and nil if the entries are older
// than the head.
func (m *Mark) Joined(head *Mark, reader int, whole bool) *Mark {
	if m.Before(head) {
		return nil
	}
	j, p := *head, m.With(reader)
	switch {
	case head.Before(m):
		j = *m
	case m.AgreedTo != head.AgreedTo || m.resends() < head.Sums.Resends:
		return nil
	case whole:
		j.Sums, j.Taken, j.Out, j.Gone, j.ResendRequests, j.Agreed = nil, m.Taken, m.Out, m.Gone, m.ResendRequests, m.Agreed
	default:
		j.Pair = &p
	}
	j.Revision = head.Revision
	return &j
}

// resends returns the sum of ResendRequests.
func (m *Mark) resends() (sum uint64) {
	if !m.Whole() {
		return m.Sums.Resends
	}
	for _, n := range m.ResendRequests {
		sum += n
	}
	return sum
}

// Before reports whether a mark is of an earlier checkpoint than a head of the same node.
func (m *Mark) Before(head *Mark) bool {
	return m.Incarnation < head.Incarnation || m.Incarnation == head.Incarnation && m.Checkpoint < head.Checkpoint
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

// Over reports whether the crawl is over, given the last marks of all nodes (nil: none). It is over if a node
// has found it over, in this node's round or a later one, or if all nodes are quiet and have agreed to the same
// marks, these.
//
// The marks may be of different times. A node agrees while it has nothing to do, its mark is complete (it counts all
// that the node has sent and received), and the last marks of all nodes are Quiet. Agreement stands for their terms
// and sums. From then on the node begins no work and sends nothing until it withdraws, which ends its term. It withdraws
// only after it reads a new term of another node, or that another node is not idle, or takes a message. A node that has
// not agreed ends its term, too, when its mark says other sums, or that it is no longer idle.
//
// Suppose that Over holds. Each node had the sums of its mark here when the first node agreed, since that node had read
// them, and it has them in its mark here; sums only grow, so it sent and received nothing between. At that moment the
// sums say that nothing was on its way. Consider the first node X that ends its term after its mark here.
//   - If X read a new term of Y, or that Y is not idle, it read it after the term to which it agreed, the one of Y's mark
//     here, since terms are never reused. So Y ended its term before X: a contradiction.
//   - If X took a message, its sender sent it after that moment, and so after the end of its term: a contradiction.
//
// The sums alone, without agreement to the same ones, prove nothing: one mark may count a record as received that
// another, older one does not count as sent.
//
// The proof fails for a process that is killed after its mark. It also fails for the mark that a node left at
// the end of a crawl that later continues: that node may start with more work. So a node that begins a round
// waits for marks of that round before it calls Over, and calls it only if all have taken what it sent. The
// mark of a node that has ended counts as agreed.
//
// Programs from before PairsVersion agree to terms alone, and find the end by whole marks of all nodes: while one takes
// part, each pair of nodes must have sent and received the same.
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
	all := Agreement(marks, abandoned)
	for node, m := range marks {
		switch {
		case !waits(node) || m.Done || m.AgreedTo == all:
		case m.AgreedTo != 0 || len(m.Agreed) != len(marks):
			return false
		default:
			for other, term := range m.Agreed {
				if waits(other) && term != marks[other].Term {
					return false
				}
			}
		}
	}
	return true
}

// Agreement returns a hash of what nodes agree to: terms and sums of marks that are Quiet. It is not 0.
func Agreement(marks []*Mark, abandoned []bool) uint64 {
	gone := func(node int) bool { return abandoned != nil && abandoned[node] }
	var data []byte
	for node, m := range marks {
		if !gone(node) {
			received, sent, _ := m.sums(gone)
			for _, n := range []uint64{uint64(node), m.Term, uint64(received), uint64(sent)} {
				data = binary.LittleEndian.AppendUint64(data, n)
			}
		}
	}
	return xxhash.Sum64(data) | 1
}

// EndedWith reports whether all other nodes, except abandoned ones, have found the crawl over, and one of
// them agreed to the given term of node, which has read their marks. The round does not matter.
func EndedWith(marks []*Mark, abandoned []bool, node int, term uint64) (with bool) {
	for other, m := range marks {
		switch {
		case other == node || abandoned != nil && abandoned[other]:
		case m == nil || !m.Done:
			return false
		case m.With(node).Agreed == term:
			with = true
		}
	}
	return with
}

// Quiet reports whether all nodes, except abandoned ones, are idle and, as far as these marks tell, have taken all
// records of all outboxes.
func Quiet(marks []*Mark, abandoned []bool) bool {
	gone := func(node int) bool { return abandoned != nil && abandoned[node] }
	var onWay int64
	whole := true
	for node, m := range marks {
		if gone(node) {
			continue
		}
		if m == nil || !m.Idle {
			return false
		}
		received, sent, known := m.sums(gone)
		if !known {
			return false
		}
		onWay += sent - received
		whole = whole && m.Whole()
	}
	if onWay != 0 || !whole {
		return onWay == 0
	}
	for to, m := range marks {
		for from := range marks {
			if from != to && !gone(from) && !gone(to) && m.Taken[from].Totals.Records() != marks[from].Out[to] {
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
