package term

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"drumbeat/internal/bug"
)

// SameSignal is the time after the first signal in which others are ignored: timeout(1) and others send a
// signal both to the process and to its group.
const SameSignal = 100 * time.Millisecond

// stopOnSignal cancels the context on the first SIGINT or SIGTERM; a second one ends the process at once.
// The files on disk are then as after a crash: a crawl resumes from the last checkpoint.
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
					if time.Since(first) < SameSignal {
						continue
					}
					fmt.Fprintf(os.Stderr, "drumbeat: second signal (%v): stopping at once\n", s)
					os.Exit(ExitForced)
				}
				first = time.Now()
				fmt.Fprintf(os.Stderr, "drumbeat: %v: stopping; a second signal stops at once\n", s)
				cancel(ErrSignal)
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
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
