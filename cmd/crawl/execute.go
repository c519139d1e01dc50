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

// GCPercent lets the Go heap grow to four times its live size before a collection. Large long-lived buffers
// are outside the heap, so this is some 100 MB; the memory limit bounds the heap in any case. In the demo on
// 2 cores the collector takes a few percent of the CPU.
const GCPercent = 300

// Execute crawls, with the memory of the process bounded by the plan, until the crawl ends or a signal stops
// it.
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
	if a.OnHangup != nil && (rules || !signal.Ignored(syscall.SIGHUP)) { // nohup(1) ignores SIGHUP
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

// stopOnHangup cancels the context on SIGHUP: without rule files to reload it means that the terminal was
// closed.
func stopOnHangup(parent context.Context, a *term.App, gone <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		defer bug.Fatal()
		select {
		case <-gone:
			fmt.Fprintln(a.Stderr, "drumbeat: hangup: stopping after running fetches and a checkpoint")
			cancel(term.ErrSignal)
		case <-parent.Done():
			cancel(nil)
		}
	}()
	return ctx
}
