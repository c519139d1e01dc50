package state

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"drumbeat/disk"
)

// MatchError wraps an error of matching directories: ErrUnusable if the system denied access, else
// ErrIncompatible.
func MatchError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("crawl: %w: %w", ErrUnusable, err)
	}
	return Incompatible("crawl: %w", err)
}

// incompatible is an ErrIncompatible whose text says all.
type incompatible struct{ error }

// Is reports whether target is ErrIncompatible.
func (incompatible) Is(target error) bool { return target == ErrIncompatible }

// Unwrap returns the error with the text.
func (e incompatible) Unwrap() error { return e.error }

// Incompatible returns an ErrIncompatible whose text is that of fmt.Errorf alone.
func Incompatible(format string, args ...any) error { return incompatible{fmt.Errorf(format, args...)} }

// LockError wraps an error of locking a directory. It adds ErrUnusable unless another process has the lock
// or the disk is full.
func LockError(dir string, err error) error {
	if !errors.Is(err, disk.ErrLocked) && !IsFull(err) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return fmt.Errorf("crawl: directory %s: %w", dir, err)
}

// NoCrawlError is an ErrIncompatible about a directory without a crawl, or one that does not exist.
type NoCrawlError struct{ Dir string }

// Error names the directory.
func (e *NoCrawlError) Error() string {
	return fmt.Sprintf("crawl: %s holds no crawl, or does not exist", e.Dir)
}

// Unwrap returns ErrIncompatible.
func (*NoCrawlError) Unwrap() error { return ErrIncompatible }

// NoCrawl returns the NoCrawlError of dir.
func NoCrawl(dir string) error { return &NoCrawlError{dir} }

// ErrRepairing means that a repair of the crawl is unfinished.
var ErrRepairing = errors.New("a repair of this crawl was interrupted; run drumbeat repair again")

// ErrMoving means that a move of slots from or to this node is unfinished.
var ErrMoving = errors.New("a move of slots was interrupted; run drumbeat cluster move again")

// ErrGiving means that this node was killed while it gave slots to others. Its next start finishes or undoes that.
var ErrGiving = errors.New("the node was killed while it gave slots to others; start it, and stop it again")

// ErrReplacing means that a node does not have its place in the cluster yet.
var ErrReplacing = errors.New("a replacement of this node was interrupted; run drumbeat cluster replace again")

// Errors that the command turns into exit codes.
var (
	// ErrIncompatible means that the directory belongs to another crawl, has another format version, or
	// that frozen settings differ.
	ErrIncompatible = errors.New("incompatible with this directory")
	// ErrUnusable means that the system denies access to a directory: it is a file, is missing, or has
	// another owner.
	ErrUnusable = errors.New("this directory can't be used")
	// ErrExists means that New was set but the directory holds a crawl.
	ErrExists = errors.New("a crawl exists here already")
	// ErrFinished means that the crawl is finished and the seeds have no new URL.
	ErrFinished = errors.New("this crawl is finished")
)

// IsFull reports whether a disk or quota is full.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// LostError means that no copy of an irreplaceable file is readable.
type LostError struct {
	Name string // ManifestName or SecretName
	Err  error
}

// Error returns the text of Err.
func (e *LostError) Error() string { return e.Err.Error() }

// Unwrap returns the error of a copy.
func (e *LostError) Unwrap() error { return e.Err }

// ErrErasing means that an erasure of this crawl is unfinished.
var ErrErasing = errors.New("an erasure was interrupted; run drumbeat erase again, as before")
