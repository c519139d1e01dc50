// Package term is what all commands share of the process and the machine that they run in: streams, signals, exit codes,
// plain output, progress, the environment, memory and descriptors. No flag is declared here; package flags has these.
//
// An App is one run of a command. Process makes the one of this process; tests make their own, with streams of their own,
// and may run several at a time. Of our packages only this one and main exit, or read arguments and environment; all
// others return errors. What a command prints goes through a Plain, which lets no control character of a site reach the
// terminal.
//
// App.Fail prints an error as one line on standard error and returns its exit code. Usage marks a fault of flags or input
// (code 2). An Ended is an end that is no failure but has a code of its own: the caller names it, and says whether the
// person has been told already. ExitCode tells all others apart by what they wrap: damage, a full disk, a directory in use.
// The codes stand in exit.go, and for users in docs/GUIDE.md.
//
// Process has the first SIGINT or SIGTERM end the context that StopOnSignal returned, and a second one end the process with
// ExitForced; a goroutine that lives until release takes them. A panic of any goroutine ends the process with ExitBug, but
// for one over a name server's reply, which is told of. An App's methods may be called from several goroutines, a Plain and
// a Progress from one at a time.
package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/bug"
)

// App is one run of the command.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Args           []string // the command line, for reports
	// StopOnSignal returns a context that ends with the first signal to stop; release undoes it.
	StopOnSignal func(context.Context) (ctx context.Context, release func())
	// OnHangup returns a channel that SIGHUP sends to; release undoes it. nil where nothing is to be read again.
	OnHangup func() (again <-chan struct{}, release func())
}

// Panicked tells of a panic and returns the exit code that goes with it.
func (a *App) Panicked(value any, stack []byte) int {
	if err, ok := value.(disk.OutOfMemory); ok {
		fmt.Fprintf(a.Stderr, "drumbeat: %v; give the process more memory, or the crawl less (--ram); the same command goes on from the last checkpoint\n", err)
		return ExitFailure
	}
	fmt.Fprintf(a.Stderr, "drumbeat: a bug of this program, please report it with the lines below: panic: %s\n"+
		"drumbeat: what is on disk is as of the last checkpoint; the same command goes on from there\n%s",
		PlainText(fmt.Sprint(value)), stack)
	return ExitBug
}

// NewApp returns a run with these streams, which a signal stops. Nothing has it read its files again.
func NewApp(stdin io.Reader, stdout, stderr io.Writer) *App {
	return &App{Stdin: stdin, Stdout: stdout, Stderr: stderr, StopOnSignal: stopOnSignal}
}

// Process returns the app of this process: its streams and signals. From then on the panic of any goroutine ends the process.
func Process() *App {
	a := NewApp(os.Stdin, os.Stdout, os.Stderr)
	a.OnHangup = onHangup
	a.endOnBugs()
	return a
}

// Die ends the process because of a panic, with the exit code that goes with it.
func (a *App) Die(value any, stack []byte) { os.Exit(a.Panicked(value, stack)) }

// endOnBugs has the panic of any goroutine end the process with the exit code that goes with it.
func (a *App) endOnBugs() {
	bug.EndBy(a.Die)
}

// maxBugsTold bounds how many panics over replies of name servers are told of.
const maxBugsTold = 20

// NamePanicked is dnscache.Options.Panicked: a reply that made this program panic is told of, anything else ends it.
func (a *App) NamePanicked() func(name string, value any, stack []byte) {
	var told atomic.Int64
	return func(name string, value any, stack []byte) {
		if name == "" {
			a.Die(value, stack)
		}
		if told.Add(1) <= maxBugsTold {
			fmt.Fprintf(a.Stderr, "drumbeat: a bug of this program, please report it: a name server's reply for %s made it panic: %s\n%s",
				PlainText(name), PlainText(fmt.Sprint(value)), stack)
		}
	}
}

// Fail prints an error as one line and returns the exit code that goes with it.
func (a *App) Fail(err error) int {
	if err == nil {
		return ExitDone
	}
	var end *Ended
	if !errors.As(err, &end) || !end.Quiet {
		fmt.Fprintln(a.Stderr, "drumbeat: "+PlainText(strings.TrimPrefix(OneLine(err), "drumbeat: "))+advice(err))
	}
	return ExitCode(err)
}

// advice goes behind an error.
func advice(err error) string {
	var added *crawl.NewDirectoryError
	switch {
	case errors.As(err, &added) && added.Out:
		return fmt.Sprintf("\n  more disk for WARC files: --add-out %s", PlainText(added.New))
	case errors.As(err, &added):
		return fmt.Sprintf("\n  more disk: --add-dir %s      another crawl: --dir %[1]s alone", PlainText(added.New))
	case ExitCode(err) == ExitDiskFull:
		return "; make room and run the same command: it goes on from the last checkpoint"
	case errors.Is(err, syscall.EMFILE):
		return "; raise the limit of open files (ulimit -n) or lower --connections, and run the same command: it goes on from the last checkpoint"
	case errors.Is(err, syscall.ENFILE):
		return "; the whole system has too many files open: close some and run the same command: it goes on from the last checkpoint"
	case ExitCode(err) == ExitDamage:
		return "; drumbeat audit --deep lists all damage, drumbeat repair --dry-run what can be done"
	}
	return ""
}

// Version is what User-Agent and the WARC files call this program.
const Version = "0.1.0"

// OneLine is an error's text on one line.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
