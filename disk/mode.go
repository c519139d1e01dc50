package disk

import (
	"errors"
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

// modeCopier is an FS that can copy permissions.
type modeCopier interface {
	copyMode(from, to string) error
}

// layer is an FS whose files are those of another one, and some more.
type layer interface{ Below() FS }

// CopyMode gives the file to the permissions of the file from. It does nothing if the file system has no permissions,
// or if from is a file that the layer of a file system adds.
func CopyMode(fsys FS, from, to string) error {
	if l, ok := fsys.(layer); ok {
		if _, err := l.Below().Size(from); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return CopyMode(l.Below(), from, to)
	}
	if m, ok := fsys.(modeCopier); ok {
		return m.copyMode(from, to)
	}
	return nil
}

func (*osFS) copyMode(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm())
}

func (m *Meter) copyMode(from, to string) error {
	m.c.names.Add(1)
	return CopyMode(m.fs, from, to)
}
