package term

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"drumbeat/internal/bug"
)

// SameSignal is the time after the first signal in which others are ignored: timeout(1) and others send a
// signal both to the process and to its group.
const SameSignal = 100 * time.Millisecond

// sayPatience is how long Say waits.
const sayPatience = 200 * time.Millisecond

// Say prints text about something that must happen in any case: it waits at most sayPatience for a reader that has
// stopped, as that of a full pipe or of a terminal after Ctrl-S.
func Say(w io.Writer, text string) {
	said := make(chan struct{})
	go func() { // bounded: a few calls in the life of a process
		defer bug.Fatal()
		defer close(said)
		_, _ = io.WriteString(w, text)
	}()
	t := time.NewTimer(sayPatience)
	defer t.Stop()
	select {
	case <-said:
	case <-t.C:
	}
}

// stopOnSignal cancels the context on the first SIGINT or SIGTERM; a second one ends the process at once.
// The files on disk are then as after a crash: a crawl resumes from the last checkpoint.
func stopOnSignal(parent context.Context) (context.Context, func()) {
	ctx, signals, stop := catchSignals(parent)
	return ctx, func() { signal.Stop(signals); stop() }
}

// stopProcessOnSignal is stopOnSignal for a command that ends the process soon after the context's end. Signals stay
// caught, so that the process ends with the exit code of the command also if one comes while it prints its summary.
func stopProcessOnSignal(parent context.Context) (context.Context, func()) {
	ctx, signals, stop := catchSignals(parent)
	return ctx, func() {
		late := make(chan os.Signal, 2)
		signal.Notify(late, syscall.SIGINT, syscall.SIGTERM)
		signal.Stop(signals)
		stop()
		go func() {
			defer bug.Fatal()
			first := time.Time{}
			for range late {
				if first.IsZero() {
					first = time.Now()
				} else if time.Since(first) >= SameSignal {
					os.Exit(ExitForced)
				}
			}
		}()
	}
}

// catchSignals returns a context that the first signal cancels, the channel that gets the signals, and the function
// that ends the goroutine which receives from it.
func catchSignals(parent context.Context) (context.Context, chan<- os.Signal, func()) {
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
					if time.Since(first) < SameSignal {
						continue
					}
					Say(os.Stderr, fmt.Sprintf("drumbeat: second signal (%v): stopping at once\n", s))
					os.Exit(ExitForced)
				}
				first = time.Now()
				Say(os.Stderr, fmt.Sprintf("drumbeat: %v: stopping; a second signal stops at once\n", s))
				cancel(ErrSignal)
			}
		}
	}()
	return ctx, signals, func() { close(done); cancel(nil) }
}

// onHangup makes SIGHUP send to a channel of capacity 1: several signals before the first is received count
// as one.
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
