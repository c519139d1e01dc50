package cluster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// TableKey is the key of the table in BucketCrawl, once the table has changed while the crawl runs.
const TableKey = "table"

// TableChange is a table and the last change that led to it: the value TableKey, and a file of each node. A change is
// written only when the marks of all nodes have the table before it.
type TableChange struct {
	Form
	Kind   ChangeKind `json:"kind"`
	Giver  int        `json:"giver,omitempty"`  // of ChangeGive the first one; the node of the other kinds
	Givers []int      `json:"givers,omitempty"` // of ChangeGive in ascending order, if there are several
	Before uint64     `json:"before,omitempty"` // Table.Sum of the table before
	ID     string     `json:"id"`               // random: two changes differ
	Moves  int        `json:"moves"`            // number of the table
	Nodes  int        `json:"nodes"`
	Owners string     `json:"owners"` // of the slots, 2 bytes each, base64
	// Departed lists the nodes that take part no more.
	Departed []int `json:"departed,omitempty"`
	// Divided lists the divided PLDs.
	Divided []divisionForm `json:"divided,omitempty"`
	// Since has, by node, the number of the last change that moved slots to or from it.
	Since   []int  `json:"since,omitempty"`
	Refused string `json:"refused,omitempty"` // the reason why the giver does not carry out a ChangeGive
	// Command is the command that makes further changes; nil if this is its last one.
	Command *TableCommand `json:"command,omitempty"`
}

// TableCommand is a command that makes several changes, one after the other. It may have been interrupted.
type TableCommand struct {
	Name string    `json:"name"`           // such as join
	Node int       `json:"node,omitempty"` // that joins or leaves
	Host string    `json:"host,omitempty"` // machine of the command
	Time time.Time `json:"time"`           // of its beginning, by the clock there
}

// ChangeKind is a kind of change.
type ChangeKind string

// The kinds of changes.
const (
	ChangeGrow   ChangeKind = "grow"   // the table has one node more, which owns nothing
	ChangeGive   ChangeKind = "give"   // slots of nodes, the givers, belong to others, the takers
	ChangeDepart ChangeKind = "depart" // a node without slots takes part no more
	ChangeForget ChangeKind = "forget" // a lost node takes part no more, and others begin with its slots
)

// Encode returns the value.
func (c *TableChange) Encode() ([]byte, error) { return json.Marshal(c) }

// NewTableChange describes a table. node is the one that departs or is forgotten.
func NewTableChange(kind ChangeKind, before, t *Table, node int, id string) *TableChange {
	c := &TableChange{Form: Form{V: MovedVersion}, Kind: kind, Giver: node, ID: id, Moves: t.moves, Nodes: t.nodes,
		Owners: base64.StdEncoding.EncodeToString(t.appendOwners(nil)), Departed: t.Departed(),
		Divided: t.divisionForms()}
	if kind == ChangeGive {
		if givers := Givers(before, t); len(givers) > 1 {
			c.Giver, c.Givers, c.V = givers[0], givers, GiversVersion
		} else if len(givers) > 0 {
			c.Giver = givers[0]
		}
	}
	if len(c.Divided) > 0 || before != nil && before.Divided() {
		c.V = DividedVersion
	}
	for node := range t.nodes {
		c.Since = append(c.Since, t.Since(node))
	}
	if before != nil {
		c.Before = before.Sum()
	}
	return c
}

// ErrTable means that bytes are not a table. It comes wrapped.
var ErrTable = errors.New("not a table of owners")

