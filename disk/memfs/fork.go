package memfs

import (
	"maps"
	"slices"
)

// Step is one mutating operation of an FS.
type Step struct {
	// Number counts operations from 1.
	Number int
	Op     Op
	// Name is the file or directory: the new name for a rename, the name at opening for an open file.
	Name string
}

// Last returns the most recent mutating operation that started. After a crash by CrashAfter it is the one
// hit.
func (m *FS) Last() Step {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.last
}

// Watch calls f before each mutating operation, one at a time, with m locked: f must not use m. fork
// returns an independent copy of m as it is before the operation; seed determines what its Crash leaves. A
// nil f ends the watch.
func (m *FS) Watch(f func(s Step, fork func(seed uint64) *FS)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch = f
}

// Fork returns an independent copy of m in its current state. seed determines what the copy's Crash leaves.
func (m *FS) Fork(seed uint64) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fork(seed)
}

// fork copies the file system without its locks and open files, as after the end of a process. The caller
// holds mu.
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

// copyTo returns the copy of n in copies. The first call makes it.
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
	// Only blocks in old are ever changed in place, and the content that old keeps never changes. So the
	// copies share all other blocks.
	c.old, c.blocks = maps.Clone(n.old), slices.Clone(n.blocks)
	for i := range c.old {
		if i < len(c.blocks) {
			c.blocks[i] = slices.Clone(c.blocks[i])
		}
	}
	return c
}
