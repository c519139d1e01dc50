package term

import (
	"errors"
	"syscall"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/internal/scope"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// The exit codes, which docs/reference/exit-codes.md lists. ExitFailure is also the code of an audit that does not
// balance, of repair --dry-run if there is something to repair, and of doctor if a check fails.
const (
	ExitDone      = 0  // done: nothing is left to fetch
	ExitFailure   = 1  // a failure without a code of its own
	ExitUsage     = 2  // a bad flag or bad input
	ExitDiskFull  = 3  // no space left
	ExitDirectory = 4  // the directory is in use, belongs to something else, or exists and --new was given
	ExitDamage    = 5  // bytes on disk differ from those written, or a node was set back to an older copy
	ExitSignal    = 11 // orderly stop by a signal
	ExitBug       = 12 // a panic: a bug in this program
	ExitForced    = 13 // immediate stop by a second signal
	ExitPages     = 14 // --max-pages was reached
	ExitTime      = 15 // --max-time was reached
	ExitNoSeed    = 16 // no seed could be fetched: there is no response at all
	ExitDrained   = 17 // drained: no queued URL is left, and links found while draining were dropped
	ExitOutage    = 18 // nothing has answered for --outage-patience
)

// usageError is a fault of flags or input.
type usageError struct{ err error }

// Usage marks an error as a fault of flags or input.
func Usage(err error) error { return usageError{err} }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Ended is an orderly end with its own exit code.
type Ended struct {
	Code  int
	Why   string
	Quiet bool // the reason is printed already
}

func (e *Ended) Error() string { return e.Why }

// ErrSignal is the cause of a context that a signal cancelled.
var ErrSignal = errors.New("stopped by a signal")

// sorted sorts joined errors: orderly ends, and failures.
func sorted(err error) (ends []*Ended, failures []error) {
	var end *Ended
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case !errors.As(err, &end):
		return nil, []error{err}
	case !ok:
		return []*Ended{end}, nil
	default:
		for _, e := range joined.Unwrap() {
			moreEnds, more := sorted(e)
			ends, failures = append(ends, moreEnds...), append(failures, more...)
		}
		return ends, failures
	}
}

// ExitCode returns the exit code of an error. A failure wins over an orderly end that is joined to it.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	if ends, failures := sorted(err); len(ends) > 0 && len(failures) > 0 {
		err = errors.Join(failures...)
	}
	var end *Ended
	var input usageError
	var damage *disk.CorruptError
	var back *cluster.SetBackError
	var rules *scope.Faults
	switch {
	case errors.As(err, &end):
		return end.Code
	case errors.As(err, &input), errors.As(err, &rules):
		return ExitUsage
	case errors.As(err, &damage), errors.As(err, &back), errors.Is(err, state.ErrRepairing),
		errors.Is(err, state.ErrMoving), errors.Is(err, state.ErrGiving), errors.Is(err, state.ErrReplacing),
		errors.Is(err, state.ErrErasing):
		return ExitDamage
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ExitDiskFull
	case isDirectoryError(err):
		return ExitDirectory
	}
	return ExitFailure
}

// directoryErrors are the errors about a directory.
var directoryErrors = [...]error{disk.ErrLocked, state.ErrIncompatible, state.ErrExists,
	audit.ErrHolds, state.ErrUnusable}

func isDirectoryError(err error) bool {
	for _, e := range directoryErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
