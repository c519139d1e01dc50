package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// quotaBlock is the unit in which a Quota counts: the block of common file systems. A directory counts as one.
const quotaBlock = 4096

// quotaDepth limits the depth of directories in which Count looks.
const quotaDepth = 8

// ErrQuota is the error of an operation that would exceed the limit of a Quota. It is a syscall.ENOSPC, but
// does not say that no space is left on the device, which has some.
var ErrQuota error = quotaError{}

type quotaError struct{}

func (quotaError) Error() string { return "disk: the limit on the size of all files is reached" }
func (quotaError) Unwrap() error { return syscall.ENOSPC }

// Quota is an FS whose files in some directories never take more than a limit. Space is counted before it is
// written: a write, a Preallocate or a new directory that would exceed the limit fails with ErrQuota and changes
// nothing. A file counts with its length, or the end of its preallocated space if that is larger, in whole
// blocks. Not counted are the blocks in which a file system keeps its own trees, and directories beyond one block.
//
// Files of others in the directories count since the last Count. It is safe for concurrent use. It keeps some
// 200 bytes for each file. A write inside the counted length costs one atomic load, one that grows the file two
// atomic operations more.
type Quota struct {
	fs    FS
	below []string // prefixes of the names that count
	dirs  []string
	opt   QuotaOptions
	used  atomic.Int64
	mark  atomic.Int64

	countMu sync.Mutex // held by Count
	mu      sync.Mutex // guards the fields below; no I/O under it
	count   uint64     // number of calls of Count
	files   map[string]*quotaFile
}

// quotaFile is what a Quota knows of a file. A directory's name ends with a slash.
type quotaFile struct {
	charge atomic.Int64 // counted bytes, a multiple of quotaBlock; -1 once the name is gone

	// Guarded by Quota.mu.
	open    int    // descriptors that can write
	named   uint64 // Quota.count when it got its name
	ours    bool   // opened here: nobody else writes to it
	settled bool   // measured since it was last written
}

// QuotaOptions describes a Quota.
type QuotaOptions struct {
	Dirs  []string
	Limit int64 // bytes; 0: none
	// Crossed, if set, is called when the sum reaches the mark of SetMark. It must not block.
	Crossed func()
	// Final, if set, reports whether nobody changes a file of this name any more, so that its size is read once.
	Final func(name string) bool
}

// NewQuota returns an FS on top of fsys that limits the files in some directories. Call Count before anything is
// written.
func NewQuota(fsys FS, opt QuotaOptions) *Quota {
	q := &Quota{fs: fsys, opt: opt, files: map[string]*quotaFile{}}
	q.mark.Store(math.MaxInt64)
	for _, dir := range opt.Dirs {
		q.dirs = append(q.dirs, path.Clean(dir))
		q.below = append(q.below, newUseMeter(dir).below)
	}
	return q
}

// Used returns the bytes counted now.
func (q *Quota) Used() int64 { return q.used.Load() }

// SetMark sets the sum, in bytes, at which crossed is called.
func (q *Quota) SetMark(mark int64) { q.mark.Store(mark) }

// counts reports whether a name lies in the directories.
func (q *Quota) counts(name string) bool {
	for _, below := range q.below {
		if strings.HasPrefix(name, below) && (below != "" || !path.IsAbs(name)) {
			return true
		}
	}
	return false
}

// take counts n more bytes, or refuses them.
func (q *Quota) take(n int64) bool {
	for {
		old := q.used.Load()
		if q.opt.Limit > 0 && n > 0 && old+n > q.opt.Limit {
			return false
		}
		if q.used.CompareAndSwap(old, old+n) {
			if mark := q.mark.Load(); old < mark && old+n >= mark && q.opt.Crossed != nil {
				q.opt.Crossed()
			}
			return true
		}
	}
}

// grow makes the charge of a file at least end bytes.
func (q *Quota) grow(f *quotaFile, end int64) bool {
	for {
		old := f.charge.Load()
		if end <= old || old < 0 {
			return true
		}
		want := blocks(end)
		if !q.take(want - old) {
			return false
		}
		if f.charge.CompareAndSwap(old, want) {
			return true
		}
		q.take(old - want)
	}
}

// set replaces the charge of a file, unless it has changed from old. It never refuses.
func (q *Quota) set(f *quotaFile, old, want int64) {
	if old >= 0 && f.charge.CompareAndSwap(old, want) {
		q.used.Add(max(want, 0) - old)
	}
}

