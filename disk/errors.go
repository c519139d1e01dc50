package disk

import (
	"errors"
	"fmt"
)

// ErrLocked is returned by FS.Lock when another process (or another part of this one) holds the directory.
var ErrLocked = errors.New("disk: directory is locked by another process")

// ErrCrashed is returned by every call on a Mem whose simulated machine has stopped.
var ErrCrashed = errors.New("disk: simulated crash")

// CorruptError says that bytes on disk are not what was written there. It is never repaired in passing: the
// operation that met it fails.
type CorruptError struct {
	// Path is the file.
	Path string
	// Offset is the byte offset in Path of the damaged field, block or record.
	Offset int64
	// Want and Got describe the expected and the found value.
	Want, Got string
}

// Error names the place and both values.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("disk: %s at %d: want %s, got %s", e.Path, e.Offset, e.Want, e.Got)
}
