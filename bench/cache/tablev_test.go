package cache

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/bench/measure"
	"drumbeat/drum"
)

// tableEntries is E of Table V, where the paper has 16M; trees of texts take 200 bytes each.
var tableEntries = flag.Int("table-entries", 1<<20, "entries of the structures of Table V")

// avl is a balanced search tree (Adelson-Velsky and Landis, 1962), the balanced tree of Table V. Nodes are in one
// slice and known by number, which takes less room than pointers; 0 is none.
type avl[K any] struct {
	nodes   []avlNode[K]
	root    uint32
	compare func(a, b K) int
	met     uint32 // node that the last put found or made
	fresh   bool   // it made it
	spare   uint32 // a removed node, which the next put takes
}

type avlNode[K any] struct {
	key         K
	left, right uint32
	height      int32
}

func newAVL[K any](entries int, compare func(a, b K) int) *avl[K] {
	return &avl[K]{nodes: make([]avlNode[K], 1, entries+2), compare: compare}
}

func (t *avl[K]) put(key K) (fresh bool) {
	t.root = t.insert(t.root, key)
	return t.fresh
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

func (t *avl[K]) takeLeast(at uint32) (rest, least uint32) {
	n := &t.nodes[at]
	if n.left == 0 {
		return n.right, at
	}
	n.left, least = t.takeLeast(n.left)
	return t.balance(at), least
}

// lean is by how much the left side is higher.
func (t *avl[K]) lean(at uint32) int32 {
	return t.nodes[t.nodes[at].left].height - t.nodes[t.nodes[at].right].height
}

func (t *avl[K]) balance(at uint32) uint32 {
	n := &t.nodes[at]
	switch lean := t.lean(at); {
	case lean > 1:
		if t.lean(n.left) < 0 {
			n.left = t.rotate(n.left, true)
		}
		return t.rotate(at, false)
	case lean < -1:
		if t.lean(n.right) > 0 {
			n.right = t.rotate(n.right, false)
		}
		return t.rotate(at, true)
	}
	t.measure(at)
	return at
}

func (t *avl[K]) measure(at uint32) {
	n := &t.nodes[at]
	n.height = 1 + max(t.nodes[n.left].height, t.nodes[n.right].height)
}

// rotate makes a child the parent: the right one if toLeft is set.
func (t *avl[K]) rotate(at uint32, toLeft bool) (top uint32) {
	if toLeft {
		top = t.nodes[at].right
		t.nodes[at].right, t.nodes[top].left = t.nodes[top].left, at
	} else {
		top = t.nodes[at].left
		t.nodes[at].left, t.nodes[top].right = t.nodes[top].right, at
	}
	t.measure(at)
	t.measure(top)
	return top
}

// treeSet is the balanced tree of 8-byte keys, which forgets nothing.
type treeSet struct{ *avl[uint64] }

func (c treeSet) testAndSet(key uint64) bool { return !c.put(key) }

// treeLRU is exact LRU with a tree as its index.
type treeLRU struct {
	*avl[uint64]
	list    recency
	entries int
}

func (c *treeLRU) testAndSet(key uint64) bool {
	nodes := len(c.nodes)
	fresh := c.put(key)
	slot := int(c.met) - 1
	if len(c.nodes) > nodes {
		c.list.add(slot)
	} else {
		c.list.touch(slot) // also that of a removed node, which stayed in the list
	}
	if !fresh || len(c.nodes)-1 <= c.entries {
		return !fresh
	}
	oldest := c.list.oldest()
	c.remove(c.nodes[oldest+1].key)
	return false
}

// textTree is the balanced tree of texts, as in Polybot.
type textTree struct{ *avl[[]byte] }

func (c textTree) testAndSet(key uint64) bool {
	return !c.put(fmt.Appendf(make([]byte, 0, 80),
		"http://www.site-%05d.example/a/directory/with/pages/number-%016x.html", key%30000, key))
}

// structures are those of Table V, and ours.
func structures(entries int) []policy {
	return append([]policy{
		{"balanced tree (strings)", func(n int) (keyCache, func()) {
			return textTree{newAVL(n, bytes.Compare)}, func() {}
		}},
		{"tree-based LRU", func(n int) (keyCache, func()) {
			return &treeLRU{newAVL(n+1, cmp.Compare[uint64]), newRecency(n + 1), n}, func() {}
		}},
		{"balanced tree (8 bytes)", func(n int) (keyCache, func()) {
			return treeSet{newAVL(n, cmp.Compare[uint64])}, func() {}
		}},
	}, policies()...)
}

// TestStructures: the trees answer as a map does, LRU as exact LRU, and a tree stays balanced.
func TestStructures(t *testing.T) {
	const entries = 500
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[uint64]bool{}
	set, texts := treeSet{newAVL(entries, cmp.Compare[uint64])}, textTree{newAVL(entries, bytes.Compare)}
	lru, want := &treeLRU{newAVL(entries+1, cmp.Compare[uint64]), newRecency(entries + 1), entries},
		newExactLRU(entries)
	for i := range 20_000 {
		key := uint64(rng.ExpFloat64() * 300)
		if a, b := set.testAndSet(key), texts.testAndSet(key); a != seen[key] || b != seen[key] {
			t.Fatalf("%d: key %d: %v and %v, want %v", i, key, a, b, seen[key])
		}
		seen[key] = true
		if got, want := lru.testAndSet(key), want.testAndSet(key); got != want {
			t.Fatalf("%d: key %d is in the LRU: %v, want %v", i, key, got, want)
		}
	}
	for at := range set.nodes[1:] {
		if lean := set.lean(uint32(at + 1)); lean < -1 || lean > 1 {
			t.Errorf("node %d leans by %d", at, lean)
		}
	}
}

// BenchmarkTableV inserts new keys into the structures of Table V, in CPU time of one thread, as Table V does: from
// empty until they are full. It prints S_cache by equation (21) for Smax = 4,000 pages/s. With 16M entries:
//
//	go test ./bench/cache -run '^$' -bench TableV -benchtime 1x -table-entries 16777216
func BenchmarkTableV(b *testing.B) {
	for _, p := range structures(*tableEntries) {
		b.Run(p.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for b.Loop() {
				before := residentBytes()
				c, free := p.make(*tableEntries)
				start := measure.ThreadTime()
				for i := range uint64(*tableEntries) {
					c.testAndSet(mix64(i + 1))
				}
				took := measure.ThreadTime() - start
				speed := float64(*tableEntries) / took.Seconds()
				b.ReportMetric(speed, "keys/s")
				b.ReportMetric(float64(residentBytes()-before)/float64(*tableEntries), "B/entry")
				b.ReportMetric(drum.CacheRate(speed, 4000, paperLinksPerPage), "S_cache")
				runtime.KeepAlive(c)
				free()
			}
		})
	}
}