// drop ends the count of a file whose name is gone.
func (q *Quota) drop(f *quotaFile) {
	if old := f.charge.Swap(-1); old > 0 {
		q.used.Add(-old)
	}
}

func blocks(n int64) int64 { return (n + quotaBlock - 1) &^ (quotaBlock - 1) }

// entry returns the file of a name, and makes it if it is new.
func (q *Quota) entry(name string) *quotaFile {
	f := q.files[name]
	if f == nil {
		f = &quotaFile{named: q.count}
		q.files[name] = f
	}
	return f
}

// Create implements FS.
func (q *Quota) Create(name string) (File, error) {
	f, err := q.fs.Create(name)
	return q.opened(name, f, err)
}

// Open implements FS.
func (q *Quota) Open(name string) (File, error) {
	f, err := q.fs.Open(name)
	return q.opened(name, f, err)
}

// opened counts a descriptor that can write.
func (q *Quota) opened(name string, f File, err error) (File, error) {
	name = path.Clean(name)
	if err != nil || !q.counts(name) {
		return f, err
	}
	q.mu.Lock()
	_, known := q.files[name]
	e := q.entry(name)
	e.open++
	e.ours, e.settled = true, false
	q.mu.Unlock()
	if !known { // new, or made by another program since the last Count
		if size, err := q.fs.Allocated(name); err == nil {
			q.set(e, 0, blocks(size))
		}
	}
	return &quotaHandle{File: f, q: q, of: e}, nil
}

// OpenRead implements FS.
func (q *Quota) OpenRead(name string) (File, error) { return q.fs.OpenRead(name) }

// Remove implements FS.
func (q *Quota) Remove(name string) error {
	if err := q.fs.Remove(name); err != nil {
		return err
	}
	name = path.Clean(name)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range [...]string{name, name + "/"} {
		if f := q.files[key]; f != nil {
			q.drop(f)
			delete(q.files, key)
		}
	}
	return nil
}

// Rename implements FS.
func (q *Quota) Rename(from, to string) error {
	if err := q.fs.Rename(from, to); err != nil {
		return err
	}
	from, to = path.Clean(from), path.Clean(to)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.files[from+"/"] != nil {
		for name := range q.files {
			if rest, ok := strings.CutPrefix(name, from+"/"); ok {
				q.rename(name, to+"/"+rest)
			}
		}
		return nil
	}
	q.rename(from, to)
	return nil
}

// rename moves the entry of a file. mu is held.
func (q *Quota) rename(from, to string) {
	f := q.files[from]
	if old := q.files[to]; old != nil && from != to {
		q.drop(old)
		delete(q.files, to)
	}
	if f == nil {
		return
	}
	delete(q.files, from)
	if !q.counts(to) {
		q.drop(f)
		return
	}
	f.named = q.count
	q.files[to] = f
}

// MkdirAll implements FS.
func (q *Quota) MkdirAll(name string) error {
	var made []string
	for dir := path.Clean(name); q.counts(dir + "/"); dir = path.Dir(dir) {
		q.mu.Lock()
		known := q.files[dir+"/"] != nil
		f := q.entry(dir + "/")
		q.mu.Unlock()
		if known {
			break
		}
		if !q.grow(f, quotaBlock) {
			q.forget(append(made, dir))
			return &fs.PathError{Op: "mkdir", Path: dir, Err: ErrQuota}
		}
		if made = append(made, dir); path.Dir(dir) == dir || dir == "." {
			break
		}
	}
	err := q.fs.MkdirAll(name)
	if err != nil {
		q.forget(made)
	}
	return err
}

// forget removes directories that could not be made.
func (q *Quota) forget(dirs []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, dir := range dirs {
		if f := q.files[dir+"/"]; f != nil {
			q.drop(f)
			delete(q.files, dir+"/")
		}
	}
}

// List implements FS.
func (q *Quota) List(dir string) ([]string, error) { return q.fs.List(dir) }

// Size implements FS.
func (q *Quota) Size(name string) (int64, error) { return q.fs.Size(name) }

// Allocated implements FS.
func (q *Quota) Allocated(name string) (int64, error) { return q.fs.Allocated(name) }

// SyncDir implements FS.
func (q *Quota) SyncDir(dir string) error { return q.fs.SyncDir(dir) }

// SyncFS implements FS.
func (q *Quota) SyncFS(dir string) error { return q.fs.SyncFS(dir) }

// Space implements FS.
func (q *Quota) Space(dir string) (free, total int64, err error) { return q.fs.Space(dir) }

// FreeFiles implements FS.
func (q *Quota) FreeFiles(dir string) (int64, error) { return q.fs.FreeFiles(dir) }

