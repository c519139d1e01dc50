package term

import (
	"errors"
	"syscall"

	"drumbeat/crawl/audit"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/internal/scope"
)

// The exit codes, as docs/GUIDE.md has them.
const (
	ExitDone      = 0  // done: nothing is left to fetch
	ExitFailure   = 1  // a failure that has no code of its own; audit: the books don't balance; repair --dry-run: there is something to do
	ExitUsage     = 2  // a bad flag or bad input
	ExitDiskFull  = 3  // no space left
	ExitDirectory = 4  // the directory is in use, belongs to something else, or exists and --new was given
	ExitDamage    = 5  // bytes on disk aren't what was written
	ExitSignal    = 11 // stopped in order by a signal
	ExitBug       = 12 // a panic: a bug of this program
	ExitForced    = 13 // stopped at once by a second signal
	ExitPages     = 14 // --max-pages is reached
	ExitTime      = 15 // --max-time is reached
	ExitNoSeed    = 16 // no seed could be fetched: there is no response at all
	ExitDrained   = 17 // nothing that was queued is left to fetch; links found while draining were dropped
)

// usageError is a fault of flags or input.
type usageError struct{ err error }

// Usage makes an error one of flags or input.
func Usage(err error) error { return usageError{err} }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Ended is an end that isn't a failure but has an exit code of its own.
type Ended struct {
	Code  int
	Why   string
	Quiet bool // has been said already
}

func (e *Ended) Error() string { return e.Why }

// ErrSignal is why a context ends that a signal has ended.
var ErrSignal = errors.New("stopped by a signal")

// ExitCode is the code of an error.
func ExitCode(err error) int {
	var end *Ended
	var input usageError
	var damage *disk.CorruptError
	var rules *scope.Faults
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &end):
		return end.Code
	case errors.As(err, &input), errors.As(err, &rules):
		return ExitUsage
	case errors.As(err, &damage), errors.Is(err, state.ErrRepairing):
		return ExitDamage
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ExitDiskFull
	case isDirectoryError(err):
		return ExitDirectory
	}
	return ExitFailure
}

// directoryErrors are those that blame a directory.
var directoryErrors = [...]error{disk.ErrLocked, state.ErrIncompatible, state.ErrExists, audit.ErrHolds, state.ErrUnusable}

func isDirectoryError(err error) bool {
	for _, e := range directoryErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
