package cluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"drumbeat/weburl"
)

// A PLD whose hosts need more than a node can fetch is divided: several nodes visit its hosts. The owner of its slot
// still has the keys of its URLs and its in-degree, so it finds each new URL once, and sends it to the node that visits
// the host (docs/contribute/cluster-design.md).

// DividedParts is the number of parts of a divided PLD: each host is in one, by its key. With 128 parts, nodes with
// equal numbers of parts have equal numbers of hosts to within a few percent, if the PLD has some thousands.
const DividedParts = 128

// MaxDivided bounds the divided PLDs of a table: its value has 400 bytes for each.
const MaxDivided = 64

// Parts has the node that visits the hosts of each part of a divided PLD.
type Parts [DividedParts]uint16

// Node returns the node that visits a host, by the key of the host (weburl.Hasher.HostKey).
func (p *Parts) Node(host uint64) int { return int(p[host%DividedParts]) }

// Share returns the share of the hosts that a node visits.
func (p *Parts) Share(node int) float64 {
	n := 0
	for _, is := range p {
		if int(is) == node {
			n++
		}
	}
	return float64(n) / DividedParts
}

// Nodes lists the nodes that have parts, in ascending order.
func (p *Parts) Nodes() (nodes []int) {
	for _, node := range p {
		nodes = append(nodes, int(node))
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// EvenParts divides the parts among nodes in turn.
func EvenParts(nodes []int) (p Parts) {
	for i := range p {
		p[i] = uint16(nodes[i%len(nodes)])
	}
	return p
}

// WeightedParts divides the parts among some of the nodes in proportion to the weights of all.
func WeightedParts(weights []float64, nodes []int) (p Parts) {
	sum := 0.0
	for _, node := range nodes {
		sum += weights[node]
	}
	if sum == 0 {
		return EvenParts(nodes)
	}
	at, reached := 0, weights[nodes[0]]/sum
	for i := range p {
		for at < len(nodes)-1 && (float64(i)+0.5)/DividedParts > reached {
			at++
			reached += weights[nodes[at]] / sum
		}
		p[i] = uint16(nodes[at])
	}
	return p
}

// Division is a divided PLD. It is not changed.
type Division struct {
	PLD   string
	Slot  int // of the PLD
	Parts Parts
}

// divisionForm is a Division in a value or a file.
type divisionForm struct {
	PLD   string `json:"pld"`
	Slot  int    `json:"slot"`
	Nodes string `json:"nodes"` // of the parts, 2 bytes each, little-endian, base64
}

// Divided reports whether PLDs are divided.
func (t *Table) Divided() bool { return len(t.divided) > 0 }

// PartsOf returns the parts of a PLD; nil: it is not divided.
func (t *Table) PartsOf(pld []byte) *Parts {
	if len(t.divided) == 0 {
		return nil
	}
	if d := t.divided[string(pld)]; d != nil {
		return &d.Parts
	}
	return nil
}

// Visitor returns the node that visits a host.
func (t *Table) Visitor(h *weburl.Hasher, suffixes *weburl.Suffixes, host []byte) int {
	pld := suffixes.PLDBytes(host)
	if parts := t.PartsOf(pld); parts != nil {
		return parts.Node(h.HostKey(weburl.TrimDot(host)))
	}
	return t.Owner(h.PLDKey(pld))
}

// Divisions lists the divided PLDs by name.
func (t *Table) Divisions() (list []*Division) {
	for _, pld := range slices.Sorted(maps.Keys(t.divided)) {
		list = append(list, t.divided[pld])
	}
	return list
}

// VisitorOf returns the node that visits the hosts of a part of a PLD, which may be divided by another table alone.
func (t *Table) VisitorOf(d *Division, part int) int { return int(t.partsOf(d)[part]) }

// partsOf returns the parts of a PLD of a slot: without a division all of them are the owner's.
func (t *Table) partsOf(d *Division) *Parts {
	if is := t.divided[d.PLD]; is != nil {
		return &is.Parts
	}
	all := EvenParts([]int{t.OwnerOf(d.Slot)})
	return &all
}

// eachPart calls f for each part of a divided PLD, of one of two tables, that two tables give to different nodes.
func eachPart(before, next *Table, f func(slot, from, to int)) {
	for _, of := range [...]*Table{before, next} {
		for _, d := range of.divided {
			if of == next && before.divided[d.PLD] != nil {
				continue
			}
			from, to := before.partsOf(d), next.partsOf(d)
			for i := range from {
				if from[i] != to[i] {
					f(d.Slot, int(from[i]), int(to[i]))
				}
			}
		}
	}
}

// PartsDiffer reports whether two tables give parts of PLDs to different nodes.
func PartsDiffer(before, next *Table) (differ bool) {
	eachPart(before, next, func(_, _, _ int) { differ = true })
	return differ
}

// HostsCome returns the slots of PLDs with hosts that a node gets when a table follows another; -1: any node.
func HostsCome(before, next *Table, node int) (slots []int) {
	eachPart(before, next, func(slot, _, to int) {
		if (to == node || node == -1) && !slices.Contains(slots, slot) {
			slots = append(slots, slot)
		}
	})
	return slots
}

// Divide returns a table in which the hosts of a PLD of a slot belong to the nodes of parts. Hosts may leave one node
// alone. If the owner of the slot gets all parts, the PLD is no longer divided.
func (t *Table) Divide(pld string, slot int, parts *Parts) (*Table, error) {
	if slot < 0 || slot >= Slots || pld == "" || len(pld) > 255 {
		return nil, fmt.Errorf("cluster: the PLD %.80q of slot %d cannot be divided", pld, slot)
	}
	for _, node := range parts.Nodes() {
		if node >= t.nodes || t.HasDeparted(node) {
			return nil, fmt.Errorf("cluster: node %d cannot visit hosts of %s: it does not take part", node, pld)
		}
	}
	next := *t
	next.moves++
	next.divided = maps.Clone(t.divided)
	if next.divided == nil {
		next.divided = map[string]*Division{}
	}
	next.divided[pld] = &Division{PLD: pld, Slot: slot, Parts: *parts}
	if *parts == EvenParts([]int{t.OwnerOf(slot)}) {
		delete(next.divided, pld)
	}
	if len(next.divided) > MaxDivided {
		return nil, fmt.Errorf("cluster: %d PLDs are divided: no more can be", MaxDivided)
	}
	if !PartsDiffer(t, &next) {
		return nil, fmt.Errorf("cluster: no host of %s would move", pld)
	}
	if givers := Givers(t, &next); len(givers) > 1 {
		return nil, fmt.Errorf("cluster: hosts of %s would leave nodes %v: only those of one node can move at a time",
			pld, givers)
	}
	next.follow(t)
	return &next, nil
}

// CheckSlots returns an error if a divided PLD has another slot than its name gives. A table alone cannot tell: slots
// follow from the secret of the crawl.
func (t *Table) CheckSlots(h *weburl.Hasher) error {
	for _, d := range t.Divisions() {
		if is := weburl.Slot(h.PLDKey([]byte(d.PLD))); is != d.Slot {
			return fmt.Errorf("cluster: %w: the divided PLD %.80q is of slot %d, not %d", ErrTable, d.PLD, is, d.Slot)
		}
	}
	return nil
}

// giveParts gives the parts of PLDs that a node has to others, in turn. It changes the table.
func (t *Table) giveParts(node int, to []int) {
	for pld, d := range t.divided {
		if !slices.Contains(d.Parts[:], uint16(node)) {
			continue
		}
		given, n := *d, 0
		for i, is := range given.Parts {
			if int(is) == node {
				given.Parts[i] = uint16(to[n%len(to)])
				n++
			}
		}
		t.divided[pld] = &given
	}
}

// hasParts reports whether a node visits hosts of a divided PLD.
func (t *Table) hasParts(node int) bool {
	for _, d := range t.divided {
		if slices.Contains(d.Parts[:], uint16(node)) {
			return true
		}
	}
	return false
}

// divisionForms returns the divided PLDs as a value or a file has them; nil: none.
func (t *Table) divisionForms() (forms []divisionForm) {
	for _, d := range t.Divisions() {
		nodes := make([]byte, 0, 2*DividedParts)
		for _, node := range d.Parts {
			nodes = append(nodes, byte(node), byte(node>>8))
		}
		forms = append(forms, divisionForm{d.PLD, d.Slot, base64.StdEncoding.EncodeToString(nodes)})
	}
	return forms
}

// setDivisions sets the divided PLDs from untrusted forms.
func (t *Table) setDivisions(forms []divisionForm) error {
	if len(forms) > MaxDivided {
		return fmt.Errorf("cluster: %d divided PLDs, at most %d", len(forms), MaxDivided)
	}
	for i := range forms {
		f := &forms[i]
		nodes, err := base64.StdEncoding.DecodeString(f.Nodes)
		if err == nil && len(nodes) != 2*DividedParts {
			err = fmt.Errorf("%d bytes of nodes", len(nodes))
		}
		if err == nil && (f.PLD == "" || len(f.PLD) > 255 || f.Slot < 0 || f.Slot >= Slots || t.divided[f.PLD] != nil) {
			err = errors.New("a name or a slot that cannot be")
		}
		if err != nil {
			return fmt.Errorf("cluster: the divided PLD %.80q of slot %d: %w", f.PLD, f.Slot, err)
		}
		d := &Division{PLD: f.PLD, Slot: f.Slot}
		for part := range d.Parts {
			node := int(nodes[2*part]) | int(nodes[2*part+1])<<8
			if node >= t.nodes {
				return fmt.Errorf("cluster: hosts of %.80q belong to node %d of %d", f.PLD, node, t.nodes)
			}
			d.Parts[part] = uint16(node)
		}
		if t.divided == nil {
			t.divided = map[string]*Division{}
		}
		t.divided[f.PLD] = d
	}
	return nil
}