// Lock implements FS.
func (q *Quota) Lock(dir string) (io.Closer, error) { return q.fs.Lock(dir) }

// quotaHandle is an open file that counts.
type quotaHandle struct {
	File
	q      *Quota
	of     *quotaFile
	closed atomic.Bool
}

func (h *quotaHandle) full(op string) error {
	return &fs.PathError{Op: op, Path: h.Name(), Err: ErrQuota}
}

// WriteAt implements File.
func (h *quotaHandle) WriteAt(p []byte, off int64) (int, error) {
	if len(p) > 0 && !h.q.grow(h.of, off+int64(len(p))) {
		return 0, h.full("write")
	}
	return h.File.WriteAt(p, off)
}

// Truncate implements File. It also gives up preallocated space past the new end.
func (h *quotaHandle) Truncate(size int64) error {
	old := h.of.charge.Load()
	if !h.q.grow(h.of, size) {
		return h.full("truncate")
	}
	err := h.File.Truncate(size)
	if err == nil && blocks(size) < old {
		h.q.set(h.of, old, blocks(size))
	}
	return err
}

// Preallocate implements File. It is a hint, but one without room fails as on a full disk.
func (h *quotaHandle) Preallocate(off, n int64) error {
	if !h.q.grow(h.of, off+n) {
		return h.full("preallocate")
	}
	return h.File.Preallocate(off, n)
}

// Close implements File.
func (h *quotaHandle) Close() error {
	if !h.closed.Swap(true) {
		h.q.mu.Lock()
		h.of.open--
		h.q.mu.Unlock()
	}
	return h.File.Close()
}

func (h *quotaHandle) writeBehind(off, n int64) { WriteBehind(h.File, off, n) }

// Count looks at the directories: it counts files of other programs, corrects the sizes of files that have been
// closed since the last Count, and forgets files that others have moved away. It reads the names of all files, but the
// size of a file that nobody changes only once.
func (q *Quota) Count() error {
	q.countMu.Lock()
	defer q.countMu.Unlock()
	q.mu.Lock()
	q.count++
	seen := make(map[string]struct{}, len(q.files))
	q.mu.Unlock()
	for _, dir := range q.dirs {
		names, err := q.fs.List(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("disk: files in %s: %w", dir, err)
		}
		if err := q.walk(dir, names, 0, seen); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, f := range q.files {
		if _, ok := seen[name]; !ok && f.named < q.count {
			q.drop(f)
			delete(q.files, name)
		}
	}
	return nil
}

// walk counts a directory and the files in it.
func (q *Quota) walk(dir string, names []string, depth int, seen map[string]struct{}) error {
	q.measured(dir+"/", quotaBlock, seen)
	for _, name := range names {
		name = path.Join(dir, name)
		q.mu.Lock()
		f := q.files[name]
		settled, old := f != nil && f.settled && f.open == 0, int64(0)
		if f != nil {
			old = f.charge.Load()
		}
		q.mu.Unlock()
		if settled {
			seen[name] = struct{}{}
			continue
		}
		if f == nil && depth < quotaDepth {
			if inside, err := q.fs.List(name); err == nil {
				if err := q.walk(name, inside, depth+1, seen); err != nil {
					return err
				}
				continue
			}
		}
		size, err := q.fs.Allocated(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since its directory was listed
		}
		if err != nil {
			return fmt.Errorf("disk: size of %s: %w", name, err)
		}
		if f == nil {
			q.measured(name, blocks(size), seen)
			continue
		}
		seen[name] = struct{}{}
		q.mu.Lock()
		if f.open > 0 {
			size = max(size, old) // its last write may not have reached the disk
		}
		q.set(f, old, blocks(size))
		f.settled = f.open == 0 && (f.ours || q.opt.Final != nil && q.opt.Final(name))
		q.mu.Unlock()
	}
	return nil
}

// measured counts a file or directory of others, or one that was not counted yet. Others may change it, so
// the next Count looks again.
func (q *Quota) measured(name string, size int64, seen map[string]struct{}) {
	seen[name] = struct{}{}
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.entry(name); f.open == 0 {
		q.set(f, f.charge.Load(), size)
	}
}

// chmod and device pass on what the file system below can do.
func (q *Quota) chmod(name string, mode fs.FileMode, widen bool) error {
	if inner, ok := q.fs.(moder); ok {
		return inner.chmod(name, mode, widen)
	}
	return nil
}

func (q *Quota) device(dir string) (string, error) { return Device(q.fs, dir), nil }
