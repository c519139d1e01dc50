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

// panickingReader simulates a bug.
type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("made up") }

// TestPanicHasACodeOfItsOwn: a panic ends with ExitBug. Regression: it ended with Go's exit status 2, the
// code of a bad flag.
func TestPanicHasACodeOfItsOwn(t *testing.T) {
	var out, errOut bytes.Buffer
	a := &term.App{Stdin: panickingReader{}, Stdout: &out, Stderr: &errOut}
	if code := run(a, []string{"explain", "url"}); code != term.ExitBug {
		t.Errorf("exit code %d, want %d", code, term.ExitBug)
	}
	for _, want := range []string{"panic: made up", "please report it", "panic_test.go"} {
		if !strings.Contains(errOut.String(), want) {
			t.Errorf("%q is missing in %q", want, errOut.String())
		}
	}
}

// buggyScreen panics when a goroutine of the command reports a hangup.
type buggyScreen struct{}

func (buggyScreen) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "drumbeat: hangup") {
		panic("made up")
	}
	return os.Stderr.Write(b)
}

// commandWithBug runs the command with a standard error that panics and a closed terminal.
func commandWithBug() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // nohup(1) makes a test ignore it
	a := term.Process()
	a.Stderr = buggyScreen{}
	a.OnHangup = func() (<-chan struct{}, func()) {
		gone := make(chan struct{})
		close(gone)
		return gone, func() {}
	}
	os.Exit(run(a, os.Args[1:]))
}

// TestPanicOfAGoroutine: a panic in a goroutine outside the crawl ends with ExitBug. Regression: Go's exit
// status 2.
func TestPanicOfAGoroutine(t *testing.T) {
	seeds := filepath.Join(t.TempDir(), "seeds")
	must(t, os.WriteFile(seeds, []byte("http://127.0.0.1/\n"), 0o600))
	cmd := exec.Command(os.Args[0], "crawl", "--seeds", seeds, "--contact=a@example.org", "--dir",
		filepath.Join(t.TempDir(), "c"), "--resolver=192.0.2.1", "--ram=192MiB", "--allow-net=127.0.0.0/8",
		"--log-level=warn")
	cmd.Env = append(os.Environ(), term.ChildMode+"=bug")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != term.ExitBug {
		t.Errorf("ended with %v, want exit code %d", err, term.ExitBug)
	}
	for _, want := range []string{"panic: made up", "please report it", "panic_test.go"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
}
