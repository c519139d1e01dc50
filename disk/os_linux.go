package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// OS returns the real file system. It creates directories with mode 0700 and files with mode 0600. Its
// errors are those of package os, so errors.Is finds fs.ErrNotExist, syscall.ENOSPC and so on.
func OS() FS { return newOS() }

// Shared returns the real file system for files that the user may want to share, such as exports and reports. It
// creates directories with mode 0777 and files with mode 0666, both less the umask of the process.
func Shared() FS {
	o := newOS()
	o.file, o.dir = 0o666, 0o777
	return o
}

// IsOS reports whether fsys is the real file system with page cache.
func IsOS(fsys FS) bool {
	_, ok := fsys.(*osFS)
	return ok
}

type osFS struct {
	file, dir uint32 // permissions of new files and directories, before the umask
	sync      syncState
}

func newOS() *osFS {
	return &osFS{file: 0o600, dir: 0o700, sync: syncState{byFile: !syncfsReports()}}
}

func (o *osFS) Create(name string) (File, error) {
	return o.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (o *osFS) Open(name string) (File, error) { return o.open(name, os.O_RDWR) }

func (o *osFS) OpenRead(name string) (File, error) { return o.open(name, os.O_RDONLY) }

func (o *osFS) open(name string, flag int) (File, error) {
	// os.OpenFile offers every file to epoll, which refuses regular files: six system calls instead of two.
	fd := -1
	err := retryInterrupted(func() (err error) {
		fd, err = unix.Open(name, flag|unix.O_CLOEXEC, o.file)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return osFile{os.NewFile(uintptr(fd), name), &o.sync}, nil
}

func (*osFS) Remove(name string) error { return os.Remove(name) }

func (o *osFS) Rename(from, to string) error {
	err := os.Rename(from, to)
	if err == nil {
		o.sync.renamed(from, to)
	}
	return err
}

func (o *osFS) MkdirAll(name string) error { return os.MkdirAll(name, fs.FileMode(o.dir)) }

func (*osFS) List(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (*osFS) Size(name string) (int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (*osFS) Allocated(name string) (int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	size := info.Size()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		size = max(size, st.Blocks*512)
	}
	return size, nil
}

func (*osFS) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (*osFS) Space(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

func (*osFS) FreeFiles(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if st.Files == 0 { // btrfs and others create inodes on demand
		return math.MaxInt64, nil
	}
	return int64(min(st.Ffree, math.MaxInt64)), nil
}

func (o *osFS) Lock(dir string) (io.Closer, error) {
	l := flock.New(path.Join(dir, lockFileName), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("disk: lock %s: %w", dir, err)
	}
	if !ok {
		pid, _ := lockHolder(dir) // 0 or -1 if the kernel does not tell
		return nil, &LockedError{Dir: dir, PID: max(pid, 0)}
	}
	return o.sync.hold(dir, l)
}

type osFile struct {
	*os.File
	sync *syncState
}

func (f osFile) WriteAt(p []byte, off int64) (int, error) {
	f.sync.wrote(f.Name())
	return f.File.WriteAt(p, off)
}

func (f osFile) Truncate(size int64) error {
	f.sync.wrote(f.Name())
	return f.File.Truncate(size)
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Preallocate(off, n int64) error {
	err := retryInterrupted(func() error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO) {
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil // fallocate is optional
}

func (f osFile) writeBehind(off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE) // a hint
}

func retryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
