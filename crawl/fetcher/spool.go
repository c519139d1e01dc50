package fetcher

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"sync/atomic"

	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/state"
)

// A body that exceeds fetch.Limits.HeldBytes goes to a file, its spool, and from there to a WARC file of its
// own. No checkpoint names a spool: its page is in RAM to the accounts, so after a crash it is fetched again,
// and the next run deletes the file.

const (
	// SpoolDir is the directory of the spools in each output directory.
	SpoolDir = "spool"
	// maxSpools limits the spools. Each takes up to 0.5 MiB of the RAM for bodies.
	maxSpools = 32
	// spillStep is the least space in bytes that a spool reserves at a time, for itself and for its copy.
	spillStep = 64 << 20
	// spillStepShare is the part of a small --disk that it reserves instead.
	spillStepShare = 64
)

var errSpools = fmt.Errorf("crawl: already receiving %d large bodies", maxSpools)

// spools creates the spools. It has no goroutine.
type spools struct {
	run       *account.Run
	saved     *state.Saved
	log       *slog.Logger
	diskBytes int64
	slots     chan struct{} // one for each spool
	serial    atomic.Uint64

	space *space.Keeper
}

// clean deletes the spools of an earlier run.
func (s *spools) clean() error {
	for i := range s.saved.Out.Paths {
		names, err := s.saved.Set.FS.List(s.saved.Out.Path(i, SpoolDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("crawl: list spools: %w", err)
		}
		for _, name := range names {
			if _, err := strconv.ParseUint(name, 10, 64); err != nil {
				continue
			}
			if err := s.saved.Set.FS.Remove(s.saved.Out.Path(i, SpoolDir, name)); err != nil {
				return fmt.Errorf("crawl: delete spool: %w", err)
			}
		}
	}
	return nil
}

// open returns a spool for a body of the given length, -1 if it is unknown. It does not wait.
func (s *spools) open(length int64) (fetch.Spill, error) {
	if err := s.space.OutputRoom(2 * max(length, 0)); err != nil {
		return nil, NewSpoolError(err)
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, NewSpoolError(errSpools)
	}
	p := &spill{spools: s}
	serial := s.serial.Add(1)
	dir := int(serial) % s.saved.Out.Len()
	err := s.saved.Set.FS.MkdirAll(s.saved.Out.Path(dir, SpoolDir))
	if err == nil {
		p.file, err = s.saved.Set.FS.Create(s.saved.Out.Path(dir, SpoolDir, strconv.FormatUint(serial, 10)))
	}
	if err != nil {
		<-s.slots
		return nil, NewSpoolError(fmt.Errorf("crawl: create spool: %w", err))
	}
	return p, nil
}

// spill is the file of one body.
type spill struct {
	*spools
	file     disk.File
	size     int64
	reserved int64 // for the copy
}

// Write implements fetch.Spool.
func (p *spill) Write(b []byte) (int, error) {
	if more := p.size + int64(len(b)) - p.reserved; more > 0 {
		more = max(more, min(spillStep, p.diskBytes/spillStepShare))
		if err := p.space.OutputRoom(2 * more); err != nil {
			return 0, NewSpoolError(err)
		}
		p.reserved += more
		p.space.Claim(more)
	}
	n, err := p.file.WriteAt(b, p.size)
	if err != nil {
		return n, NewSpoolError(fmt.Errorf("crawl: write to spool: %w", err))
	}
	disk.WriteBehind(p.file, p.size, int64(n))
	p.size += int64(n)
	return n, nil
}

// ReadAt implements fetch.Spool.
func (p *spill) ReadAt(b []byte, off int64) (int, error) { return p.file.ReadAt(b, off) }

// Release implements fetch.Spool.
func (p *spill) Release() {
	if err := errors.Join(p.file.Close(), p.saved.Set.FS.Remove(p.file.Name())); err != nil {
		p.log.Warn("a spool was not deleted; the next run deletes it", "error", err)
	}
	p.space.Claim(-p.reserved)
	<-p.slots
}

// SpoolError is an error of a spool, or of the copy of its content.
type SpoolError struct{ error }

// NewSpoolError returns an error of a spool.
func NewSpoolError(err error) *SpoolError { return &SpoolError{err} }

// Unwrap returns the cause.
func (e *SpoolError) Unwrap() error { return e.error }

// Passes reports whether the error passes with time. Others are those of a disk that fails.
func (e *SpoolError) Passes() bool { return errors.Is(e, errSpools) || state.IsFull(e) }
