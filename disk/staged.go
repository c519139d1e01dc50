package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// stagedBytes is the size of a write of a Staged.
const stagedBytes = 256 << 10

// Staged is a file that has its name only when it is complete: until then its name begins with a dot and ends
// with .tmp, so no pattern of finished files matches it. It is an io.Writer with a buffer. End and then
// Rename it, or Abort it; Abort after Rename does nothing. It belongs to one goroutine, and only one of a
// name may be open.
type Staged struct {
	fsys       FS
	file       File // nil once it is closed
	name, temp string
	buf        []byte
	size       int64 // with the buffer
}

// Stage creates the file that is to be called name. It replaces what a killed process has left, also one of an earlier
// version, whose temporary names had no .tmp.
func Stage(fsys FS, name string) (*Staged, error) {
	former := path.Join(path.Dir(name), "."+path.Base(name))
	f := &Staged{fsys: fsys, name: name, temp: former + tempSuffix}
	var err error
	for _, left := range []string{former, f.temp} {
		if e := fsys.Remove(left); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err == nil {
		f.file, err = fsys.Create(f.temp)
	}
	if err != nil {
		return nil, fmt.Errorf("disk: create %s: %w", f.temp, err)
	}
	return f, nil
}

// Write appends to the file.
func (f *Staged) Write(p []byte) (int, error) {
	f.buf = append(f.buf, p...)
	f.size += int64(len(p))
	if len(f.buf) >= stagedBytes {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (f *Staged) flush() error {
	_, err := f.file.WriteAt(f.buf, f.size-int64(len(f.buf)))
	f.buf = f.buf[:0]
	if err != nil {
		return fmt.Errorf("disk: %w", err) // it names the file
	}
	return nil
}

// CopyTo copies what has been written to w. The file stays open.
func (f *Staged) CopyTo(w io.Writer) error {
	if err := f.flush(); err != nil {
		return err
	}
	if _, err := io.Copy(w, io.NewSectionReader(f.file, 0, f.size)); err != nil {
		return fmt.Errorf("disk: copy %s: %w", f.temp, err)
	}
	return nil
}

// Size returns the number of bytes written.
func (f *Staged) Size() int64 { return f.size }

// End makes the file durable under its temporary name.
func (f *Staged) End() error {
	err := f.flush()
	if err == nil {
		err = f.file.Sync()
	}
	if err = errors.Join(err, f.file.Close()); err != nil {
		err = fmt.Errorf("disk: end %s: %w", f.temp, err)
	}
	f.file = nil
	return err
}

// CopyMode gives the file the permissions of another file.
func (f *Staged) CopyMode(from string) error { return CopyMode(f.fsys, from, f.temp) }

// Rename gives the file its name, durably. It replaces an earlier file.
func (f *Staged) Rename() error {
	err := f.fsys.Rename(f.temp, f.name)
	if err == nil {
		f.temp = ""
		err = f.fsys.SyncDir(path.Dir(f.name))
	}
	if err != nil {
		return fmt.Errorf("disk: name %s: %w", f.name, err)
	}
	return nil
}

// Abort deletes the file, unless it has its name. An error leaves the temporary name, which the next Stage replaces.
func (f *Staged) Abort() {
	if f.file != nil {
		_ = f.file.Close() // it is deleted
		f.file = nil
	}
	if f.temp != "" {
		_ = f.fsys.Remove(f.temp)
		f.temp = ""
	}
}
