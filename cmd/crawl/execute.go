package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/bug"
)

// GCPercent lets the Go heap grow to four times what lives in it before it is collected. What is large and lives long is
// outside of the heap, so that this is some 100 MB; the memory limit is what bounds the heap in the end. In the demo on 2
// cores the collector takes a few percent of the CPU with it.
const GCPercent = 300

// Execute crawls, with the process bounded to the plan, until it ends or a signal stops it.
func Execute(a *term.App, opt *crawl.Options, plan crawl.Plan, view *View) (*crawl.Result, error) {
	limit := debug.SetMemoryLimit(plan.HeapBytes)
	percent := debug.SetGCPercent(GCPercent)
	defer func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}()
	opt.Log = slog.New(slog.NewTextHandler(view, &slog.HandlerOptions{Level: view.level}))
	view.log = opt.Log
	opt.Snapshot = view.show
	opt.SnapshotEvery = time.Second
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	rules := len(opt.Rules)+len(opt.Blacklist) > 0
	if a.OnHangup != nil && (rules || !signal.Ignored(syscall.SIGHUP)) { // nohup(1) has it ignored
		again, release := a.OnHangup()
		defer release()
		if rules {
			opt.Reload = again
		} else {
			ctx = stopOnHangup(ctx, a, again)
		}
	}
	return crawl.Run(ctx, *opt)
}

// stopOnHangup ends the context when the terminal has gone: with no files to be read again that is what SIGHUP says.
func stopOnHangup(parent context.Context, a *term.App, gone <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		defer bug.Fatal()
		select {
		case <-gone:
			fmt.Fprintln(a.Stderr, "drumbeat: hangup: stopping; fetches end and a checkpoint is made")
			cancel(term.ErrSignal)
		case <-parent.Done():
			cancel(nil)
		}
	}()
	return ctx
}
