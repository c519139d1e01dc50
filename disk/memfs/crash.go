package memfs

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
)

// nameOp is a change of names that is not durable yet. A creation has no from, a removal no to, a rename
// has both.
type nameOp struct {
	node           *memNode
	fromDir, toDir *memNode
	from, to       string
}

// apply makes the change durable.
func (op nameOp) apply() {
	if op.fromDir != nil && op.fromDir.durable[op.from] == op.node {
		delete(op.fromDir.durable, op.from)
	}
	if op.toDir != nil {
		op.toDir.durable[op.to] = op.node
	}
}

// on reports whether the change belongs to the file system mount. Both directories are in the same one.
func (op nameOp) on(mount int) bool {
	if op.toDir != nil {
		return op.toDir.mount == mount
	}
	return op.fromDir.mount == mount
}

// fate is what a power cut does to unsynced data of one kind.
type fate int

const (
	loseAll fate = iota
	keepAll
	mixed // decide for each item; the two values make this as likely as both extremes together
	mixedToo
	fates
)

// keep decides whether one item survives.
func (f fate) keep(rng *rand.Rand) bool { return f == keepAll || f >= mixed && rng.IntN(2) == 0 }

// Kill returns the file system as another process finds it after kill -9: everything written is there, but
// no more durable than before. The old FS then fails every call with ErrCrashed.
func (m *FS) Kill() *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	next := New(m.rng.Uint64())
	next.root, next.nextID, next.mounts = m.root, m.nextID, m.mounts
	next.capacity, next.used = m.capacity, m.used
	next.dirty, next.pending = m.dirty, m.pending
	m.root, m.dirty, m.pending = newMemDir(0, 0), nil, nil
	return next
}

// Crash returns the file system as found after a power cut now. The seed decides what remains of unsynced
// data. Each 4 KiB block is kept, lost or torn (a prefix is kept). Each name change is kept or lost, and is
// lost if an earlier change of the same name is lost. A file's length lies between the durable and the
// latest one. The old FS then fails every call with ErrCrashed.
func (m *FS) Crash() *FS {
	next := m.Kill()
	names := fate(next.rng.IntN(int(fates)))
	next.crashNames(names)
	bytes := fate(next.rng.IntN(int(fates)))
	files := slices.SortedFunc(maps.Keys(next.dirty), func(a, b *memNode) int { return cmp.Compare(a.id, b.id) })
	for _, n := range files {
		n.crash(next.rng, bytes)
	}
	clear(next.dirty)
	next.used = next.root.revive()
	return next
}

func (m *FS) crashNames(f fate) {
	type place struct {
		dir  *memNode
		name string
	}
	lost := map[place]bool{}
	for _, op := range m.pending {
		from, to := place{op.fromDir, op.from}, place{op.toDir, op.to}
		if f.keep(m.rng) && !lost[from] && !lost[to] {
			op.apply()
			continue
		}
		if op.fromDir != nil {
			lost[from] = true
		}
		if op.toDir != nil {
			lost[to] = true
		}
	}
	m.pending = nil
}

// crash decides what remains of a file's unsynced bytes.
func (n *memNode) crash(rng *rand.Rand, f fate) {
	size := n.size
	if !f.keep(rng) {
		size = n.durableSize
		if f >= mixed && n.size > size && rng.IntN(2) == 0 {
			size += rng.Int64N(n.size - size)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(n.old)) {
		old := n.old[i]
		if f.keep(rng) {
			continue
		}
		for len(n.blocks) <= i {
			n.blocks = append(n.blocks, nil)
		}
		if f >= mixed && n.blocks[i] != nil && rng.IntN(2) == 0 {
			torn := n.blocks[i][rng.IntN(memBlockBytes):]
			clear(torn[copy(torn, old[min(len(old), memBlockBytes-len(torn)):]):])
			continue
		}
		n.blocks[i] = old
	}
	n.size = max(n.size, size)
	n.truncate(size)
	n.sync()
}

// revive replaces the current names by the durable ones in the whole tree, and returns the bytes in files.
func (n *memNode) revive() (used int64) {
	n.names = maps.Clone(n.durable)
	for _, child := range n.names {
		child.linked = true
		if child.isDir() {
			used += child.revive()
		} else {
			used += child.size
		}
	}
	return used
}

// HeldBytes returns the RAM used by file content. It includes removed files whose removal a power cut could
// undo, and the durable content that unsynced writes have replaced.
func (m *FS) HeldBytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	seen := map[*memNode]bool{}
	blocks := 0
	var visit func(n *memNode)
	visit = func(n *memNode) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		for _, names := range []map[string]*memNode{n.names, n.durable} {
			for _, below := range names {
				visit(below)
			}
		}
		for _, b := range n.blocks {
			blocks += min(1, len(b))
		}
		for _, b := range n.old {
			blocks += min(1, len(b))
		}
	}
	visit(m.root)
	for n := range m.dirty {
		visit(n)
	}
	for _, op := range m.pending {
		visit(op.node)
	}
	return int64(blocks) * memBlockBytes
}
