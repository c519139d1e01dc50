// Package term has what all commands share of the process and the machine: streams, signals, exit codes, safe
// output, progress, the environment, memory and file descriptors. It declares no flags; package flags does.
//
// An App is one run of a command. Process makes the App of this process; tests make their own, with their
// own streams, and may run several at a time. In the crawler, only this package and main exit, or read
// arguments and environment; all other packages return errors. Command output goes through a Plain, which lets no
// control character of a site reach the terminal.
//
// App.Fail prints an error as one line on standard error and returns its exit code. Usage marks a fault of
// flags or input (code 2). An Ended is an orderly end with its own code; its Quiet field says that the
// reason is printed already. ExitCode classifies all other errors by what they wrap: damage, a full disk, a
// directory in use. exit.go has the codes, and docs/reference/exit-codes.md their meaning.
//
// The first SIGINT or SIGTERM cancels the context of StopOnSignal; a second one ends the process with
// ExitForced. A goroutine that lives until release handles them. A panic in any goroutine ends the process
// with ExitBug, except a panic over a name server's reply, which is only reported. An App's methods may be
// called concurrently; a Plain, a Progress and a Screen may not.
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

	"drumbeat/cluster"
	"drumbeat/crawl/dirs"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/internal/bug"
)

// App is one run of the command.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Args           []string // the command line, for reports
	// StopOnSignal returns a context that the first SIGINT or SIGTERM cancels; release stops that.
	StopOnSignal func(context.Context) (ctx context.Context, release func())
	// OnHangup returns a channel that receives on SIGHUP; release stops that. nil: SIGHUP has no handler.
	OnHangup func() (again <-chan struct{}, release func())
	// Env returns a variable of the environment. nil: there are none.
	Env func(name string) (value string, ok bool)
	// Environ returns the whole environment, for child processes. nil: it is empty.
	Environ func() []string
}

// Environment returns a variable of the environment.
func (a *App) Environment(name string) (value string, ok bool) {
	if a.Env == nil {
		return "", false
	}
	return a.Env(name)
}

// Panicked reports a panic on standard error and returns its exit code.
func (a *App) Panicked(value any, stack []byte) int {
	if err, ok := value.(disk.OutOfMemory); ok {
		Say(a.Stderr,
			fmt.Sprintf("drumbeat: %v; give the process more memory or lower --ram; the same command resumes "+
				"from the last checkpoint\n", err))
		return ExitFailure
	}
	Say(a.Stderr, fmt.Sprintf("drumbeat: a bug in this program, please report it with the lines below: panic: %s\n"+
		"drumbeat: the files on disk are as of the last checkpoint; the same command resumes from there\n%s",
		PlainText(fmt.Sprint(value)), stack))
	return ExitBug
}

// NewApp returns an App with these streams, which SIGINT and SIGTERM stop. It has no handler of SIGHUP.
func NewApp(stdin io.Reader, stdout, stderr io.Writer) *App {
	return &App{Stdin: stdin, Stdout: stdout, Stderr: stderr, StopOnSignal: stopOnSignal}
}

// Process returns the App of this process, with its streams and signals. From then on a panic in any
// goroutine ends the process.
func Process() *App {
	a := NewApp(os.Stdin, os.Stdout, os.Stderr)
	a.StopOnSignal, a.OnHangup = stopProcessOnSignal, onHangup
	a.Env, a.Environ = os.LookupEnv, os.Environ
	a.endOnBugs()
	return a
}

// Die reports a panic and ends the process with its exit code.
func (a *App) Die(value any, stack []byte) { os.Exit(a.Panicked(value, stack)) }

// endOnBugs makes a panic in any goroutine end the process by Die.
func (a *App) endOnBugs() { bug.EndBy(a.Die) }

// maxBugsTold limits the reports of panics over name servers' replies.
const maxBugsTold = 20

// NamePanicked returns the function for dnscache.Options.Panicked: it reports a panic over a reply, and ends
// the process on any other.
func (a *App) NamePanicked() func(name string, value any, stack []byte) {
	var told atomic.Int64
	return func(name string, value any, stack []byte) {
		if name == "" {
			a.Die(value, stack)
		}
		if told.Add(1) <= maxBugsTold {
			fmt.Fprintf(a.Stderr, "drumbeat: a bug in this program, please report it: panic over a name "+
				"server's reply for %s: %s\n%s", PlainText(name), PlainText(fmt.Sprint(value)), stack)
		}
	}
}

// Fail prints an error as one line and returns its exit code.
func (a *App) Fail(err error) int {
	if err == nil {
		return ExitDone
	}
	ends, said := sorted(err)
	for _, end := range ends {
		if !end.Quiet {
			said = append(said, end)
		}
	}
	if len(said) > 0 {
		say := errors.Join(said...)
		fmt.Fprintln(a.Stderr, "drumbeat: "+PlainText(sentence(say))+advice(say))
	}
	return ExitCode(err)
}

// advice returns what to do about an error, to be printed after it; "" if there is nothing to say.
func advice(err error) string {
	var added *dirs.NewDirectoryError
	var back *cluster.SetBackError
	var limit *space.LimitError
	var failed *space.DiskError
	switch {
	case errors.As(err, &back):
		return "; start each node with its newest directories. If they are lost, drumbeat repair --resync readmits " +
			"all nodes with the older copy, and says what is lost"
	case errors.As(err, &added) && added.Out:
		return fmt.Sprintf("\n  more disk for WARC files: --add-out %s", PlainText(added.New))
	case errors.As(err, &added):
		return fmt.Sprintf("\n  more disk: --add-dir %s      another crawl: --dir %[1]s alone", PlainText(added.New))
	case errors.As(err, &limit):
		return "; raise --disk, or move finished WARC files out of the crawl's directories, and run the same " +
			"command: it continues from the last checkpoint"
	case errors.As(err, &failed): // it says what to do
		return ""
	case ExitCode(err) == ExitDiskFull:
		return "; make room, for example by moving finished WARC files away, and run the same command again"
	case errors.Is(err, syscall.EMFILE):
		return "; raise the limit of open files (ulimit -n) or lower --connections, and run the same " +
			"command to resume " +
			"from the last checkpoint"
	case errors.Is(err, syscall.ENFILE):
		return "; the system has too many open files: close some and run the same command to resume from " +
			"the last checkpoint"
	case ExitCode(err) == ExitDamage:
		return "; drumbeat audit --deep lists all damage, drumbeat repair --dry-run the possible repairs"
	}
	return ""
}

// OneLine returns an error's text on one line.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
