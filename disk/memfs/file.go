package memfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"drumbeat/disk"
)

// memBlockBytes is the unit in which a crash keeps, loses or tears unsynced bytes.
const memBlockBytes = 4096

// memNode is a file or directory. FS.mu guards it.
type memNode struct {
	id     uint64
	mount  int  // number of the mount that it belongs to
	linked bool // has a name, so its bytes count as used

	// Of a directory: the current names, and those certain to exist after a power cut.
	names, durable map[string]*memNode

	// Of a file: blocks of memBlockBytes each. nil is a block of zeros, as is any block missing before size.
	blocks            [][]byte
	size, durableSize int64
	// old holds the durable content of each block changed since the last sync. nil is a block of zeros.
	old map[int][]byte
}

func newMemDir(id uint64, mount int) *memNode {
	return &memNode{
		id: id, mount: mount, linked: true,
		names: map[string]*memNode{}, durable: map[string]*memNode{},
	}
}

func (n *memNode) isDir() bool { return n.names != nil }

// touch prepares block i for a change: on the first change since the last sync it saves the durable content
// in old.
func (n *memNode) touch(i int) []byte {
	for len(n.blocks) <= i {
		n.blocks = append(n.blocks, nil)
	}
	b := n.blocks[i]
	if _, changed := n.old[i]; !changed {
		if n.old == nil {
			n.old = map[int][]byte{}
		}
		n.old[i] = b
		fresh := make([]byte, memBlockBytes)
		copy(fresh, b)
		b = fresh
	} else if b == nil {
		b = make([]byte, memBlockBytes)
	}
	n.blocks[i] = b
	return b
}

func (n *memNode) write(p []byte, off int64) {
	for len(p) > 0 {
		b := n.touch(int(off / memBlockBytes))
		done := copy(b[off%memBlockBytes:], p)
		p, off = p[done:], off+int64(done)
	}
}

func (n *memNode) read(p []byte, off int64) int {
	if off >= n.size {
		return 0
	}
	p = p[:min(int64(len(p)), n.size-off)]
	for rest := p; len(rest) > 0; {
		i, at := int(off/memBlockBytes), off%memBlockBytes
		done := min(len(rest), int(memBlockBytes-at))
		if i < len(n.blocks) && n.blocks[i] != nil {
			copy(rest[:done], n.blocks[i][at:])
		} else {
			clear(rest[:done])
		}
		rest, off = rest[done:], off+int64(done)
	}
	return len(p)
}

// truncate cuts or extends the file. Bytes cut off read as zeros if the file grows again.
func (n *memNode) truncate(size int64) {
	first := int(size / memBlockBytes)
	if at := size % memBlockBytes; at > 0 {
		if first < len(n.blocks) && n.blocks[first] != nil {
			clear(n.touch(first)[at:])
		}
		first++
	}
	for i := first; i < len(n.blocks); i++ {
		n.touch(i)
	}
	n.blocks = n.blocks[:min(first, len(n.blocks))]
	n.size = size
}

func (n *memNode) sync() {
	n.old = nil
	n.durableSize = n.size
}

// memFile is a handle on a memNode.
type memFile struct {
	m        *FS
	node     *memNode
	name     string
	writable bool
	closed   bool // guarded by m.mu
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) check(op string) error {
	if f.m.dead {
		return disk.ErrCrashed
	}
	if f.closed {
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

func (f *memFile) checkWrite(op string) error {
	if err := f.check(op); err != nil {
		return err
	}
	if !f.writable {
		return &fs.PathError{Op: op, Path: f.name, Err: syscall.EBADF}
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.check("read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: errors.New("negative offset")}
	}
	n := f.node.read(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	m := f.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := f.checkWrite("write"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: errors.New("negative offset")}
	}
	err := m.mutate(OpWrite, f.name)
	if err != nil {
		p = p[:m.rng.IntN(len(p)+1)]
	}
	fits, full := len(p), syscall.ENOSPC
	if f.node.linked {
		room := max(0, m.capacity-m.used)
		if m.quota > 0 && m.quota-m.used < room {
			room, full = max(0, m.quota-m.used), syscall.EDQUOT
		}
		fits = int(max(0, min(int64(len(p)), room+f.node.size-off)))
	}
	m.writeNode(f.node, p[:fits], off)
	if err == nil && fits < len(p) {
		if full == syscall.EDQUOT {
			m.refused++
		}
		err = &fs.PathError{Op: "write", Path: f.name, Err: full}
	}
	return fits, err
}

func (m *FS) writeNode(n *memNode, p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	m.dirty[n] = struct{}{}
	n.write(p, off)
	if end := off + int64(len(p)); end > n.size {
		m.resize(n, end)
	}
}

func (m *FS) resize(n *memNode, size int64) {
	if n.linked {
		m.used += size - n.size
	}
	n.size = size
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("close"); err != nil {
		return err
	}
	f.closed = true
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	return f.node.size, f.check("size")
}

func (f *memFile) Truncate(size int64) error {
	m := f.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := f.checkWrite("truncate"); err != nil {
		return err
	}
	if err := m.mutate(OpTruncate, f.name); err != nil {
		return err
	}
	if f.node.linked {
		m.used += size - f.node.size
	}
	m.dirty[f.node] = struct{}{}
	f.node.truncate(size)
	return nil
}

func (f *memFile) Sync() error {
	m := f.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := f.check("sync"); err != nil {
		return err
	}
	if err := m.mutate(OpSync, f.name); err != nil {
		return err
	}
	f.node.sync()
	delete(m.dirty, f.node)
	return nil
}

func (f *memFile) Preallocate(off, n int64) error {
	m := f.m
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := f.checkWrite("preallocate"); err != nil {
		return err
	}
	if off+n-f.node.size > m.capacity-m.used {
		return &fs.PathError{Op: "preallocate", Path: f.name, Err: syscall.ENOSPC}
	}
	return nil
}
