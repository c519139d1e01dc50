package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/internal/bug"
	"drumbeat/internal/histogram"
	"drumbeat/state/snapshot"
)

// Run is a running crawl, as all stages see it. It is safe for concurrent use once the stages run; New, PulsedSignal,
// Resume and Begin come before.
type Run struct {
	// TxLock is the transaction lock. Transactions share it; a checkpoint, and the check whether the crawl is
	// done, hold it exclusively. No goroutine waits for the network, for room in RAM or for disk space while it
	// holds the lock.
	TxLock       sync.RWMutex
	slowest      atomic.Int64 // ns, of a transaction, including its wait for the lock
	transactions sync.Pool
	Accounts     Accounts
	Times        Times

	log      *slog.Logger
	panicked func(value any, stack []byte) // nil: none
	hook     func(place string)            // of tests; nil: none

	failMu  sync.Mutex // guards failed
	failed  error
	cancel  context.CancelFunc
	running context.Context // context of the stages
	stages  sync.WaitGroup
	// fetching outlives the stages' context so that open exchanges can end.
	fetching context.Context
	// Fetchers has the goroutines that fetch. They may outlive the stages.
	Fetchers sync.WaitGroup
	why      atomic.Pointer[string]

	WakeWatch Signal       // wakes the stage that detects the end of the crawl
	committed Signal       // wakes the pulse
	pulsed    []Signal     // signals that the pulse raises
	changes   atomic.Int64 // number of transactions, merges and exchanges that have ended
	Wakeups   atomic.Int64 // number of times a stage woke up; stays low while the crawl waits
	bugs      atomic.Int64 // contained panics

	began        time.Time
	made         time.Time
	firstBegan   int64        // Unix seconds of the crawl's first start; 0: unknown
	activeBefore int64        // ms, in earlier runs
	lastProgress atomic.Int64 // time of the last fetched or refused URL, ns after began
}

// New returns a crawl that does not run yet. log gets messages of stages that fail. An uncontained panic of a
// stage goes to panicked, which does not return; hook is told of places in the code. Both may be nil.
func New(log *slog.Logger, panicked func(value any, stack []byte), hook func(place string)) *Run {
	now := time.Now()
	r := &Run{log: log, panicked: panicked, hook: hook, cancel: func() {}, began: now, made: now,
		committed: NewSignal()}
	r.transactions.New = func() any { return new(Tx) }
	r.WakeWatch = r.PulsedSignal()
	return r
}

// Resume sets what is known of earlier runs: how long the crawl ran, in ms, and when it first began, in Unix
// seconds; 0 if that is not known.
func (r *Run) Resume(active, firstBegan int64) { r.activeBefore, r.firstBegan = active, firstBegan }

// Begin begins the run. The context that it returns ends when ctx does, or by Fail, Stop and Cancel. That of
// Fetching ends by cut only.
func (r *Run) Begin(ctx context.Context) (running context.Context, cut func()) {
	r.running, r.cancel = context.WithCancel(ctx)
	r.fetching, cut = context.WithCancel(context.WithoutCancel(ctx))
	r.began = time.Now()
	r.NoteProgress()
	return r.running, cut
}

// Running returns the context of the stages, nil before Begin.
func (r *Run) Running() context.Context { return r.running }

// Fetching returns the context of exchanges, which outlives that of the stages; nil before Begin.
func (r *Run) Fetching() context.Context { return r.fetching }

// Began returns the time of the last Begin, or of New before it.
func (r *Run) Began() time.Time { return r.began }

// FirstBegan returns when the crawl first began, in Unix seconds; 0 if that is not known.
func (r *Run) FirstBegan() int64 { return r.firstBegan }

// Uptime returns the time since New, by the monotonic clock: unlike Unix times, it still counts time that
// has passed after the wall clock was set.
func (r *Run) Uptime() time.Duration { return time.Since(r.made) }

// ActiveMillis returns how long the crawl has run, including earlier runs.
func (r *Run) ActiveMillis() int64 { return r.activeBefore + time.Since(r.began).Milliseconds() }

// NoteProgress records that a URL was fetched or refused.
func (r *Run) NoteProgress() { r.lastProgress.Store(int64(time.Since(r.began))) }

// IdleFor returns the time since the last progress, by the monotonic clock.
func (r *Run) IdleFor() time.Duration {
	return time.Since(r.began) - time.Duration(r.lastProgress.Load())
}

// Fail stops the crawl. Failure returns the first error that Fail receives.
func (r *Run) Fail(err error) {
	r.failMu.Lock()
	if r.failed == nil {
		r.failed = err
	}
	r.failMu.Unlock()
	r.cancel()
}

// Failure returns the error that stopped the crawl, nil for none.
func (r *Run) Failure() error {
	r.failMu.Lock()
	defer r.failMu.Unlock()
	return r.failed
}

// Stop ends the stages. The first reason counts.
func (r *Run) Stop(why string) {
	r.why.CompareAndSwap(nil, &why)
	r.cancel()
}

// Cancel ends the stages without a reason.
func (r *Run) Cancel() { r.cancel() }

// StopReason returns the reason of the first Stop, "" without one.
func (r *Run) StopReason() string {
	if why := r.why.Load(); why != nil {
		return *why
	}
	return ""
}

// StageLabel is the profile label that names the stage of a goroutine. Goroutines that a stage starts
// inherit the label.
const StageLabel = "stage"

// Start runs a stage in its own goroutine. An error of the stage stops the crawl.
func (r *Run) Start(ctx context.Context, name string, f func(ctx context.Context) error) {
	r.stages.Add(1)
	go func() {
		defer r.stages.Done()
		defer r.Fatal()
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(StageLabel, name)))
		if err := f(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("stage stopped", "stage", name, "error", err)
			r.Fail(err)
		}
	}()
}

// WaitStages waits for all stages that Start has started.
func (r *Run) WaitStages() { r.stages.Wait() }

// Hook tells the tests which place in the code the crawl has reached.
func (r *Run) Hook(place string) {
	if r.hook != nil {
		r.hook(place)
	}
}

// MaxStacks limits the panics of a run that are logged with their stacks. Later ones are only counted.
const MaxStacks = 20

// LogBug logs a panic caused by data of a site; other errors, and nil, it ignores.
func (r *Run) LogBug(of string, err error) {
	var p *bug.Error
	if !errors.As(err, &p) || r.bugs.Add(1) > MaxStacks {
		return
	}
	r.log.Error("bug: drumbeat panicked while reading data from a site; please report it",
		"url", of, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
}

// Fatal must be the first deferred call of every goroutine of the crawl. A panic that was not contained
// ends the process through the function given to New, which does not return. Fatal undoes nothing and takes no lock,
// so the files are as after kill -9.
func (r *Run) Fatal() {
	if p := recover(); p != nil {
		if r.panicked != nil {
			r.panicked(p, debug.Stack())
		}
		panic(p)
	}
}

// Times has a histogram for each kind of duration, of this run. It is safe for concurrent use.
type Times [snapshot.NumTimes]histogram.Histogram

// Observe counts a duration.
func (t *Times) Observe(of snapshot.Time, d time.Duration) { t[of].Observe(d) }