// DecodeTableChange decodes an untrusted value, and returns its table, too.
func DecodeTableChange(data []byte) (*TableChange, *Table, error) {
	var c TableChange
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, nil, fmt.Errorf("cluster: %w: %w", ErrTable, err)
	}
	if err := c.Check(); err != nil {
		return nil, nil, err
	}
	owners, err := base64.StdEncoding.DecodeString(c.Owners)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: %w: %w", ErrTable, err)
	}
	t, err := ParseTable(c.Nodes, owners)
	if err == nil {
		err = t.setDivisions(c.Divided)
	}
	if err == nil {
		err = t.depart(c.Departed)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: %w: %w", ErrTable, err)
	}
	switch c.Kind {
	case ChangeGrow, ChangeGive, ChangeDepart, ChangeForget:
	default:
		return nil, nil, fmt.Errorf("cluster: %w: a change of kind %.20q", ErrTable, c.Kind)
	}
	if c.Moves < 1 || c.Giver < 0 || c.Giver >= c.Nodes || len(c.ID) > 64 || len(c.Refused) > 1<<10 {
		return nil, nil, fmt.Errorf("cluster: %w: change %d of node %d", ErrTable, c.Moves, c.Giver)
	}
	if m := c.Command; m != nil && (len(m.Name) > 64 || len(m.Host) > 256 || m.Node < 0 || m.Node >= c.Nodes) {
		return nil, nil, fmt.Errorf("cluster: %w: change %d of the command %.20q", ErrTable, c.Moves, m.Name)
	}
	if len(c.Givers) > 0 && (c.Kind != ChangeGive || !ascending(c.Givers, c.Nodes) || c.Givers[0] != c.Giver) {
		return nil, nil, fmt.Errorf("cluster: %w: change %d of the nodes %v", ErrTable, c.Moves, c.Givers)
	}
	t.moves = c.Moves
	if len(c.Since) > 0 && (len(c.Since) != c.Nodes || slices.Min(c.Since) < 0 || slices.Max(c.Since) > c.Moves) {
		return nil, nil, fmt.Errorf("cluster: %w: changes of %d of %d nodes", ErrTable, len(c.Since), c.Nodes)
	}
	t.since = c.Since
	return &c, t, nil
}

// ascending reports whether a list has nodes in ascending order.
func ascending(list []int, nodes int) bool {
	for i, node := range list {
		if node < 0 || node >= nodes || i > 0 && node <= list[i-1] {
			return false
		}
	}
	return true
}

// GiverList returns the givers of ChangeGive in ascending order; nil for other kinds.
func (c *TableChange) GiverList() []int {
	switch {
	case c.Kind != ChangeGive:
		return nil
	case len(c.Givers) > 0:
		return c.Givers
	}
	return []int{c.Giver}
}

// Gives reports whether a node is a giver.
func (c *TableChange) Gives(node int) bool { return slices.Contains(c.GiverList(), node) }

