// Package memfs is a file system in RAM for tests of crash safety. FS implements disk.FS. Like a real
// machine, it loses unsynced data in a power cut.
//
// Kill stops the program but not the machine: every completed write remains. Crash stops the machine: each
// unsynced 4 KiB block is kept, lost or torn, and each unsynced change of a name is kept or lost. A change
// is lost if an earlier change of the same name is lost. CrashAfter stops the machine at the n-th mutating
// operation. Watch sees each mutating operation before it happens and can Fork the file system, so that a
// test can continue from every moment of a run.
//
// SetCapacity and SetQuota make a disk full; Space shows only the former. Mount makes a directory a
// separate file system. NewFault wraps any FS, and its hook may fail single operations.
//
// Errors are those of a real disk: ENOSPC, EDQUOT, ErrLocked for a second lock. After a crash every call
// returns disk.ErrCrashed.
//
// What a Crash leaves depends only on the seed and the order of calls. All methods are safe for concurrent
// use. An FS writes nothing to disk and starts no goroutines. HeldBytes returns the RAM that it takes.
//
// Tests of any package may import this package. A test of internal/tidy keeps production code from doing so.
package memfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"drumbeat/disk"
)

// memCapacity is the default disk size of an FS, in bytes.
const memCapacity = 1 << 40

// FS is a file system in RAM that simulates a power cut (Crash) and kill -9 (Kill). It is safe for
// concurrent use, and deterministic for a given seed and order of calls.
type FS struct {
	// mu guards everything below. It is held for one operation at a time.
	mu       sync.RWMutex
	rng      *rand.Rand
	root     *memNode
	nextID   uint64
	mounts   int
	dirty    map[*memNode]struct{} // files with unsynced bytes
	pending  []nameOp              // unsynced name changes, in order
	locks    map[string]bool
	used     int64 // sum of the lengths of the files that have names
	capacity int64
	quota    int64 // 0 = none
	refused  int   // number of writes cut short by the quota
	ops      int
	crashAt  int // value of ops at which the machine stops; 0 = never
	last     Step
	watch    func(s Step, fork func(seed uint64) *FS)
	dead     bool
}

// New returns an empty file system in which "/" and "." exist. seed determines what a Crash leaves.
func New(seed uint64) *FS {
	return &FS{
		rng:      rand.New(rand.NewPCG(seed, 0x6d656d)),
		root:     newMemDir(0, 0),
		dirty:    map[*memNode]struct{}{},
		locks:    map[string]bool{},
		capacity: memCapacity,
	}
}

// Ops returns the number of mutating operations so far: create, write, truncate, sync, rename, remove, mkdir.
func (m *FS) Ops() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.ops
}

// CrashAfter makes the n-th mutating operation from now, and every operation after it, fail with
// ErrCrashed. If it hits a write, a part of the bytes may have been written. n = 0 cancels it.
func (m *FS) CrashAfter(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashAt = 0
	if n > 0 {
		m.crashAt = m.ops + n
	}
}

// SetCapacity sets the size of the disk in bytes. Writes beyond it are cut short with ENOSPC.
func (m *FS) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// SetQuota limits the bytes in files as a user's quota does: writes beyond it are cut short with EDQUOT,
// and Space does not reflect it. 0 removes the quota.
func (m *FS) SetQuota(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quota = bytes
}

// QuotaErrors returns the number of writes that the quota has cut short so far.
func (m *FS) QuotaErrors() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.refused
}

// Used returns the bytes in files that have names.
func (m *FS) Used() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.used
}

// mutate counts a mutating operation. The caller holds mu for writing.
func (m *FS) mutate(op Op, name string) error {
	if m.dead {
		return disk.ErrCrashed
	}
	m.ops++
	m.last = Step{Number: m.ops, Op: op, Name: name}
	if m.watch != nil {
		m.watch(m.last, m.fork)
	}
	if m.crashAt != 0 && m.ops >= m.crashAt {
		m.dead = true
		return disk.ErrCrashed
	}
	return nil
}

// split returns the directory and the last element of a name. "/x" and "x" are the same file.
func split(name string) (dir, base string) {
	dir, base = path.Split(clean(name))
	return strings.TrimSuffix(dir, "/"), base
}

func clean(name string) string {
	name = strings.TrimPrefix(path.Clean(name), "/")
	if name == "." {
		return ""
	}
	return name
}

// find returns the node of a cleaned name, or nil.
func (m *FS) find(name string) *memNode {
	n := m.root
	for name != "" && n != nil {
		var elem string
		elem, name, _ = strings.Cut(name, "/")
		n = n.names[elem]
	}
	return n
}