// BenchmarkTheorem4 runs a crawl that the CPU limits: work for each page, and its links through a structure. The rate
// is beside that of Theorem 4, from the rate of the work alone and the speed of the structure alone.
func BenchmarkTheorem4(b *testing.B) {
	page := make([]byte, 25_200) // of the paper's mean size
	for i := range page {
		page[i] = byte(i * 7)
	}
	var sum uint64
	work := func() {
		for range 24 { // some 60 µs
			sum += xxhash.Sum64(page)
		}
	}
	timed := func(n int, do func(i int)) time.Duration {
		start := measure.ThreadTime()
		for i := range n {
			do(i)
		}
		return measure.ThreadTime() - start
	}
	for _, p := range structures(*tableEntries) {
		b.Run(p.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for b.Loop() {
				c, free := p.make(*tableEntries)
				next := uint64(0)
				links := func() {
					for range paperLinksPerPage {
						next++
						c.testAndSet(mix64(next))
					}
				}
				pages := *tableEntries / paperLinksPerPage / 4
				timed(pages, func(int) { links() }) // half full: the speed of a tree depends on its size
				speed := float64(paperLinksPerPage*pages) / timed(pages, func(int) { links() }).Seconds()
				most := float64(pages) / timed(pages, func(int) { work() }).Seconds()
				rate := float64(pages) / timed(pages, func(int) { work(); links() }).Seconds()
				want := drum.CacheRate(speed, most, paperLinksPerPage)
				b.ReportMetric(rate, "pages/s")
				b.ReportMetric(want, "theorem-pages/s")
				b.ReportMetric(rate/want, "ratio")
				free()
			}
		})
	}
	if sum == 0 {
		b.Log("no work was done")
	}
}
