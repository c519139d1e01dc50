package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"drumbeat/admin"
	"drumbeat/admin/prom"
	"drumbeat/admin/web"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/bug"
)

// GCPercent lets the Go heap grow to four times its live size before a collection. Large long-lived buffers
// are outside the heap, so this is some 100 MB; the memory limit bounds the heap in any case. In the demo on
// 2 cores the collector takes a few percent of the CPU.
const GCPercent = 300

// Execute crawls, with the memory of the process bounded by the plan, until the crawl ends or a signal stops
// it. The admin server runs meanwhile.
func Execute(a *term.App, opt *crawl.Options, plan crawl.Plan, view *View, adm flags.Admin) (*crawl.Result, error) {
	limit := debug.SetMemoryLimit(plan.HeapBytes)
	percent := debug.SetGCPercent(GCPercent)
	defer func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}()
	tail := new(admin.Tail)
	opt.Observe.Log = slog.New(tail.Handler(view.log.Handler()))
	view.log = opt.Observe.Log
	opt.Observe.Snapshot = view.show
	opt.Observe.SnapshotEvery = time.Second
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	defer sayStopping(ctx)()
	rules := len(opt.Admission.Rules)+len(opt.Admission.Blacklist) > 0 || opt.Admission.Sites != "" ||
		opt.Budgets.Trusted != "" || opt.Identity.Signer != nil
	if a.OnHangup != nil && (rules || !signal.Ignored(syscall.SIGHUP)) { // nohup(1) ignores SIGHUP
		again, release := a.OnHangup()
		defer release()
		if rules {
			opt.Admission.Reload = again
		} else {
			ctx = stopOnHangup(ctx, a, again)
		}
	}
	stop, err := serveAdmin(ctx, opt, adm, tail)
	if err != nil {
		return nil, err
	}
	res, err := crawl.Run(ctx, *opt)
	view.out.wait() // other output follows
	return res, errors.Join(err, stop())
}

// serveAdmin starts the admin server, unless adm switches it off. stop ends it.
func serveAdmin(ctx context.Context, opt *crawl.Options, adm flags.Admin, tail *admin.Tail) (stop func() error,
	err error) {
	if adm.Off() {
		return func() error { return nil }, nil
	}
	opt.Observe.Control = new(crawl.Control)
	s, err := admin.Listen(admin.Options{Control: opt.Observe.Control, Addr: adm.Admin, CertFile: adm.AdminCert,
		KeyFile: adm.AdminKey, Plain: adm.AdminPlain, TokenFile: adm.AdminToken, Warn: opt.Observe.Log.Warn,
		Dirs: opt.Disk.Dirs, Out: opt.Disk.Out, Version: opt.Identity.Version, Agent: opt.Identity.Agent,
		Contact: opt.Identity.Contact, Host: opt.Identity.Host, Log: tail, Page: web.Handler(),
		Handlers: map[string]http.Handler{
			"GET /metrics":             prom.Handler(opt.Identity.Version, opt.Observe.Control.Snapshot),
			"GET /debug/pprof/":        http.HandlerFunc(pprof.Index),
			"GET /debug/pprof/profile": http.HandlerFunc(pprof.Profile),
			"GET /debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
		}, Secret: []string{"/debug/"}})
	if err != nil {
		return nil, term.Usage(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		defer bug.Fatal()
		ended <- s.Serve(ctx)
	}()
	if s.Moved() {
		opt.Observe.Log.Warn("another process uses the port of --admin, so the admin server has another one; "+
			"give no token to that process", "taken", adm.Admin, "url", s.URL())
	}
	opt.Observe.Log.Info("admin server", "url", s.URL(), "token", filepath.Join(opt.Disk.Dirs[0], admin.TokenName))
	return func() error { cancel(); return <-ended }, nil
}

// sayStopping says, when a signal ends ctx, what the crawl does before it ends. The returned function ends that.
// It writes where the signal was announced, for tests read a.Stderr.
func sayStopping(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), term.ErrSignal) {
			fmt.Fprintln(os.Stderr, "drumbeat: the crawl finishes the fetches under way, makes a checkpoint "+
				"and stops; the next start continues there")
		}
	})
}

// stopOnHangup cancels the context on SIGHUP: without rule files to reload it means that the terminal was
// closed.
func stopOnHangup(parent context.Context, a *term.App, gone <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		defer bug.Fatal()
		select {
		case <-gone:
			term.Say(a.Stderr, "drumbeat: hangup: stopping after running fetches and a checkpoint\n")
			cancel(term.ErrSignal)
		case <-parent.Done():
			cancel(nil)
		}
	}()
	return ctx
}
