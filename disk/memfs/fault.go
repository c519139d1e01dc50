package memfs

import (
	"io"

	"drumbeat/disk"
)

// Op is a kind of operation on an FS or File of package disk, as passed to the hook of NewFault.
type Op int

// The operations. OpRename comes with the new name. @30
const (
	OpCreate Op = iota
	OpOpen
	OpOpenRead
	OpRemove
	OpRename
	OpMkdirAll
	OpList
	OpSize
	OpSyncDir
	OpSyncFS
	OpSpace
	OpLock
	OpRead
	OpWrite
	OpTruncate
	OpSync
	OpPreallocate
	OpClose
)

// String returns the operation's name.
func (op Op) String() string {
	return [...]string{
		"create", "open", "openread", "remove", "rename", "mkdirall", "list", "size", "syncdir", "syncfs", "space",
		"lock", "read", "write", "truncate", "sync", "preallocate", "close",
	}[op]
}

// NewFault returns a disk.FS that calls hook before each operation. If hook returns an error, the
// operation returns that error and does not reach fs, except that Close still closes the file. hook must be
// safe for concurrent use.
func NewFault(fs disk.FS, hook func(op Op, name string) error) disk.FS {
	return &fault{fs: fs, hook: hook}
}

type fault struct {
	fs   disk.FS
	hook func(op Op, name string) error
}

func (t *fault) file(op Op, name string, open func(string) (disk.File, error)) (disk.File, error) {
	if err := t.hook(op, name); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{f: f, hook: t.hook}, nil
}

func (t *fault) name(op Op, name string, call func(string) error) error {
	if err := t.hook(op, name); err != nil {
		return err
	}
	return call(name)
}

func (t *fault) Create(name string) (disk.File, error) { return t.file(OpCreate, name, t.fs.Create) }
func (t *fault) Open(name string) (disk.File, error)   { return t.file(OpOpen, name, t.fs.Open) }
func (t *fault) OpenRead(name string) (disk.File, error) {
	return t.file(OpOpenRead, name, t.fs.OpenRead)
}
func (t *fault) Remove(name string) error   { return t.name(OpRemove, name, t.fs.Remove) }
func (t *fault) MkdirAll(name string) error { return t.name(OpMkdirAll, name, t.fs.MkdirAll) }
func (t *fault) SyncDir(dir string) error   { return t.name(OpSyncDir, dir, t.fs.SyncDir) }
func (t *fault) SyncFS(dir string) error    { return t.name(OpSyncFS, dir, t.fs.SyncFS) }

func (t *fault) Rename(from, to string) error {
	if err := t.hook(OpRename, to); err != nil {
		return err
	}
	return t.fs.Rename(from, to)
}

func (t *fault) List(dir string) ([]string, error) {
	if err := t.hook(OpList, dir); err != nil {
		return nil, err
	}
	return t.fs.List(dir)
}

func (t *fault) Size(name string) (int64, error) {
	if err := t.hook(OpSize, name); err != nil {
		return 0, err
	}
	return t.fs.Size(name)
}

func (t *fault) Allocated(name string) (int64, error) {
	if err := t.hook(OpSize, name); err != nil {
		return 0, err
	}
	return t.fs.Allocated(name)
}

func (t *fault) Space(dir string) (free, total int64, err error) {
	if err := t.hook(OpSpace, dir); err != nil {
		return 0, 0, err
	}
	return t.fs.Space(dir)
}

func (t *fault) FreeFiles(dir string) (int64, error) {
	if err := t.hook(OpSpace, dir); err != nil {
		return 0, err
	}
	return t.fs.FreeFiles(dir)
}

func (t *fault) Lock(dir string) (io.Closer, error) {
	if err := t.hook(OpLock, dir); err != nil {
		return nil, err
	}
	return t.fs.Lock(dir)
}

type faultFile struct {
	f    disk.File
	hook func(op Op, name string) error
}

func (f *faultFile) Name() string { return f.f.Name() }

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.hook(OpRead, f.f.Name()); err != nil {
		return 0, err
	}
	return f.f.ReadAt(p, off)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.hook(OpWrite, f.f.Name()); err != nil {
		return 0, err
	}
	return f.f.WriteAt(p, off)
}

func (f *faultFile) Size() (int64, error) {
	if err := f.hook(OpSize, f.f.Name()); err != nil {
		return 0, err
	}
	return f.f.Size()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.hook(OpTruncate, f.f.Name()); err != nil {
		return err
	}
	return f.f.Truncate(size)
}

func (f *faultFile) Sync() error {
	if err := f.hook(OpSync, f.f.Name()); err != nil {
		return err
	}
	return f.f.Sync()
}

func (f *faultFile) Preallocate(off, n int64) error {
	if err := f.hook(OpPreallocate, f.f.Name()); err != nil {
		return err
	}
	return f.f.Preallocate(off, n)
}

func (f *faultFile) Close() error {
	err := f.hook(OpClose, f.f.Name())
	if cerr := f.f.Close(); err == nil {
		err = cerr
	}
	return err
}
