package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// wholeMark returns the mark of an idle node that has exchanged nothing.
func wholeMark(node, nodes int) *Mark {
	return &Mark{Node: node, Idle: true, Taken: make([]Taken, nodes), Out: make([]int64, nodes),
		Gone: make([]uint64, nodes), ResendRequests: make([]uint64, nodes)}
}

// TestHeads: the head of a mark, and an entry of it, arrive as they were; a head with entries that are older than it is
// nothing.
func TestHeads(t *testing.T) {
	t.Parallel()
	m := wholeMark(1, 4)
	m.Checkpoint, m.Incarnation, m.Abandoned, m.Pages, m.AgreedTo = 9, 2, []int{3}, 70, 5
	m.Agreed = []uint64{11, 12, 13, 14}
	for node := range 4 {
		m.Taken[node] = Taken{Number: uint64(node + 1)}
		m.Taken[node].Totals.Links.N, m.Out[node] = int64(10*node), int64(100*node)
		m.Gone[node], m.ResendRequests[node] = uint64(node), 2
	}
	m.Taken[1], m.Out[1] = Taken{}, 0 // its own
	data, err := m.Head().Encode()
	must(t, err)
	if strings.Contains(string(data), "taken") {
		t.Errorf("a head with entries: %s", data)
	}
	head, err := DecodeMark(MarkKey(1), data, 4)
	must(t, err)
	if got := *head.Sums; got != (MarkSums{Nodes: 4, Received: 20, Sent: 200, Resends: 8}) {
		t.Errorf("sums %+v: node 3 is abandoned, node 1 is itself", got)
	}
	pairs, err := m.EncodePairs()
	must(t, err)
	whole, err := DecodePairs(1, pairs, 4)
	must(t, err)
	for node := range 4 {
		one, all := whole.Joined(head, node, false), whole.Joined(head, node, true)
		if got := one.With(node); got != m.With(node) || one.Whole() {
			t.Errorf("entry %d: %+v, want %+v", node, got, m.With(node))
		}
		if !slices.Equal(all.Out, m.Out) || !all.Whole() || all.Pages != 70 {
			t.Errorf("all entries: %+v", all)
		}
	}
	later, old, unasked, unsure := *whole, *whole, *whole, *whole
	later.Checkpoint, later.Pages, old.Checkpoint, unasked.AgreedTo = 10, 80, 8, 4
	unsure.ResendRequests = make([]uint64, 4)
	if got := later.Joined(head, 0, false); got == nil || got.Pages != 80 {
		t.Error("a later mark replaces the head")
	}
	for i, m := range []*Mark{&old, &unasked, &unsure} {
		if m.Joined(head, 0, false) != nil {
			t.Errorf("case %d: entries from before the head", i)
		}
	}
	if _, err := DecodeMark(MarkKey(1), data, 3); err == nil {
		t.Error("a head of a larger cluster was taken")
	}
	grown, err := DecodeMark(MarkKey(1), data, 5)
	must(t, err)
	if grown.Sums.Nodes != 5 || grown.AgreedTo != 0 {
		t.Errorf("a head from before the cluster grew: %+v", grown)
	}
	for _, forged := range []string{`"received":-1`, `"sent":-1`, `"nodes":0`} {
		name, _, _ := strings.Cut(forged, ":")
		at := strings.Index(string(data), name)
		end := at + strings.IndexAny(string(data[at:]), ",}")
		if _, err := DecodeMark(MarkKey(1), []byte(string(data[:at])+forged+string(data[end:])), 4); err == nil {
			t.Errorf("%s was taken", forged)
		}
	}
	if _, err := DecodePairs(1, pairs[:len(pairs)-1], 4); err == nil {
		t.Error("a cut value was taken")
	}
}

// endNode is a node of TestOverModel.
type endNode struct {
	busy     bool
	in, out  []int64
	term, to uint64
	agreed   []uint64 // terms
	wasIdle  bool     // by the last mark
	sums     int64    // in it, together
	view     []*Mark  // last mark of each node that it has read
	news     [][]*Mark
	pauses   int // rounds of settle in which it does not agree: all read its new term before
	starts   int // how often it still has work of its own
}

func (n *endNode) withdraw(r *rand.Rand) {
	if n.agreed != nil {
		n.agreed, n.to, n.term, n.pauses = nil, 0, r.Uint64(), 2
	}
}

// endModel is a crawl of a few nodes near its end. Records and marks arrive late, and marks may be skipped.
type endModel struct {
	r     *rand.Rand
	nodes []*endNode
	ways  map[[2]int]int // records on their way
	sends int            // how many records are still sent
	form  func(*Mark) *Mark
}

func newEndModel(seed uint64, nodes int, form func(*Mark) *Mark) *endModel {
	m := &endModel{r: rand.New(rand.NewPCG(seed, 1)), ways: map[[2]int]int{}, sends: 2 * nodes, form: form}
	for range nodes {
		m.nodes = append(m.nodes, &endNode{busy: m.r.IntN(2) == 0, in: make([]int64, nodes), out: make([]int64, nodes),
			term: m.r.Uint64(), view: make([]*Mark, nodes), news: make([][]*Mark, nodes), starts: 1})
	}
	return m
}