// Takers returns the nodes that get slots or hosts when a table follows another, in ascending order.
func Takers(before, next *Table) (nodes []int) {
	eachMove(before, next, func(_, to int) { nodes = append(nodes, to) })
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Givers returns the nodes that lose slots or hosts when a table follows another, in ascending order.
func Givers(before, next *Table) (nodes []int) {
	eachMove(before, next, func(from, _ int) { nodes = append(nodes, from) })
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// eachMove calls f for each slot, and each part of a divided PLD, that two tables give to different nodes.
func eachMove(before, next *Table, f func(from, to int)) {
	for slot := range Slots {
		if from, to := before.OwnerOf(slot), next.OwnerOf(slot); from != to {
			f(from, to)
		}
	}
	eachPart(before, next, func(_, from, to int) { f(from, to) })
}

// Part returns the table before a ChangeGive with the slots and hosts moved that one giver gives. If hosts move, it is
// the only one.
func Part(before, next *Table, giver int) *Table {
	part := *before
	part.divided = next.divided
	for slot := range Slots {
		if before.OwnerOf(slot) == giver {
			part.owners[slot] = next.owners[slot]
		}
	}
	return &part
}

// Grow returns a table with one node more, which owns nothing.
func (t *Table) Grow() (*Table, error) {
	if t.nodes >= MaxNodes {
		return nil, fmt.Errorf("cluster: %d nodes are the most", MaxNodes)
	}
	next := *t
	next.nodes++
	next.moves++
	next.departed = append(slices.Clone(t.departed), false)
	next.follow(t)
	return &next, nil
}

// Give returns a table in which slots belong to other nodes, by slot. No node both gives and takes slots. A node that
// alone gives slots, and all of its own, also gives its hosts of divided PLDs.
func (t *Table) Give(to map[int]int) (*Table, error) {
	next := *t
	next.moves++
	for slot, node := range to {
		if slot < 0 || slot >= Slots || node < 0 || node >= t.nodes || node == t.OwnerOf(slot) || t.HasDeparted(node) {
			return nil, fmt.Errorf("cluster: slot %d cannot move to node %d", slot, node)
		}
		next.owners[slot] = uint16(node)
	}
	if len(to) == 0 {
		return nil, errors.New("cluster: no slot would move")
	}
	givers := Givers(t, &next)
	if node := givers[0]; len(givers) == 1 && next.Share(node) == 0 && t.hasParts(node) {
		next.divided = maps.Clone(t.divided)
		next.giveParts(node, Takers(t, &next))
	}
	for _, node := range Takers(t, &next) {
		if slices.Contains(givers, node) {
			return nil, fmt.Errorf("cluster: node %d would both give and take slots", node)
		}
	}
	next.follow(t)
	return &next, nil
}

// Depart returns a table without a node. Slots that the node owns go to the others, in turn, by the fewest slots.
func (t *Table) Depart(node int) (*Table, error) {
	if node < 0 || node >= t.nodes || t.HasDeparted(node) {
		return nil, fmt.Errorf("cluster: there is no node %d", node)
	}
	next := *t
	next.moves++
	next.departed = make([]bool, t.nodes)
	copy(next.departed, t.departed)
	next.departed[node] = true
	if !slices.Contains(next.departed, false) {
		return nil, fmt.Errorf("cluster: node %d is the last one", node)
	}
	shares := make([]int, t.nodes)
	for n := range shares {
		shares[n] = t.Share(n)
	}
	for slot := range next.owners {
		if int(next.owners[slot]) != node {
			continue
		}
		least := -1
		for n, share := range shares {
			if !next.departed[n] && (least < 0 || share < shares[least]) {
				least = n
			}
		}
		next.owners[slot] = uint16(least)
		shares[least]++
	}
	next.divided = maps.Clone(t.divided)
	next.giveParts(node, next.members())
	next.follow(t)
	return &next, nil
}

// follow notes which nodes the change from the table before has moved slots to or from.
func (t *Table) follow(before *Table) {
	t.since = make([]int, t.nodes) // nodes that join have had none
	for node := range before.nodes {
		t.since[node] = before.Since(node)
	}
	eachMove(before, t, func(from, to int) { t.since[from], t.since[to] = t.moves, t.moves })
}

// Since returns the number of the last change that moved slots to or from a node; 0: none has. A table that does not
// tell returns its own number.
func (t *Table) Since(node int) int {
	if node >= len(t.since) {
		return t.moves
	}
	return t.since[node]
}

// HasDeparted reports whether a node takes part no more.
func (t *Table) HasDeparted(node int) bool { return node < len(t.departed) && t.departed[node] }

// Gone reports for each node whether it takes part no more. The caller does not change it.
func (t *Table) Gone() []bool {
	gone := make([]bool, t.nodes)
	copy(gone, t.departed)
	return gone
}

// members lists the nodes that take part.
func (t *Table) members() (list []int) {
	for node := range t.nodes {
		if !t.HasDeparted(node) {
			list = append(list, node)
		}
	}
	return list
}

// Departed lists the nodes that take part no more.
func (t *Table) Departed() (list []int) {
	for node, gone := range t.departed {
		if gone {
			list = append(list, node)
		}
	}
	return list
}

// depart notes nodes that take part no more. They own nothing.
func (t *Table) depart(list []int) error {
	if len(list) == 0 {
		return nil
	}
	t.departed = make([]bool, t.nodes)
	for _, node := range list {
		if node < 0 || node >= t.nodes || t.departed[node] || t.Share(node) > 0 || t.hasParts(node) {
			return fmt.Errorf("cluster: node %d of %d cannot have departed", node, t.nodes)
		}
		t.departed[node] = true
	}
	return nil
}
