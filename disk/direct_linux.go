package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Direct returns the real file system with reads and writes past the page cache (O_DIRECT) where they begin at
// multiples of DirectAlign in the file and in memory; the rest of a read, less than DirectAlign at its end,
// takes the same way. Other accesses, and files on file systems that know no O_DIRECT, go through the page
// cache. Both ways see the same bytes, as far as the kernel keeps them coherent: on local file systems.
//
// Merges move gigabytes that nobody reads again soon; in the page cache they push out what is of use there, and
// wait for its locks. Bytes that were written directly are not durable before Sync or SyncFS either.
func Direct() FS { return directFS{newOS()} }

// DirectAlign is what Direct asks of offsets and addresses: a page, and at least a sector of any disk.
const DirectAlign = 4096

type directFS struct{ *osFS }

func (d directFS) Create(name string) (File, error) {
	// Made by way of the page cache: where O_DIRECT isn't known, open makes the file before it fails.
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

// directFile is a file through the page cache with a second descriptor past it, opened with the first access that
// can use it.
type directFile struct {
	File
	flag   int
	sync   *syncState
	pwrite func(fd int, p []byte, off int64) (int, error)

	// mu guards the fields below, while the second descriptor is opened.
	mu     sync.Mutex
	tried  bool
	direct *os.File // nil: none
}

// past returns the descriptor past the page cache if an access can use it.
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
		} // otherwise the file system has no O_DIRECT; a worse reason shows on the first descriptor too
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
		err = nil // what is missing of the page lies behind the end
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
	if err == io.EOF { // a disk that has become full takes a part: the rest says so, or succeeds
		var m int
		m, err = f.File.WriteAt(p[n:], off+int64(n))
		n += m
	}
	return n, err
}

// move reads or writes all of p, whole pages; io.EOF when a file ends before.
func (f *directFile) move(op string, call func(int, []byte, int64) (int, error), d *os.File, p []byte, off int64) (n int, err error) {
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

// Close closes both descriptors.
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
