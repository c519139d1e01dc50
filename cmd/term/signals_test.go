package term

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	switch os.Getenv(ChildMode) {
	case "signals":
		ctx, _ := stopOnSignal(context.Background())
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("stopping")
		select {}
	case "late":
		_, release := stopProcessOnSignal(context.Background())
		release()
		fmt.Println("ready")
		fmt.Scanln() // of standard input: until the test has sent its signal
		os.Exit(ExitDone)
	case "hangup":
		again, release := onHangup()
		fmt.Println("ready")
		<-again
		fmt.Println("again")
		release()
		select {}
	}
	os.Exit(m.Run())
}

// TestSignals: the first signal stops cleanly; a copy within SameSignal is ignored; a later signal stops at
// once.
func TestSignals(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ChildMode+"=signals")
	var said bytes.Buffer // read after Wait
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	next("ready")
	for range 2 {
		must(t, cmd.Process.Signal(syscall.SIGINT))
	}
	next("stopping")
	<-time.After(2 * SameSignal)
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != ExitForced {
		t.Errorf("got %v, want exit code %d", err, ExitForced)
	}
	if text := said.String(); !strings.Contains(text, "interrupt: stopping;") || strings.Contains(text, "checkpoint") {
		t.Errorf("said %q: want what holds for every command", text)
	}
}

// TestSignalsWithStoppedReader: signals stop a process whose standard error is a pipe that nobody reads any more.
func TestSignalsWithStoppedReader(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize()) // now it blocks
	must(t, err)
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), ChildMode+"=signals"), w
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ready", "stopping"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
		must(t, cmd.Process.Signal(syscall.SIGTERM))
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != ExitForced {
		t.Errorf("got %v, want exit code %d", err, ExitForced)
	}
}

// TestLateSignal: a signal that comes while a command prints its summary does not change its exit code.
func TestLateSignal(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ChildMode+"=late")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("got %q", lines.Text())
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	must(t, in.Close())
	must(t, cmd.Wait())
}

// TestHangup: SIGHUP is delivered to the channel and does not end the process.
func TestHangup(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ChildMode+"=hangup")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ready", "again"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
		if want == "again" {
			break
		}
		must(t, cmd.Process.Signal(syscall.SIGHUP))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