// step does something somewhere. It returns whether a node has found the crawl over.
func (m *endModel) step() bool {
	i, j := m.r.IntN(len(m.nodes)), m.r.IntN(len(m.nodes))
	n := m.nodes[i]
	switch m.r.IntN(7) {
	case 0: // it works
		switch {
		case n.busy && m.sends > 0 && i != j && m.r.IntN(2) == 0:
			m.sends--
			n.out[j]++
			m.ways[[2]int{i, j}]++
		case n.busy:
			n.busy = false
		case n.agreed == nil && n.starts > 0:
			n.starts--
			n.busy = true
		}
	case 1: // takes a record
		if way := [2]int{j, i}; m.ways[way] > 0 {
			m.ways[way]--
			n.in[j]++
			n.busy = true
			n.withdraw(m.r)
		}
	case 2, 3: // writes its mark
		m.write(i)
	case 4: // reads a mark
		if all := len(n.news[j]); all > 0 && m.r.IntN(4) > 0 {
			m.read(i, j, 0)
		} else if all > 0 {
			m.read(i, j, all-1)
		}
	case 5:
		m.agree(i)
	case 6:
		return m.over(i)
	}
	return false
}

// write writes the mark of a node.
func (m *endModel) write(i int) {
	n, sums := m.nodes[i], int64(0)
	mark := wholeMark(i, len(m.nodes))
	for node := range m.nodes {
		mark.Taken[node].Totals.Links.N, mark.Out[node] = n.in[node], n.out[node]
		sums += n.in[node] + n.out[node]
	}
	if n.wasIdle && n.busy || sums != n.sums {
		n.term = m.r.Uint64()
	}
	n.wasIdle, n.sums = !n.busy, sums
	mark.Idle, mark.Term, mark.AgreedTo, mark.Agreed = !n.busy, n.term, n.to, n.agreed
	n.view[i] = mark
	for node, other := range m.nodes {
		if node != i {
			other.news[i] = append(other.news[i], m.form(mark))
		}
	}
}

// read makes node i read a mark of node j, and skip those before.
func (m *endModel) read(i, j, at int) {
	n := m.nodes[i]
	mark := n.news[j][at]
	n.news[j], n.view[j] = n.news[j][at+1:], mark
	if n.agreed != nil && (!mark.Idle || mark.Term != n.agreed[j]) {
		n.withdraw(m.r)
	}
}

// agree makes a node agree to the end if it can.
func (m *endModel) agree(i int) {
	n := m.nodes[i]
	mine := n.view[i]
	if n.busy || n.agreed != nil || mine == nil || !slices.Equal(mine.Out, n.out) || !Quiet(n.view, nil) {
		return
	}
	for node := range n.in {
		if mine.Taken[node].Totals.Links.N != n.in[node] {
			return
		}
	}
	own := *mine
	own.Term, n.view[i] = n.term, &own
	n.agreed, n.to = Terms(n.view), Agreement(n.view, nil)
}

// over reports whether a node has found the crawl over.
func (m *endModel) over(i int) bool {
	n := m.nodes[i]
	return !n.busy && n.agreed != nil && Over(n.view, nil, 1)
}

// settle lets all nodes finish, with all marks on time. It returns whether one finds the crawl over.
func (m *endModel) settle() bool {
	for way, n := range m.ways {
		if n > 0 {
			m.nodes[way[1]].in[way[0]] += int64(n)
			m.nodes[way[1]].withdraw(m.r)
			m.ways[way] = 0
		}
	}
	for _, n := range m.nodes {
		n.busy = false
	}
	for range 10 {
		for i := range m.nodes {
			m.write(i)
		}
		for i, n := range m.nodes {
			for j := range n.news {
				if all := len(n.news[j]); all > 0 {
					m.read(i, j, all-1)
				}
			}
		}
		for i := range m.nodes {
			if m.over(i) {
				return true
			}
			if m.nodes[i].pauses > 0 {
				m.nodes[i].pauses--
			} else {
				m.agree(i)
			}
		}
	}
	return false
}

// wrong says why the crawl is not over; "" if it is.
func (m *endModel) wrong() string {
	for way, n := range m.ways {
		if n > 0 {
			return fmt.Sprintf("%d records are on their way from node %d to node %d", n, way[0], way[1])
		}
	}
	for i, n := range m.nodes {
		if n.busy || n.agreed == nil {
			return fmt.Sprintf("node %d has work, or may have", i)
		}
	}
	return ""
}

// TestOverModel: no node finds the crawl over while a record is on its way or a node has work, whatever arrives late,
// and each crawl ends once all arrives; with whole marks, with heads, and with heads of some nodes.
func TestOverModel(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]func(*Mark) *Mark{
		"whole": func(m *Mark) *Mark { return m },
		"heads": (*Mark).Head,
		"mixed": func(m *Mark) *Mark {
			if m.Node == 0 {
				return m
			}
			return m.Head()
		},
	} {
		over := 0
		const crawls = 3000
		for seed := range uint64(crawls) {
			m := newEndModel(seed, 2+int(seed%3), form)
			ended := false
			for range 1000 {
				if ended = m.step(); ended {
					break
				}
			}
			if ended {
				over++
			} else if !m.settle() {
				t.Fatalf("%s, seed %d: the crawl does not end", name, seed)
			}
			if why := m.wrong(); why != "" {
				t.Fatalf("%s, seed %d: the crawl is over, and %s", name, seed, why)
			}
		}
		t.Logf("%s: %d of %d crawls have ended while all was late", name, over, crawls)
	}
}
