package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNoDirect means that a file system doesn't support O_DIRECT.
var errNoDirect = errors.New("O_DIRECT is not supported")

// tryDirect writes one block with O_DIRECT. It returns errNoDirect if that doesn't work.
func (t *target) tryDirect() (err error) {
	defer func() { err = errors.Join(err, t.remove()) }()
	if err := t.create("a"); err != nil {
		return err
	}
	f, err := os.OpenFile(t.path("a"), os.O_RDWR|unix.O_DIRECT, 0)
	if err == nil {
		_, err = f.WriteAt(t.buf[:align], 0)
		err = errors.Join(err, f.Close())
	}
	switch {
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: %w", errNoDirect, err)
	case err != nil:
		return fmt.Errorf("bench: disk: try O_DIRECT: %w", err)
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
		notes = append(notes,
			fmt.Sprintf("Directory %d (%s) is in RAM: its figures measure memory, not a disk.", i, dirs[i]))
	}
	for j := range i {
		if err := unix.Stat(dirs[j], &other); err == nil && other.Dev == st.Dev {
			notes = append(notes,
				fmt.Sprintf("Directories %d and %d are on one file system: their total does not measure two "+
					"disks.", j, i))
		}
	}
	return notes, nil
}
