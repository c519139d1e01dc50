package state

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"drumbeat/disk"
)

// MatchError says what is wrong with directories: their content, or that the system doesn't let us look at it.
func MatchError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("crawl: %w: %w", ErrUnusable, err)
	}
	return fmt.Errorf("crawl: %w: %w", ErrIncompatible, err)
}

// LockError is that of a lock: another process has it, or there can't be one.
func LockError(dir string, err error) error {
	if !errors.Is(err, disk.ErrLocked) && !IsFull(err) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return fmt.Errorf("crawl: directory %s: %w", dir, err)
}

// ErrRepairing refuses a crawl in the middle of a repair.
var ErrRepairing = errors.New("a repair of this crawl was cut off; run drumbeat repair again")

// Errors that the command turns into exit codes.
var (
	// ErrIncompatible: the directory belongs to another crawl, another format version, or its frozen settings differ.
	ErrIncompatible = errors.New("incompatible with this directory")
	// ErrUnusable: the system doesn't let us use a directory: it is a file, isn't there, or belongs to somebody else.
	ErrUnusable = errors.New("this directory can't be used")
	// ErrExists: New was asked for, but there is a crawl.
	ErrExists = errors.New("a crawl exists here already")
	// ErrFinished: the crawl is over and no seed is new.
	ErrFinished = errors.New("this crawl is finished")
)

// IsFull says whether an error is about space on a disk.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// LostError: no copy of a file can be read that nothing else holds.
type LostError struct {
	Name string // ManifestName or SecretName
	Err  error
}

func (e *LostError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with a copy.
func (e *LostError) Unwrap() error { return e.Err }
