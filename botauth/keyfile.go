package botauth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxFileBytes bounds a key file: a key takes about 250 bytes.
const maxFileBytes = 64 << 10

// ReadKeys reads a key file. It must be a regular file that its owner alone can read.
func ReadKeys(name string) (Keys, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a FIFO waits for its writer otherwise
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("key file: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("key file %s is not a regular file", name)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("other users can use key file %s (mode %#o): run chmod 600 %s", name,
			info.Mode().Perm(), name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	keys, err := ParseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", name, err)
	}
	return keys, nil
}

// CreateKeys durably writes a new key file, of mode 0600. It fails if the name exists.
func CreateKeys(name string, keys Keys) error { return writeKeys(name, keys, os.Link) }

// ReplaceKeys durably replaces a key file, that behind a symbolic link too. A reader finds either the old or the new
// content. Only one process may do it at a time.
func ReplaceKeys(name string, keys Keys) error {
	if file, err := filepath.EvalSymlinks(name); err == nil {
		name = file
	}
	return writeKeys(name, keys, os.Rename)
}

// writeKeys writes a temporary file and then gives it its name.
func writeKeys(name string, keys Keys, put func(from, to string) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("key file: %w", faultOf(name, err))
		}
	}()
	data, err := keys.Encode()
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, filepath.Base(name)+".tmp-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after a rename there is none
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = put(f.Name(), name); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// faultOf returns err as of the key file, not of its temporary file; as of the directory if that does not exist.
func faultOf(name string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	if errors.As(err, &pe) {
		err = pe.Err
	} else if errors.As(err, &le) {
		err = le.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		name = filepath.Dir(name)
	}
	return &fs.PathError{Op: "write", Path: name, Err: err}
}
