package main

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"drumbeat/disk"
)

// panickingReader stands for a bug.
type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("made up") }

// TestPanicHasACodeOfItsOwn: a panic ended the program with Go's exit status 2, which means a bad flag here.
func TestPanicHasACodeOfItsOwn(t *testing.T) {
	var out, errOut bytes.Buffer
	a := &app{stdin: panickingReader{}, stdout: &out, stderr: &errOut}
	if code := a.run([]string{"explain", "url"}); code != exitBug {
		t.Errorf("exit code %d, want %d", code, exitBug)
	}
	for _, want := range []string{"panic: made up", "please report it", "main_panic_test.go"} {
		if !strings.Contains(errOut.String(), want) {
			t.Errorf("%q isn't told in %q", want, errOut.String())
		}
	}
}

// TestOutOfMemoryIsNoBug: a machine without memory is told apart from a bug of this program.
func TestOutOfMemoryIsNoBug(t *testing.T) {
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	if code := a.panicked(disk.OutOfMemory{Bytes: 4096, Err: syscall.ENOMEM}, nil); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	if text := stderr.String(); !strings.Contains(text, "out of memory") || strings.Contains(text, "bug") {
		t.Errorf("told as %q", text)
	}
}
