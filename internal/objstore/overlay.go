package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
)

// Remote is a file that is in the store.
type Remote struct {
	Path string // where it was, and may still be
	Key  string
	Size int64
}

// Overlay is a file system in which files that are no longer here are read from the store. It is for readers: all that
// changes files goes to the file system below. It is safe for concurrent use.
type Overlay struct {
	disk.FS
	open  func() (Bucket, error)
	files map[string]Remote
	dirs  map[string][]string // sorted names

	ignored sync.Map // paths of files that are here, and are not read
	failed  atomic.Pointer[error]
}

// Below returns the file system below.
func (o *Overlay) Below() disk.FS { return o.FS }

// Failed returns the error for which the store could not be read; nil if there was none. A file that is read
// afterwards has the same error, so that a reader that continues after damage does not take an outage for
// damage of many records. A missing object is no such error.
func (o *Overlay) Failed() error {
	if err := o.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// NewOverlay returns a file system over fsys with some files of the store. open is called when one is first
// read; its result is kept.
func NewOverlay(fsys disk.FS, files []Remote, open func() (Bucket, error)) *Overlay {
	o := &Overlay{FS: fsys, open: sync.OnceValues(open), files: make(map[string]Remote, len(files)),
		dirs: map[string][]string{}}
	for _, f := range files {
		if _, twice := o.files[f.Path]; !twice {
			o.dirs[path.Dir(f.Path)] = append(o.dirs[path.Dir(f.Path)], path.Base(f.Path))
		}
		o.files[f.Path] = f
	}
	for _, names := range o.dirs {
		slices.Sort(names)
	}
	return o
}

// Ignore has readers take a file that is here for gone.
func (o *Overlay) Ignore(name string) { o.ignored.Store(name, true) }

func (o *Overlay) ignores(name string) bool { _, yes := o.ignored.Load(name); return yes }

// gone is the error of reading an ignored file.
func gone(name string) error { return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist} }

// OpenRead implements disk.FS.
func (o *Overlay) OpenRead(name string) (f disk.File, err error) {
	if err = gone(name); !o.ignores(name) {
		f, err = o.FS.OpenRead(name)
	}
	r, known := o.files[name]
	if !known || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	b, err := o.open()
	if err != nil {
		o.failed.CompareAndSwap(nil, &err)
		return nil, fmt.Errorf("objstore: open %s: %w", name, err)
	}
	return &remoteFile{of: o, bucket: b, Remote: r}, nil
}

// Size implements disk.FS.
func (o *Overlay) Size(name string) (size int64, err error) {
	if err = gone(name); !o.ignores(name) {
		size, err = o.FS.Size(name)
	}
	if r, known := o.files[name]; known && errors.Is(err, fs.ErrNotExist) {
		return r.Size, nil
	}
	return size, err
}

// List implements disk.FS.
func (o *Overlay) List(dir string) ([]string, error) {
	names, err := o.FS.List(dir)
	more := o.dirs[dir]
	names = slices.DeleteFunc(names, func(name string) bool { return o.ignores(path.Join(dir, name)) })
	if len(more) == 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return names, err
	}
	all := append(slices.Clone(names), more...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Windows of a file that is read from the store, in bytes: the first, and the largest when it is read in order.
const (
	leastWindow = 64 << 10
	mostWindow  = 8 << 20
)

// Attempts to read from the store, and the wait after the first failed one.
const (
	readTries = 6
	readRetry = 250 * time.Millisecond
)

// remoteFile is a file in the store. It reads windows, which grow while the reads follow one another.
type remoteFile struct {
	Remote
	of     *Overlay
	bucket Bucket

	mu     sync.Mutex // guards the fields below; held while the store is read
	window []byte
	off    int64
	next   int // size of the next window if it follows this one
}

// Name implements disk.File.
func (f *remoteFile) Name() string { return f.Path }

// Size implements disk.File.
func (f *remoteFile) Size() (int64, error) { return f.Remote.Size, nil }

// ReadAt implements disk.File.
func (f *remoteFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		at := off + int64(n)
		if at >= f.Remote.Size {
			return n, io.EOF
		}
		if at < f.off || at >= f.off+int64(len(f.window)) {
			if err := f.fetch(at, len(p)-n); err != nil {
				return n, err
			}
		}
		n += copy(p[n:], f.window[at-f.off:])
	}
	return n, nil
}

// fetch reads a window that begins at off, of at least need bytes if there are as many and they are no more
// than a window.
func (f *remoteFile) fetch(off int64, need int) error {
	if off != f.off+int64(len(f.window)) || f.next == 0 {
		f.next = leastWindow
	}
	n := min(int64(min(max(f.next, need), mostWindow)), f.Remote.Size-off)
	f.next = min(2*f.next, mostWindow)
	if err := f.of.Failed(); err != nil {
		return err
	}
	wait := readRetry
	for try := 1; ; try++ {
		err := f.get(off, n)
		if err == nil {
			return nil
		}
		f.window, f.off = nil, 0
		lost := errors.Is(err, ErrNotExist)
		if lost || try == readTries || errors.Is(err, ErrDenied) {
			err = fmt.Errorf("objstore: read %d bytes of %s at %d: %w", n, f.Key, off, err)
			if !lost {
				f.of.failed.CompareAndSwap(nil, &err)
			}
			return err
		}
		time.Sleep(wait)
		wait *= 4
	}
}

// get reads a window.
func (f *remoteFile) get(off, n int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime+time.Duration(n/slowest)*time.Second)
	defer cancel()
	r, err := f.bucket.Get(ctx, f.Key, off, n)
	if err != nil {
		return err
	}
	if int64(cap(f.window)) < n {
		f.window = make([]byte, n)
	}
	f.window, f.off = f.window[:n], off
	_, err = io.ReadFull(r, f.window)
	return errors.Join(err, r.Close())
}

// Close implements disk.File.
func (f *remoteFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.window = nil
	return nil
}

// errRemote is the error of all changes of a file in the store.
var errRemote = errors.New("objstore: a file in the object store does not change")

// WriteAt implements disk.File; like all methods that change the file it fails.
func (f *remoteFile) WriteAt([]byte, int64) (int, error) { return 0, errRemote }

// Truncate implements disk.File.
func (f *remoteFile) Truncate(int64) error { return errRemote }

// Sync implements disk.File.
func (f *remoteFile) Sync() error { return errRemote }

// Preallocate implements disk.File.
func (f *remoteFile) Preallocate(int64, int64) error { return errRemote }
