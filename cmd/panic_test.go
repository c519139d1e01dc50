package cmd

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drumbeat/cmd/term"
)

// panickingReader stands for a bug.
type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("made up") }

// TestPanicHasACodeOfItsOwn: a panic ended the program with Go's exit status 2, which means a bad flag here.
func TestPanicHasACodeOfItsOwn(t *testing.T) {
	var out, errOut bytes.Buffer
	a := &term.App{Stdin: panickingReader{}, Stdout: &out, Stderr: &errOut}
	if code := run(a, []string{"explain", "url"}); code != term.ExitBug {
		t.Errorf("exit code %d, want %d", code, term.ExitBug)
	}
	for _, want := range []string{"panic: made up", "please report it", "panic_test.go"} {
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
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // a test run by nohup has it ignored
	a := term.Process()
	a.Stderr = buggyScreen{}
	a.OnHangup = func() (<-chan struct{}, func()) {
		gone := make(chan struct{})
		close(gone)
		return gone, func() {}
	}
	os.Exit(run(a, os.Args[1:]))
}

// TestPanicOfAGoroutine: one in a goroutine besides the crawl's own ended the process with Go's exit status
// 2.
func TestPanicOfAGoroutine(t *testing.T) {
	seeds := filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(seeds, []byte("http://127.0.0.1/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "crawl", "--seeds", seeds, "--contact=a@example.org", "--dir", filepath.Join(t.TempDir(), "c"),
		"--resolver=192.0.2.1", "--ram=192MiB", "--allow-net=127.0.0.0/8", "--log-level=warn")
	cmd.Env = append(os.Environ(), term.ChildMode+"=bug")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != term.ExitBug {
		t.Errorf("ended with %v, want exit code %d", err, term.ExitBug)
	}
	for _, want := range []string{"panic: made up", "please report it", "panic_test.go"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q isn't told in %q", want, out)
		}
	}
}
