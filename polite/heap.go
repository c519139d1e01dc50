package polite

// node is the position of an entity in a heap, embedded in host, server, pld and network.
type node struct {
	when   int64  // sort key
	seq    uint64 // order among equal times: first in, first out
	in     *heap  // the heap that contains it, or nil
	pos    int    // index in that heap
	host   *host  // the entity: one of the four is set
	server *server
	pld    *pld
	net    *network
}

func (n *node) before(m *node) bool { return n.when < m.when || n.when == m.when && n.seq < m.seq }

// heap is a binary min-heap of nodes that know their position.
type heap struct {
	nodes []*node
	seq   uint64 // of the latest node
}

func (h *heap) top() *node {
	if len(h.nodes) == 0 {
		return nil
	}
	return h.nodes[0]
}

// when returns the time of the top; Forever if the heap is empty.
func (h *heap) when() int64 {
	if len(h.nodes) == 0 {
		return int64(Forever)
	}
	return h.nodes[0].when
}

func (h *heap) push(n *node) {
	if n.in != nil {
		panic("BUG: polite: node is in a heap already")
	}
	h.seq++
	n.in, n.seq = h, h.seq
	h.nodes = append(h.nodes, n)
	h.up(len(h.nodes) - 1)
}

func (h *heap) remove(n *node) {
	if n.in != h {
		panic("BUG: polite: node is not in this heap")
	}
	i, last := n.pos, len(h.nodes)-1
	moved := h.nodes[last]
	h.nodes[last] = nil
	h.nodes = h.nodes[:last]
	n.in = nil
	if i == last {
		return
	}
	h.nodes[i] = moved
	h.down(i)
	h.up(moved.pos)
}

// hang moves a node to the heap want at the given time, or to no heap if want is nil.
func hang(n *node, want *heap, when int64) {
	if n.in == want && (want == nil || n.when == when) {
		return
	}
	if n.in != nil {
		n.in.remove(n)
	}
	if want != nil {
		n.when = when
		want.push(n)
	}
}

func (h *heap) up(i int) {
	nodes := h.nodes
	n := nodes[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !n.before(nodes[parent]) {
			break
		}
		nodes[i] = nodes[parent]
		nodes[i].pos = i
		i = parent
	}
	nodes[i] = n
	n.pos = i
}

func (h *heap) down(i int) {
	nodes := h.nodes
	n := nodes[i]
	for {
		c := 2*i + 1
		if c >= len(nodes) {
			break
		}
		if c+1 < len(nodes) && nodes[c+1].before(nodes[c]) {
			c++
		}
		if !nodes[c].before(n) {
			break
		}
		nodes[i] = nodes[c]
		nodes[i].pos = i
		i = c
	}
	nodes[i] = n
	n.pos = i
}
