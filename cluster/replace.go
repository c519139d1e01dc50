package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A node that lost its directories continues from its backup while the others run. Before it runs, it asks each of them
// (Replacement) to accept no earlier incarnation of it. A node answers (ReplaceAnswer) once a durable checkpoint says
// so. From then on its account of the replaced node does not change: messages and marks of the lost directories are
// void, and nothing is dropped from the outbox for it. So both ends of each pair compute one start.
//
// A node accepts one identity for an incarnation. Of two replacements of one node at once, at most one gets all
// answers.

// Replacement is the value "resync.<node>" of BucketCrawl: the node begins another incarnation.
type Replacement struct {
	Form
	Node        int    `json:"node"`
	Incarnation uint64 `json:"life"`
	Identity    uint64 `json:"identity"` // random, not 0: of one run of the command and its repetitions
	Table       uint64 `json:"table"`    // Table.Sum
	Host        string `json:"host,omitempty"`
	Beat        uint64 `json:"beat,omitempty"` // rises while the command runs
	Done        bool   `json:"done,omitempty"` // the node has its place: nobody answers any more
}

// ReplaceAnswer is the value "resync.<of>.<node>": what a node has exchanged with the replaced one.
type ReplaceAnswer struct {
	Form
	Node int `json:"node"` // that answers
	Of   int `json:"of"`   // the replaced node
	// Bound is the accepted incarnation of Of, with its identity. Another one than that of the request is a refusal.
	Bound
	Own       uint64 `json:"own,omitempty"` // incarnation of Node
	Replacing bool   `json:"replacing,omitempty"`
	Table     uint64 `json:"table"`
	Taken     Taken  `json:"taken"` // from Of
	// Of the outbox for Of: the number of the last whole message, all records, and what Of has made durable.
	Last      uint64 `json:"last"`
	Out       Totals `json:"out"`
	Gone      Taken  `json:"gone"`
	Abandoned []int  `json:"given_up,omitempty"` // nodes that Node has abandoned
}

// Bound is the incarnation of a node that another one accepts, and the identity of its replacement.
type Bound struct {
	Incarnation uint64 `json:"life,omitempty"`
	Identity    uint64 `json:"identity,omitempty"` // 0: it was resynced with all nodes stopped
}

// ReplacePattern matches the keys of requests, ReplaceAll also those of answers.
const (
	ReplacePattern = "resync.*"
	ReplaceAll     = "resync.>"
)

// ReplaceKey returns the key of the request for a node.
func ReplaceKey(node int) string { return "resync." + strconv.Itoa(node) }

// AnswerKey returns the key of a node's answer about another.
func AnswerKey(of, node int) string { return ReplaceKey(of) + "." + strconv.Itoa(node) }

// Bound returns what the request asks to accept.
func (r *Replacement) Bound() Bound { return Bound{r.Incarnation, r.Identity} }

// Encode returns the value of the request.
func (r *Replacement) Encode() ([]byte, error) { return encodeReplace(r) }

// Encode returns the value of the answer.
func (a *ReplaceAnswer) Encode() ([]byte, error) { return encodeReplace(a) }

func encodeReplace(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && len(data) > maxReplaceBytes {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: a replacement: %w", err)
	}
	return data, nil
}

// maxReplaceBytes bounds a request and an answer, which may name MaxNodes abandoned nodes.
const maxReplaceBytes = 64 << 10

// DecodeReplacement decodes the value of a key in a cluster with this table. The value is untrusted. A request that is
// done stays at the broker, so it may be from before a change of the table.
func DecodeReplacement(key string, data []byte, table *Table) (*Replacement, error) {
	var r Replacement
	if err := decodeReplace(key, data, &r, &r.Form); err != nil {
		return nil, err
	}
	if key != ReplaceKey(r.Node) || r.Node < 0 || r.Node >= table.Nodes() || r.Incarnation == 0 || r.Identity == 0 ||
		CheckIncarnation(r.Incarnation) != nil {
		return nil, fmt.Errorf("cluster: %s is not the replacement of one of %d nodes", key, table.Nodes())
	}
	if r.Table != table.Sum() && !r.Done {
		return nil, fmt.Errorf("cluster: %s: it has another table of owners", key)
	}
	return &r, nil
}

// DecodeReplaceAnswer decodes the value of a key in a cluster with this table. The value is untrusted.
func DecodeReplaceAnswer(key string, data []byte, table *Table) (*ReplaceAnswer, error) {
	var a ReplaceAnswer
	if err := decodeReplace(key, data, &a, &a.Form); err != nil {
		return nil, err
	}
	n := table.Nodes()
	bad := func(node int) bool { return node < 0 || node >= n }
	if key != AnswerKey(a.Of, a.Node) || bad(a.Of) || bad(a.Node) || a.Of == a.Node ||
		CheckIncarnation(a.Incarnation) != nil || CheckIncarnation(a.Own) != nil || a.Gone.Number > a.Last ||
		slices.ContainsFunc(a.Abandoned, bad) || a.Taken.Totals.negative() || a.Gone.Totals.negative() ||
		!within(&a.Gone.Totals, &a.Out) {
		return nil, fmt.Errorf("cluster: %s is not an answer of one of %d nodes", key, n)
	}
	if a.Table != table.Sum() {
		return nil, fmt.Errorf("cluster: %s: it has another table of owners", key)
	}
	return &a, nil
}

func decodeReplace(key string, data []byte, v any, form *Form) error {
	if len(data) > maxReplaceBytes {
		return fmt.Errorf("cluster: %s: %w", key, ErrTooLarge)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("cluster: %s: %w", key, err)
	}
	if err := form.Check(); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// IsAnswer reports whether a key is that of an answer.
func IsAnswer(key string) bool { return strings.Count(key, ".") == 2 }

// Sent returns the account of the answering node's messages to the replaced one. It has no sums of messages. A node
// takes the messages of one incarnation in one order, so Taken of the replaced node is one of them if it took them from
// this incarnation.
func (a *ReplaceAnswer) Sent() Sent {
	return Sent{Out: a.Out, Gone: a.Gone.Totals, GoneNumber: a.Gone.Number, Last: a.Last, Unsummed: true}
}

// BoundOf returns the incarnation of another node that is accepted.
func (in *Intake) BoundOf(node int) Bound {
	b := Bound{Incarnation: in.IncarnationOf(node)}
	if node < len(in.Identities) {
		b.Identity = in.Identities[node]
	}
	return b
}

// Bind accepts a replacement if it is of a later incarnation than the accepted one of its node. It reports whether the
// intake, of a cluster of nodes, has changed. It replaces slices, so that copies of the intake stay as they are.
func (in *Intake) Bind(r *Replacement, nodes int) (changed bool) {
	if r.Incarnation <= in.IncarnationOf(r.Node) {
		return false
	}
	in.SetBound(r.Node, r.Bound(), nodes)
	return true
}

// SetBound sets the accepted incarnation of a node, and its identity.
func (in *Intake) SetBound(node int, b Bound, nodes int) {
	grown := func(list []uint64) []uint64 {
		return append(slices.Clone(list), make([]uint64, max(0, nodes-len(list)))...)
	}
	in.Incarnations, in.Identities = grown(in.Incarnations), grown(in.Identities)
	in.Incarnations[node], in.Identities[node] = b.Incarnation, b.Identity
}
