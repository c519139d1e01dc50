package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Direct returns the real file system with reads and writes that bypass the page cache (O_DIRECT) where
// they start at multiples of DirectAlign both in the file and in memory. The last partial page of a read
// bypasses it too. Other accesses, and all accesses on file systems without O_DIRECT, use the page cache.
// On local file systems both paths see the same bytes, because the kernel keeps them coherent.
//
// Merges move gigabytes that are not read again soon. In the page cache they would evict useful pages and
// contend for its locks. Bytes written directly are also durable only after Sync or SyncFS.
func Direct() FS { return directFS{newOS()} }

// DirectAlign is the alignment of offsets and addresses, in bytes, that Direct needs: one page, and at
// least one sector of any disk.
const DirectAlign = 4096

type directFS struct{ *osFS }

func (d directFS) Create(name string) (File, error) {
	// Create through the page cache: without O_DIRECT support, open creates the file before it fails.
	f, err := d.osFS.Create(name)
	if err != nil {
		return nil, err
	}
	return d.past(f, os.O_RDWR), nil
}

func (d directFS) Open(name string) (File, error) { return d.openPast(name, os.O_RDWR) }

func (d directFS) OpenRead(name string) (File, error) { return d.openPast(name, os.O_RDONLY) }

func (d directFS) openPast(name string, flag int) (File, error) {
	f, err := d.open(name, flag)
	if err != nil {
		return nil, err
	}
	return d.past(f, flag), nil
}

func (d directFS) past(f File, flag int) *directFile {
	return &directFile{File: f, flag: flag, sync: &d.osFS.sync, pwrite: unix.Pwrite}
}

// directFile is a file in the page cache with a second descriptor that bypasses it. The first access that
// can use the second descriptor opens it.
type directFile struct {
	File
	flag   int
	sync   *syncState
	pwrite func(fd int, p []byte, off int64) (int, error)

	// mu guards the fields below while the second descriptor is opened.
	mu     sync.Mutex
	tried  bool
	direct *os.File // nil: none
}

// past returns the O_DIRECT descriptor, or nil if this access cannot use it.
func (f *directFile) past(p []byte, off int64) *os.File {
	if len(p) == 0 || off%DirectAlign != 0 || !aligned(p) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.tried {
		f.tried = true
		if d, err := os.OpenFile(f.Name(), f.flag|unix.O_DIRECT, 0); err == nil {
			f.direct = d
		} // without O_DIRECT; the first descriptor reports any other error too
	}
	return f.direct
}

// ReadAt implements io.ReaderAt.
func (f *directFile) ReadAt(p []byte, off int64) (n int, err error) {
	d := f.past(p, off)
	if d == nil {
		return f.File.ReadAt(p, off)
	}
	whole := len(p) / DirectAlign * DirectAlign
	n, err = f.move("read", unix.Pread, d, p[:whole], off)
	if err != nil || n < whole || whole == len(p) {
		return n, err
	}
	last := Alloc(DirectAlign)
	defer Free(last)
	m, err := f.move("read", unix.Pread, d, last, off+int64(whole))
	m = copy(p[whole:], last[:m])
	if whole+m == len(p) {
		err = nil // the missing part of the page is past the end of the file
	}
	return whole + m, err
}

// WriteAt implements io.WriterAt.
func (f *directFile) WriteAt(p []byte, off int64) (n int, err error) {
	d := f.past(p, off)
	if d == nil || len(p)%DirectAlign != 0 {
		return f.File.WriteAt(p, off)
	}
	f.sync.wrote(f.Name())
	n, err = f.move("write", f.pwrite, d, p, off)
	if err == io.EOF { // the disk became full during the write: the retry returns the error, or succeeds
		var m int
		m, err = f.File.WriteAt(p[n:], off+int64(n))
		n += m
	}
	return n, err
}

// move reads or writes all of p, a whole number of pages. It returns io.EOF if the transfer stops early,
// because the file ends or the disk is full.
func (f *directFile) move(op string, call func(int, []byte, int64) (int, error), d *os.File, p []byte,
	off int64) (n int, err error) {
	for n < len(p) {
		var m int
		err := retryInterrupted(func() (err error) {
			m, err = call(int(d.Fd()), p[n:], off+int64(n))
			return err
		})
		if err != nil {
			return n, &fs.PathError{Op: op, Path: f.Name(), Err: err}
		}
		n += m
		if m%DirectAlign != 0 || m == 0 {
			return n, io.EOF
		}
	}
	return n, nil
}

func (f *directFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.File.Close()
	if f.direct != nil {
		err = errors.Join(err, f.direct.Close())
		f.direct = nil
	}
	return err
}