func (m *FS) findDir(op, name string) (*memNode, error) {
	n := m.find(clean(name))
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	if !n.isDir() {
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return n, nil
}

// Create implements FS.
func (m *FS) Create(name string) (disk.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mutate(OpCreate, name); err != nil {
		return nil, err
	}
	dir, base := split(name)
	d, err := m.findDir("create", dir)
	if err != nil {
		return nil, err
	}
	if d.names[base] != nil || base == "" {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	m.nextID++
	n := &memNode{id: m.nextID, mount: d.mount, linked: true}
	d.names[base] = n
	m.pending = append(m.pending, nameOp{node: n, toDir: d, to: base})
	return &memFile{m: m, node: n, name: name, writable: true}, nil
}

// Open implements FS.
func (m *FS) Open(name string) (disk.File, error) { return m.open(name, true) }

// OpenRead implements FS.
func (m *FS) OpenRead(name string) (disk.File, error) { return m.open(name, false) }

func (m *FS) open(name string, writable bool) (disk.File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.file("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{m: m, node: n, name: name, writable: writable}, nil
}

func (m *FS) file(op, name string) (*memNode, error) {
	if m.dead {
		return nil, disk.ErrCrashed
	}
	n := m.find(clean(name))
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	if n.isDir() {
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.EISDIR}
	}
	return n, nil
}

// Remove implements FS.
func (m *FS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mutate(OpRemove, name); err != nil {
		return err
	}
	dir, base := split(name)
	d, err := m.findDir("remove", dir)
	if err != nil {
		return err
	}
	n := d.names[base]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if len(n.names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	delete(d.names, base)
	m.unlink(n)
	m.pending = append(m.pending, nameOp{node: n, fromDir: d, from: base})
	return nil
}

func (m *FS) unlink(n *memNode) {
	n.linked = false
	m.used -= n.size
}

// Rename implements FS.
func (m *FS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mutate(OpRename, to); err != nil {
		return err
	}
	fromDir, fromBase := split(from)
	toDir, toBase := split(to)
	fd, err := m.findDir("rename", fromDir)
	if err != nil {
		return err
	}
	td, err := m.findDir("rename", toDir)
	if err != nil {
		return err
	}
	if fd.mount != td.mount {
		return &fs.PathError{Op: "rename", Path: to, Err: syscall.EXDEV}
	}
	n, old := fd.names[fromBase], td.names[toBase]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	if n == old {
		return nil
	}
	if old != nil {
		if old.isDir() {
			return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
		}
		m.unlink(old)
	}
	delete(fd.names, fromBase)
	td.names[toBase] = n
	m.pending = append(m.pending, nameOp{node: n, fromDir: fd, from: fromBase, toDir: td, to: toBase})
	return nil
}

// MkdirAll implements FS.
func (m *FS) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return disk.ErrCrashed
	}
	d := m.root
	for rest := clean(name); rest != ""; {
		var elem string
		elem, rest, _ = strings.Cut(rest, "/")
		n := d.names[elem]
		if n == nil {
			if err := m.mutate(OpMkdirAll, name); err != nil {
				return err
			}
			m.nextID++
			n = newMemDir(m.nextID, d.mount)
			d.names[elem] = n
			m.pending = append(m.pending, nameOp{node: n, toDir: d, to: elem})
		} else if !n.isDir() {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
		d = n
	}
	return nil
}

// List implements FS.
func (m *FS) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.dead {
		return nil, disk.ErrCrashed
	}
	d, err := m.findDir("list", dir)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(d.names)), nil
}

// Size implements FS.
func (m *FS) Size(name string) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.file("size", name)
	if err != nil {
		return 0, err
	}
	return n.size, nil
}

// Allocated implements FS. Files have no space allocated past their end.
func (m *FS) Allocated(name string) (int64, error) { return m.Size(name) }

// SyncDir implements FS.
func (m *FS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mutate(OpSyncDir, dir); err != nil {
		return err
	}
	d, err := m.findDir("sync", dir)
	if err != nil {
		return err
	}
	m.pending = slices.DeleteFunc(m.pending, func(op nameOp) bool {
		if op.fromDir != d && op.toDir != d {
			return false
		}
		op.apply()
		return true
	})
	return nil
}

// SyncFS implements FS. The whole FS is one file system, except for directories passed to Mount.
func (m *FS) SyncFS(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mutate(OpSyncFS, dir); err != nil {
		return err
	}
	d, err := m.findDir("syncfs", dir)
	if err != nil {
		return err
	}
	m.pending = slices.DeleteFunc(m.pending, func(op nameOp) bool {
		if !op.on(d.mount) {
			return false
		}
		op.apply()
		return true
	})
	for n := range m.dirty {
		if n.mount == d.mount {
			n.sync()
			delete(m.dirty, n)
		}
	}
	return nil
}

// Mount makes dir a separate file system, as if on a disk of its own: SyncFS of other directories does not
// reach it, and Rename cannot cross its border. dir must be empty; it is created if absent, and its name is
// durable. It shares the capacity of m.
func (m *FS) Mount(dir string) error {
	if err := m.MkdirAll(dir); err != nil {
		return err
	}
	if err := m.SyncFS(dir); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.findDir("mount", dir)
	if err != nil {
		return err
	}
	if len(d.names) > 0 || d == m.root {
		return &fs.PathError{Op: "mount", Path: dir, Err: syscall.ENOTEMPTY}
	}
	m.mounts++
	d.mount = m.mounts
	return nil
}

// Space implements FS.
func (m *FS) Space(dir string) (free, total int64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.dead {
		return 0, 0, disk.ErrCrashed
	}
	return max(0, m.capacity-m.used), m.capacity, nil
}

// FreeFiles implements FS. There is no limit.
func (m *FS) FreeFiles(dir string) (int64, error) {
	_, _, err := m.Space(dir)
	return math.MaxInt64, err
}

// Lock implements FS. A crash releases it.
func (m *FS) Lock(dir string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, disk.ErrCrashed
	}
	if _, err := m.findDir("lock", dir); err != nil {
		return nil, err
	}
	name := clean(dir)
	if m.locks[name] {
		return nil, &disk.LockedError{Dir: dir}
	}
	m.locks[name] = true
	return &memLock{m: m, name: name}, nil
}

func (m *FS) Locked(dir string) (bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.locks[clean(dir)], nil
}

type memLock struct {
	m    *FS
	name string
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if !l.m.locks[l.name] {
		return errors.New("disk: lock closed twice")
	}
	delete(l.m.locks, l.name)
	return nil
}
