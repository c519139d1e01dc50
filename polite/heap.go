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
type heap []*node

func (h heap) top() *node {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h *heap) push(n *node) {
	if n.in != nil {
		panic("BUG: polite: node is in a heap already")
	}
	n.in = h
	*h = append(*h, n)
	h.up(len(*h) - 1)
}

func (h *heap) remove(n *node) {
	if n.in != h {
		panic("BUG: polite: node is not in this heap")
	}
	i, old := n.pos, *h
	last := len(old) - 1
	moved := old[last]
	old[last] = nil
	*h = old[:last]
	n.in = nil
	if i == last {
		return
	}
	(*h)[i] = moved
	h.down(i)
	h.up(moved.pos)
}

func (h heap) up(i int) {
	n := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !n.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].pos = i
		i = parent
	}
	h[i] = n
	n.pos = i
}

func (h heap) down(i int) {
	n := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(n) {
			break
		}
		h[i] = h[c]
		h[i].pos = i
		i = c
	}
	h[i] = n
	n.pos = i
}
