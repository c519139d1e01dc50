package main

import (
	"errors"
	"syscall"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/scope"
)

// The exit codes, as README.md and docs/OPERATING.md have them.
const (
	exitDone      = 0  // done: nothing is left to fetch
	exitFailure   = 1  // a failure that has no code of its own; audit: the books don't balance; repair --dry-run: there is something to do
	exitUsage     = 2  // a bad flag or bad input
	exitDiskFull  = 3  // no space left
	exitDirectory = 4  // the directory is in use, belongs to something else, or exists and --new was given
	exitDamage    = 5  // bytes on disk aren't what was written
	exitSignal    = 11 // stopped in order by a signal
	exitBug       = 12 // a panic: a bug of this program
	exitForced    = 13 // stopped at once by a second signal
	exitPages     = 14 // --max-pages is reached
	exitTime      = 15 // --max-time is reached
	exitNoSeed    = 16 // no seed could be fetched: there is no response at all
	exitDrained   = 17 // nothing that was queued is left to fetch; links found while draining were dropped
)

// usageError is a fault of flags or input.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// ended is an end that isn't a failure but has an exit code of its own.
type ended struct {
	code  int
	why   string
	quiet bool // has been said already
}

func (e *ended) Error() string { return e.why }

var errSignal = errors.New("stopped by a signal")

// exitCode is the code of an error.
func exitCode(err error) int {
	var end *ended
	var usage usageError
	var damage *disk.CorruptError
	var rules *scope.Faults
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &end):
		return end.code
	case errors.As(err, &usage), errors.As(err, &rules):
		return exitUsage
	case errors.As(err, &damage), errors.Is(err, crawl.ErrRepairing):
		return exitDamage
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return exitDiskFull
	case isDirectoryError(err):
		return exitDirectory
	}
	return exitFailure
}

func isDirectoryError(err error) bool {
	for _, e := range directoryErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
