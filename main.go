// Command drumbeat is a web crawler for one machine: the IRLbot paper's DRUM, STAR and BEAST on disk, end to end.
//
// This package reads flags and the environment, takes signals, prints, and exits; nothing else in the program does any
// of these. The crawl is package crawl, and crawl/ring.go is where to start reading.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/bug"
)

func main() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, stopOnSignal: stopOnSignal, onHangup: onHangup}
	a.endOnBugs()
	os.Exit(a.run(os.Args[1:]))
}

// app is one run of the command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	args           []string // the command line, for reports
	// stopOnSignal returns a context that ends with the first signal to stop; release undoes it.
	stopOnSignal func(context.Context) (ctx context.Context, release func())
	// onHangup returns a channel that SIGHUP sends to; release undoes it. nil where nothing is to be read again.
	onHangup func() (again <-chan struct{}, release func())
}

// run does what args say and returns the exit code.
func (a *app) run(args []string) (code int) {
	a.args = args
	defer func() {
		if r := recover(); r != nil {
			exit, ok := r.(kongExit)
			if !ok {
				exit = kongExit(a.panicked(r, debug.Stack()))
			}
			code = int(exit)
		}
	}()
	out := &plain{out: a.stdout} // much of what is printed comes from sites
	a.stdout = out
	defer func() { _ = out.flush() }()
	var c cli
	parser, err := newParser(&c, kong.Writers(a.stdout, a.stderr), kong.Exit(func(code int) { panic(kongExit(code)) }))
	if err != nil {
		return a.fail(err)
	}
	switch { // as people try them first
	case len(args) == 1 && args[0] == "--version":
		args = []string{"version"}
	case len(args) > 0 && args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	}
	if err := checkEnvironment(parser, os.Environ()); err != nil {
		return a.fail(usageError{err})
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return a.fail(usageError{err})
	}
	return a.fail(kctx.Run(a))
}

// panicked tells of a panic and returns the exit code that goes with it.
func (a *app) panicked(value any, stack []byte) int {
	if err, ok := value.(disk.OutOfMemory); ok {
		fmt.Fprintf(a.stderr, "drumbeat: %v; give the process more memory, or the crawl less (--ram); the same command goes on from the last checkpoint\n", err)
		return exitFailure
	}
	fmt.Fprintf(a.stderr, "drumbeat: a bug of this program, please report it with the lines below: panic: %s\n"+
		"drumbeat: what is on disk is as of the last checkpoint; the same command goes on from there\n%s",
		plainText(fmt.Sprint(value)), stack)
	return exitBug
}

// endOnBugs has the panic of any goroutine end the process with the exit code that goes with it.
func (a *app) endOnBugs() {
	bug.EndBy(func(value any, stack []byte) { os.Exit(a.panicked(value, stack)) })
}

// maxBugsTold bounds how many panics over replies of name servers are told of.
const maxBugsTold = 20

// namePanicked is dnscache.Options.Panicked: a reply that made this program panic is told of, anything else ends it.
func (a *app) namePanicked() func(name string, value any, stack []byte) {
	var told atomic.Int64
	return func(name string, value any, stack []byte) {
		if name == "" {
			os.Exit(a.panicked(value, stack))
		}
		if told.Add(1) <= maxBugsTold {
			fmt.Fprintf(a.stderr, "drumbeat: a bug of this program, please report it: a name server's reply for %s made it panic: %s\n%s",
				plainText(name), plainText(fmt.Sprint(value)), stack)
		}
	}
}

// kongExit is how -h leaves the parser.
type kongExit int

// fail prints an error as one line and returns the exit code that goes with it.
func (a *app) fail(err error) int {
	if err == nil {
		return exitDone
	}
	var end *ended
	if !errors.As(err, &end) || !end.quiet {
		fmt.Fprintln(a.stderr, "drumbeat: "+plainText(strings.TrimPrefix(oneLine(err), "drumbeat: "))+advice(err))
	}
	return exitCode(err)
}

// sameSignal is the time in which further signals count as the first one: timeout(1) and the like send one to the process
// and to its group.
const sameSignal = 100 * time.Millisecond

// advice goes behind an error.
func advice(err error) string {
	var added *crawl.NewDirectoryError
	switch {
	case errors.As(err, &added) && added.Out:
		return fmt.Sprintf("\n  more disk for WARC files: --add-out %s", plainText(added.New))
	case errors.As(err, &added):
		return fmt.Sprintf("\n  more disk: --add-dir %s      another crawl: --dir %[1]s alone", plainText(added.New))
	case exitCode(err) == exitDiskFull:
		return "; make room and run the same command: it goes on from the last checkpoint"
	case errors.Is(err, syscall.EMFILE):
		return "; raise the limit of open files (ulimit -n) or lower --connections, and run the same command: it goes on from the last checkpoint"
	case errors.Is(err, syscall.ENFILE):
		return "; the whole system has too many files open: close some and run the same command: it goes on from the last checkpoint"
	case exitCode(err) == exitDamage:
		return "; drumbeat audit --deep lists all damage, drumbeat repair --dry-run what can be done"
	}
	return ""
}

// stopOnSignal ends the context with the first SIGINT or SIGTERM; a second one ends the program at once. What is on disk is
// then as after a crash: nothing is lost.
func stopOnSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer bug.Fatal()
		var first time.Time
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				if !first.IsZero() {
					if time.Since(first) < sameSignal {
						continue
					}
					fmt.Fprintf(os.Stderr, "drumbeat: second signal (%v): stopping at once; the next start goes on from the last checkpoint\n", s)
					os.Exit(exitForced)
				}
				first = time.Now()
				fmt.Fprintf(os.Stderr, "drumbeat: %v: stopping; fetches end and a checkpoint is made; once more stops at once\n", s)
				cancel(errSignal)
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}

// onHangup has SIGHUP send to a channel, which holds one: several before the first was taken count as one.
func onHangup() (<-chan struct{}, func()) {
	signals, again, done := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer bug.Fatal()
		for {
			select {
			case <-done:
				return
			case <-signals:
				select {
				case again <- struct{}{}:
				default:
				}
			}
		}
	}()
	return again, func() { signal.Stop(signals); close(done) }
}

// Run prints the version.
func (versionCmd) Run(a *app) error {
	_, err := fmt.Fprintln(a.stdout, "drumbeat "+version())
	return err
}

// versionNumber is what User-Agent and the WARC files call this program.
const versionNumber = "0.1.0"

// version is that of the module, or of the commit that a build in the repository was made from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
		}
	}
	return v
}
