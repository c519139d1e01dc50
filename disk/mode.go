package disk

import (
	"io/fs"
	"os"
)

// moder is an FS whose files have permissions.
type moder interface {
	chmod(name string, mode fs.FileMode, widen bool) error
}

// Chmod sets a file's permissions to mode. It does nothing if the file system has no permissions.
func Chmod(fsys FS, name string, mode fs.FileMode) error {
	if m, ok := fsys.(moder); ok {
		return m.chmod(name, mode, false)
	}
	return nil
}

// Widen adds mode to the permissions of a file or directory. It does nothing if the file system has no
// permissions.
func Widen(fsys FS, name string, mode fs.FileMode) error {
	if m, ok := fsys.(moder); ok {
		return m.chmod(name, mode, true)
	}
	return nil
}

func (*osFS) chmod(name string, mode fs.FileMode, widen bool) error {
	if widen {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&mode == mode {
			return nil
		}
		mode |= info.Mode().Perm()
	}
	return os.Chmod(name, mode)
}

func (m *Meter) chmod(name string, mode fs.FileMode, widen bool) error {
	m.c.names.Add(1)
	if inner, ok := m.fs.(moder); ok {
		return inner.chmod(name, mode, widen)
	}
	return nil
}
