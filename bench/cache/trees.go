package cache

import "reflect"

// avl is a balanced search tree (Adelson-Velsky and Landis 1962): what Table V calls a balanced tree. Nodes are in one
// slice and known by number, which takes less than pointers do; 0 is none. The slice has room for all from the
// beginning: growing isn't measured.
type avl[K any] struct {
	nodes   []avlNode[K]
	root    uint32
	compare func(a, b K) int
	// met is the node that the last put found or made, fresh whether it made it.
	met   uint32
	fresh bool
	spare uint32 // a node that was removed, which the next put takes
}

type avlNode[K any] struct {
	key         K
	left, right uint32
	height      int32
}

func newAVL[K any](entries int, compare func(a, b K) int) *avl[K] {
	return &avl[K]{nodes: make([]avlNode[K], 1, entries+1), compare: compare}
}

// put finds a key, or adds it.
func (t *avl[K]) put(key K) (node uint32, fresh bool) {
	t.root = t.insert(t.root, key)
	return t.met, t.fresh
}

func (t *avl[K]) insert(at uint32, key K) uint32 {
	if at == 0 {
		if t.met, t.fresh = t.spare, true; t.spare == 0 {
			t.met = uint32(len(t.nodes))
			t.nodes = append(t.nodes, avlNode[K]{})
		}
		t.spare = 0
		t.nodes[t.met] = avlNode[K]{key: key, height: 1}
		return t.met
	}
	switch order := t.compare(key, t.nodes[at].key); {
	case order < 0:
		child := t.insert(t.nodes[at].left, key)
		t.nodes[at].left = child
	case order > 0:
		child := t.insert(t.nodes[at].right, key)
		t.nodes[at].right = child
	default:
		t.met, t.fresh = at, false
	}
	if !t.fresh {
		return at
	}
	return t.balance(at)
}

// remove takes out a key that is in the tree; the next put uses its node.
func (t *avl[K]) remove(key K) { t.root = t.delete(t.root, key) }

func (t *avl[K]) delete(at uint32, key K) uint32 {
	n := &t.nodes[at]
	switch order := t.compare(key, n.key); {
	case order < 0:
		n.left = t.delete(n.left, key)
	case order > 0:
		n.right = t.delete(n.right, key)
	default:
		t.spare = at
		if n.left == 0 {
			return n.right
		}
		if n.right == 0 {
			return n.left
		}
		right, next := t.takeLeast(n.right)
		t.nodes[next].left, t.nodes[next].right = n.left, right
		at = next
	}
	return t.balance(at)
}

// takeLeast takes the least node out of a tree and returns what is left, and the node.
func (t *avl[K]) takeLeast(at uint32) (rest, least uint32) {
	n := &t.nodes[at]
	if n.left == 0 {
		return n.right, at
	}
	n.left, least = t.takeLeast(n.left)
	return t.balance(at), least
}

// lean is how much higher the left side is.
func (t *avl[K]) lean(at uint32) int32 {
	return t.nodes[t.nodes[at].left].height - t.nodes[t.nodes[at].right].height
}

func (t *avl[K]) balance(at uint32) uint32 {
	n := &t.nodes[at]
	switch lean := t.lean(at); {
	case lean > 1:
		if t.lean(n.left) < 0 {
			n.left = t.rotateLeft(n.left)
		}
		return t.rotateRight(at)
	case lean < -1:
		if t.lean(n.right) > 0 {
			n.right = t.rotateRight(n.right)
		}
		return t.rotateLeft(at)
	}
	t.measure(at)
	return at
}

func (t *avl[K]) measure(at uint32) {
	n := &t.nodes[at]
	n.height = 1 + max(t.nodes[n.left].height, t.nodes[n.right].height)
}

func (t *avl[K]) rotateRight(at uint32) uint32 {
	top := t.nodes[at].left
	t.nodes[at].left, t.nodes[top].right = t.nodes[top].right, at
	t.measure(at)
	t.measure(top)
	return top
}

func (t *avl[K]) rotateLeft(at uint32) uint32 {
	top := t.nodes[at].right
	t.nodes[at].right, t.nodes[top].left = t.nodes[top].left, at
	t.measure(at)
	t.measure(top)
	return top
}

func (t *avl[K]) bytes() int64 {
	return int64(cap(t.nodes)) * int64(reflect.TypeFor[avlNode[K]]().Size())
}

// compareKeys is cmp.Compare for numbers, without its care for NaN.
func compareKeys(a, b uint64) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// treeSet is a set of 8-byte keys that forgets nothing.
type treeSet struct{ avl[uint64] }

func newTreeSet(entries int) *treeSet { return &treeSet{*newAVL(entries, compareKeys)} }

func (c *treeSet) testAndSet(key uint64) bool {
	_, fresh := c.put(key)
	return !fresh
}

// treeLRU is exact LRU with a tree for its index: what Table V calls classical.
type treeLRU struct {
	avl[uint64]
	list    recency
	entries int
}

func newTreeLRU(entries int) *treeLRU {
	return &treeLRU{*newAVL(entries+1, compareKeys), newRecency(entries + 1), entries}
}

func (c *treeLRU) testAndSet(key uint64) bool {
	node, fresh := c.put(key)
	slot := int(node) - 1
	if !fresh {
		c.list.drop(slot)
	}
	c.list.add(slot)
	if c.list.n > c.entries {
		oldest := c.list.oldest()
		c.list.drop(oldest)
		c.remove(c.nodes[oldest+1].key)
	}
	return !fresh
}

func (c *treeLRU) bytes() int64 { return c.avl.bytes() + c.list.bytes() }
