package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"drumbeat/disk"
)

// diskFS adapts a disk.FS to Pebble. It never syncs.
//
// Pebble ends the process when it can't write its manifest, and retries a failed flush forever while
// callers wait. So diskFS keeps the first error of a write and reports success to Pebble. After that it
// writes nothing and every read fails with that error. The store checks for the error before it answers,
// and fails too.
type diskFS struct {
	fs disk.FS

	mu  sync.Mutex // guards err; held only for an assignment
	err error
}

// writeBytes is the size of a write to a file; diskFS collects Pebble's writes of 4 KiB.
const writeBytes = 256 << 10

var (
	_ vfs.FS   = (*diskFS)(nil)
	_ vfs.File = (*file)(nil)
)

// failure returns the error that stopped the store, or nil.
func (p *diskFS) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// note keeps the first error.
func (p *diskFS) note(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// change runs do, which changes the disk, unless an error occurred before.
func (p *diskFS) change(do func() error) {
	if p.failure() == nil {
		p.note(do())
	}
}

// Create implements vfs.FS.
func (p *diskFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	f := &file{fs: p, name: name}
	p.change(func() error {
		if err := p.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var err error
		f.f, err = p.fs.Create(name)
		return err
	})
	return f, nil
}

// Link implements vfs.FS. Pebble only links files that it then deletes under the old name, so a rename
// suffices.
func (p *diskFS) Link(oldname, newname string) error { return p.Rename(oldname, newname) }

// Open implements vfs.FS.
func (p *diskFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := p.failure(); err != nil {
		return nil, err
	}
	f, err := p.fs.OpenRead(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.note(err)
		}
		return nil, err
	}
	return &file{fs: p, name: name, f: f}, nil
}

// OpenReadWrite implements vfs.FS.
func (p *diskFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, _ ...vfs.OpenOption,
) (vfs.File, error) {
	f, err := p.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return p.Create(name, category)
	}
	p.note(err)
	return &file{fs: p, name: name, f: f}, nil
}

// OpenDir implements vfs.FS.
func (p *diskFS) OpenDir(name string) (vfs.File, error) { return &file{fs: p, name: name}, nil }

// Remove implements vfs.FS.
func (p *diskFS) Remove(name string) error {
	err := p.fs.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.note(err)
	return nil
}

// RemoveAll implements vfs.FS.
func (p *diskFS) RemoveAll(name string) error {
	names, err := p.fs.List(name)
	if err == nil {
		for _, n := range names {
			_ = p.RemoveAll(path.Join(name, n)) // records its own errors
		}
	}
	if err := p.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Rename implements vfs.FS.
func (p *diskFS) Rename(oldname, newname string) error {
	p.change(func() error { return p.fs.Rename(oldname, newname) })
	return nil
}

// ReuseForWrite implements vfs.FS.
func (p *diskFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.Remove(oldname); err != nil {
		return nil, err
	}
	return p.Create(newname, c)
}

// MkdirAll implements vfs.FS.
func (p *diskFS) MkdirAll(dir string, _ os.FileMode) error {
	p.change(func() error { return p.fs.MkdirAll(dir) })
	return nil
}

// Lock implements vfs.FS. It does nothing, because only this process uses the directory.
func (p *diskFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// List implements vfs.FS.
func (p *diskFS) List(dir string) ([]string, error) { return p.fs.List(dir) }

// Stat implements vfs.FS. Pebble needs only the sizes of files and whether a directory exists.
func (p *diskFS) Stat(name string) (vfs.FileInfo, error) {
	n, err := p.fs.Size(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		_, err = p.fs.List(name)
	}
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), n}, nil
}

// PathBase implements vfs.FS.
func (p *diskFS) PathBase(name string) string { return path.Base(name) }

// PathJoin implements vfs.FS.
func (p *diskFS) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements vfs.FS.
func (p *diskFS) PathDir(name string) string { return path.Dir(name) }

// GetDiskUsage implements vfs.FS.
func (p *diskFS) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	free, total, err := p.fs.Space(path.Dir(name))
	return vfs.DiskUsage{
		AvailBytes: uint64(free), TotalBytes: uint64(total), UsedBytes: uint64(total - free),
	}, err
}

// Unwrap implements vfs.FS.
func (p *diskFS) Unwrap() vfs.FS { return nil }

// file is a file, or a directory if f is nil. It buffers writes: Pebble reads a file only after it has
// closed it for writing.
type file struct {
	fs     *diskFS
	name   string
	f      disk.File
	at     int64 // offset of the next Read or write
	buffer []byte
}

// Read implements io.Reader.
func (f *file) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, f.at)
	f.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.failure(); err != nil {
		return 0, err
	}
	n, err := f.f.ReadAt(b, off)
	if err != nil && err != io.EOF {
		f.fs.note(err)
	}
	return n, err
}

// Write implements io.Writer.
func (f *file) Write(b []byte) (int, error) {
	f.buffer = append(f.buffer, b...)
	if len(f.buffer) >= writeBytes {
		f.flush()
	}
	return len(b), nil
}

// flush writes the buffer.
func (f *file) flush() {
	if len(f.buffer) == 0 {
		return
	}
	f.fs.change(func() error {
		_, err := f.f.WriteAt(f.buffer, f.at)
		return err
	})
	f.at += int64(len(f.buffer))
	f.buffer = f.buffer[:0]
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(b []byte, off int64) (int, error) {
	f.fs.change(func() error {
		_, err := f.f.WriteAt(b, off)
		return err
	})
	return len(b), nil
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.flush()
	if f.f != nil {
		f.fs.note(f.f.Close())
	}
	return nil
}

// Preallocate implements vfs.File.
func (f *file) Preallocate(off, n int64) error {
	f.fs.change(func() error { return f.f.Preallocate(off, n) })
	return nil
}

// Stat implements vfs.File.
func (f *file) Stat() (vfs.FileInfo, error) {
	if f.f == nil {
		return nil, fmt.Errorf("stat of directory %s: %w", f.name, errors.ErrUnsupported)
	}
	n, err := f.f.Size()
	return info{path.Base(f.name), max(n, f.at) + int64(len(f.buffer))}, err
}

// Sync implements vfs.File.
func (f *file) Sync() error {
	f.flush()
	return nil
}

// SyncTo implements vfs.File.
func (f *file) SyncTo(int64) (fullSync bool, err error) { return false, nil }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.Sync() }

// Prefetch implements vfs.File.
func (f *file) Prefetch(int64, int64) error { return nil }

// Fd implements vfs.File.
func (f *file) Fd() uintptr { return vfs.InvalidFd }

// info is the part of a file's metadata that Pebble needs.
type info struct {
	name string
	size int64
}

func (i info) Name() string           { return i.name }
func (i info) Size() int64            { return i.size }
func (i info) Mode() os.FileMode      { return 0o600 }
func (i info) ModTime() time.Time     { return time.Time{} }
func (i info) IsDir() bool            { return false }
func (i info) Sys() any               { return nil }
func (i info) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
