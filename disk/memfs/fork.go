package memfs

import (
	"maps"
	"slices"

	"drumbeat/disk"
)

// Step is one mutating operation of an FS.
type Step struct {
	// Number counts from 1.
	Number int
	Op     disk.Op
	// Name is the file or directory: of a rename the new name, of an open file its name when it was opened.
	Name string
}

// Last returns the last mutating operation that was begun: the one that a CrashAfter hit, if it has.
func (m *FS) Last() Step {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.last
}

// Watch calls f before each mutating operation, one at a time. Everything else waits meanwhile, so f must not
// use m; fork gives it an independent copy of m as it is without the operation, whose Crash follows seed. nil
// ends it.
func (m *FS) Watch(f func(s Step, fork func(seed uint64) *FS)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch = f
}

// Fork returns an independent copy of m as it is, whose Crash follows seed.
func (m *FS) Fork(seed uint64) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fork(seed)
}

// fork copies the file system; locks and open files stay behind, as after the end of a process. mu is held.
func (m *FS) fork(seed uint64) *FS {
	next := New(seed)
	next.nextID, next.mounts, next.capacity, next.used = m.nextID, m.mounts, m.capacity, m.used
	copies := map[*memNode]*memNode{}
	next.root = m.root.copyTo(copies)
	for n := range m.dirty {
		next.dirty[n.copyTo(copies)] = struct{}{}
	}
	for _, op := range m.pending {
		next.pending = append(next.pending, nameOp{node: op.node.copyTo(copies), from: op.from, to: op.to,
			fromDir: op.fromDir.copyTo(copies), toDir: op.toDir.copyTo(copies)})
	}
	return next
}

// copyTo returns the copy of n, which it makes at the first call.
func (n *memNode) copyTo(copies map[*memNode]*memNode) *memNode {
	if n == nil {
		return nil
	}
	if c := copies[n]; c != nil {
		return c
	}
	c := &memNode{id: n.id, mount: n.mount, linked: n.linked, size: n.size, durableSize: n.durableSize}
	copies[n] = c
	if n.isDir() {
		c.names, c.durable = map[string]*memNode{}, map[string]*memNode{}
		for name, child := range n.names {
			c.names[name] = child.copyTo(copies)
		}
		for name, child := range n.durable {
			c.durable[name] = child.copyTo(copies)
		}
		return c
	}
	// A block is changed in place only while old has its durable content, which never changes: the rest is shared.
	c.old, c.blocks = maps.Clone(n.old), slices.Clone(n.blocks)
	for i := range c.old {
		if i < len(c.blocks) {
			c.blocks[i] = slices.Clone(c.blocks[i])
		}
	}
	return c
}
