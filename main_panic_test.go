package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

// buggyScreen panics, as a bug would, when a goroutine of the command tells of a hangup.
type buggyScreen struct{}

func (buggyScreen) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "drumbeat: hangup") {
		panic("made up")
	}
	return os.Stderr.Write(b)
}

// commandWithBug runs the command with a screen that panics and a terminal that has gone.
func commandWithBug() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: buggyScreen{}, stopOnSignal: stopOnSignal}
	a.onHangup = func() (<-chan struct{}, func()) {
		gone := make(chan struct{})
		close(gone)
		return gone, func() {}
	}
	a.endOnBugs()
	os.Exit(a.run(os.Args[1:]))
}

// TestPanicOfAGoroutine: one in a goroutine besides the crawl's own ended the process with Go's exit status 2.
func TestPanicOfAGoroutine(t *testing.T) {
	seeds := filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(seeds, []byte("http://127.0.0.1/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "crawl", "--seeds", seeds, "--contact=a@example.org", "--dir", filepath.Join(t.TempDir(), "c"),
		"--resolver=192.0.2.1", "--ram=192MiB", "--allow-net=127.0.0.0/8", "--log-level=warn")
	cmd.Env = append(os.Environ(), childMode+"=bug")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitBug {
		t.Errorf("ended with %v, want exit code %d", err, exitBug)
	}
	for _, want := range []string{"panic: made up", "please report it", "main_panic_test.go"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q isn't told in %q", want, out)
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
