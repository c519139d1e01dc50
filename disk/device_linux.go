package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// deviceFS is an FS that knows the devices of directories.
type deviceFS interface {
	device(dir string) (string, error)
}

// Device returns the number of the device that holds dir as lsblk and /sys/dev/block have it, such as
// "8:48". It is "" for a file system that has none or does not tell.
func Device(fsys FS, dir string) string {
	if d, ok := fsys.(deviceFS); ok {
		if name, err := d.device(dir); err == nil {
			return name
		}
	}
	return ""
}

func (*osFS) device(dir string) (string, error) {
	var st unix.Stat_t
	if err := retryInterrupted(func() error { return unix.Stat(dir, &st) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)), nil
}

func (m *Meter) device(dir string) (string, error) { return Device(m.fs, dir), nil }
