package simweb

import "iter"

// Nodes yields the numbers of the URLs to be fetched.
func (e *Expected) Nodes() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range e.w.nodes {
			if e.fetched.has(i) && !yield(i) {
				return
			}
		}
	}
}

// Page reports whether a node is an HTML page, and no redirect, error or other file.
func (e *Expected) Page(node uint64) bool {
	n := e.w.nodeAt(node)
	return e.w.kind(&e.w.hosts[n.host], n.page) == HTML
}

// URL returns the URL of a node.
func (e *Expected) URL(node uint64) string { return e.w.url(e.w.nodeAt(node)) }

// AppendTargets appends the nodes to be fetched to which a node links, in document order, with repetitions.
func (e *Expected) AppendTargets(dst []uint64, node uint64) []uint64 {
	n := e.w.nodeAt(node)
	for _, t := range e.w.appendTargets(nil, n, e.w.kind(&e.w.hosts[n.host], n.page)) {
		if t.host == e.w.spam {
			continue
		}
		if i := e.w.number(t); e.fetched.has(i) {
			dst = append(dst, i)
		}
	}
	return dst
}
