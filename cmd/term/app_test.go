package term

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"drumbeat/disk"
)

// TestOutOfMemoryIsNoBug: lack of memory is not reported as a bug in this program.
func TestOutOfMemoryIsNoBug(t *testing.T) {
	var stderr bytes.Buffer
	a := &App{Stderr: &stderr}
	if code := a.Panicked(disk.OutOfMemory{Bytes: 4096, Err: syscall.ENOMEM}, nil); code != ExitFailure {
		t.Errorf("exit code %d, want %d", code, ExitFailure)
	}
	if text := stderr.String(); !strings.Contains(text, "out of memory") || strings.Contains(text, "bug") {
		t.Errorf("printed %q", text)
	}
}
