package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"drumbeat/disk"
)

// errNoDirect means that a file system doesn't support O_DIRECT.
var errNoDirect = errors.New("no O_DIRECT")

// directFile is a file opened with O_DIRECT: offsets, lengths and addresses are multiples of align.
type directFile struct{ *os.File }

// openDirect opens a file with O_DIRECT. Package disk doesn't provide that because the crawler doesn't use
// it.
func openDirect(name string, create bool) (disk.File, error) {
	flag := os.O_RDWR | unix.O_DIRECT
	if create {
		flag |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return directFile{f}, nil
}

// Size implements disk.File.
func (f directFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Preallocate implements disk.File. It isn't needed: files are created through package disk, which reserves
// their space.
func (directFile) Preallocate(int64, int64) error { return errors.ErrUnsupported }

// tryDirect writes and reads one block. It returns errNoDirect if O_DIRECT doesn't work.
func (t *target) tryDirect() (err error) {
	wrap := func(err error) error {
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP) {
			return fmt.Errorf("%w: %w", errNoDirect, err)
		}
		return fmt.Errorf("bench: disk: try O_DIRECT: %w", err)
	}
	defer func() { err = errors.Join(err, t.remove()) }()
	t.made = append(t.made, "a")
	f, err := openDirect(t.path("a"), true)
	if err != nil {
		return wrap(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(t.buf[:align], 0); err != nil {
		return wrap(err)
	}
	if _, err := f.ReadAt(t.in[:align], 0); err != nil {
		return wrap(err)
	}
	return nil
}

// describe returns notes about directory number i: that it is in RAM, or shares a device with another.
func describe(dirs []string, i int) (notes []string, err error) {
	var st, other unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Stat(dirs[i], &st), unix.Statfs(dirs[i], &fs)); err != nil {
		return nil, fmt.Errorf("bench: disk: directory %s: %w", dirs[i], err)
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		notes = append(notes, fmt.Sprintf("Directory %d (%s) is in RAM: its figures are those of memory.", i, dirs[i]))
	}
	for j := range i {
		if err := unix.Stat(dirs[j], &other); err == nil && other.Dev == st.Dev {
			notes = append(notes, fmt.Sprintf("Directories %d and %d are on one file system: together they show no second disk.", j, i))
		}
	}
	return notes, nil
}
