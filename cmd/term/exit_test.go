package term

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"drumbeat/cluster"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/state"
)

func TestExitCodes(t *testing.T) {
	end := &Ended{Code: ExitTime, Why: "time", Quiet: true}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {errors.New("x"), 1}, {Usage(errors.New("x")), 2},
		{fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}), 3},
		{fmt.Errorf("write: %w", syscall.EDQUOT), 3},
		{fmt.Errorf("x: %w", disk.ErrLocked), 4}, {fmt.Errorf("x: %w", state.ErrIncompatible), 4},
		{fmt.Errorf("x: %w", state.ErrMoving), 5}, {fmt.Errorf("x: %w", state.ErrExists), 4},
		{fmt.Errorf("x: %w", &disk.CorruptError{Path: "x"}), 5}, {fmt.Errorf("x: %w", &cluster.SetBackError{Why: "x"}),
			5}, {errors.Join(fmt.Errorf("x: %w", state.ErrIncompatible), &disk.CorruptError{Path: "x"}), 5},
		{errors.Join(errors.New("x"), end), 1},
		{errors.Join(end, errors.Join(nil, fmt.Errorf("x: %w", syscall.ENOSPC))), 3}, {errors.Join(nil, end), 15},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

// TestFailureBesideEnd: a failure is printed and has its exit code, whatever orderly end is joined to it.
func TestFailureBesideEnd(t *testing.T) {
	quiet, loud := &Ended{Code: ExitTime, Why: "time", Quiet: true}, &Ended{Code: ExitDiskFull, Why: "the disk is full"}
	failed := errors.New("demo: fetched twice")
	for _, c := range []struct {
		err  error
		code int
		said string
	}{
		{quiet, ExitTime, ""},
		{errors.Join(nil, quiet), ExitTime, ""},
		{errors.Join(failed, quiet), ExitFailure, "drumbeat: demo: fetched twice\n"},
		{errors.Join(quiet, errors.Join(failed)), ExitFailure, "drumbeat: demo: fetched twice\n"},
		{errors.Join(failed, loud), ExitFailure, "drumbeat: demo: fetched twice; the disk is full\n"},
		{&space.LimitError{Used: 9 << 20, Limit: 10 << 20, Err: fmt.Errorf("write d0/x: %w", disk.ErrQuota)},
			ExitDiskFull,
			"drumbeat: --disk limit reached: the crawl's files take 9.0 MiB of at most 10 MiB: write d0/x: " +
				"the limit on the size of all files is " +
				"reached; raise --disk, or move finished WARC files out of the crawl's directories, and run the same " +
				"command: it continues from the " +
				"last checkpoint\n"},
		{&space.DiskError{Dir: "d0", Number: 1, Count: 2, Err: syscall.ENOSPC}, ExitDiskFull,
			"drumbeat: directory d0 (1 of 2) failed: " +
				"no space left on device: free some space; the same command continues from the last checkpoint\n"},
	} {
		var said strings.Builder
		a := &App{Stderr: &said}
		if code := a.Fail(c.err); code != c.code || said.String() != c.said {
			t.Errorf("%v: exit code %d, %q; want %d, %q", c.err, code, said.String(), c.code, c.said)
		}
	}
}
