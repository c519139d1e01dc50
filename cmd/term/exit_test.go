package term

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"drumbeat/crawl/state"
	"drumbeat/disk"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {errors.New("x"), 1}, {Usage(errors.New("x")), 2},
		{fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}), 3},
		{fmt.Errorf("write: %w", syscall.EDQUOT), 3},
		{fmt.Errorf("x: %w", disk.ErrLocked), 4}, {fmt.Errorf("x: %w", state.ErrIncompatible), 4}, {fmt.Errorf("x: %w", state.ErrExists), 4},
		{fmt.Errorf("x: %w", &disk.CorruptError{Path: "x"}), 5},
		{errors.Join(fmt.Errorf("x: %w", state.ErrIncompatible), &disk.CorruptError{Path: "x"}), 5},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}
