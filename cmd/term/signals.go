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

// SameSignal is the time in which further signals count as the first one: timeout(1) and the like send one to the process
// and to its group.
const SameSignal = 100 * time.Millisecond

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
					if time.Since(first) < SameSignal {
						continue
					}
					fmt.Fprintf(os.Stderr, "drumbeat: second signal (%v): stopping at once; the next start goes on from the last checkpoint\n", s)
					os.Exit(ExitForced)
				}
				first = time.Now()
				fmt.Fprintf(os.Stderr, "drumbeat: %v: stopping; fetches end and a checkpoint is made; once more stops at once\n", s)
				cancel(ErrSignal)
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
