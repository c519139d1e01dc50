package disk

import (
	"errors"
	"fmt"
)

// FS.Lock returns ErrLocked when another process, or another part of this one, holds the directory.
var ErrLocked = errors.New("disk: directory is locked by another process")

// LockedError is an ErrLocked that names the directory.
type LockedError struct {
	Dir string
	PID int // of the process that holds the lock; 0: unknown
}

// Error names the directory.
func (e *LockedError) Error() string { return fmt.Sprintf("disk: lock %s: %v", e.Dir, ErrLocked) }

// Unwrap returns ErrLocked.
func (*LockedError) Unwrap() error { return ErrLocked }

// A memfs.FS returns ErrCrashed from every call after its simulated machine has stopped.
var ErrCrashed = errors.New("disk: simulated crash")

// CorruptError reports that a file does not contain what was written to it. The operation that finds it
// fails and repairs nothing.
type CorruptError struct {
	Path string
	// Offset is the position in Path of the damaged field, block or record, in bytes.
	Offset int64
	// Want and Got describe the expected value and the value found. @25
	Want, Got string
}

// Error names the place and both values.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("disk: %s at %d: want %s, got %s", e.Path, e.Offset, e.Want, e.Got)
}
