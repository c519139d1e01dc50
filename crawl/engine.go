package crawl

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/internal/health"
	"drumbeat/polite"
)

// engine is what all stages of a crawl share: its options and identity, its transactions and accounts, its end.
// Safe for concurrent use once the crawl runs.
type engine struct {
	*state.Saved
	opt   Options
	plan  Plan
	links *admit.Policy // which links become URLs
	rules rulesInForce

	// Shared parts that lock themselves; made when the crawl is opened.
	polite     *polite.Scheduler // the heaps of hosts and servers in RAM
	workers    *workers
	policy     health.Policy // of hosts that fail or refuse
	faultWaits waits

	// txLock is the transaction lock: stages share it, a checkpoint takes it alone. Nothing waits for the network,
	// for room or for disk space under it.
	txLock       sync.RWMutex
	slowest      slowest // transaction, with its wait for the lock
	transactions sync.Pool
	acct         accounts
	sketches     *sketches

	failMu  sync.Mutex // guards failed
	failed  error
	cancel  context.CancelFunc
	running context.Context // of the stages
	stages  sync.WaitGroup
	// fetching outlives the stages' context by stopGrace, so that exchanges under way may end; fetchers waits for them.
	fetching context.Context
	fetchers sync.WaitGroup
	stop     stopReason

	draining  atomic.Bool  // new links are not queued
	seedsDone atomic.Bool  // the seed file has been fed
	wakeWatch signal       // wakes the stage that looks for the end of the crawl
	committed signal       // wakes the pulse
	pulsed    []signal     // those that the pulse raises
	changes   atomic.Int64 // transactions, merges and exchanges that have ended
	wakeups   atomic.Int64 // of stages: few while the crawl waits
	bugs      atomic.Int64 // panics that were contained

	began        time.Time
	activeBefore int64        // ms, in earlier runs
	lastProgress atomic.Int64 // when a URL was last fetched or refused, ns after began
}

func newEngine(opt Options) *engine {
	e := &engine{Saved: state.NewSaved(opt.FS, opt.Dirs, opt.Out), opt: opt, cancel: func() {}, began: time.Now(),
		sketches: newSketches(), committed: newSignal(), faultWaits: opt.makeWaits(), policy: opt.makePolicy()}
	e.transactions.New = func() any { return new(transaction) }
	e.wakeWatch = e.pulsedSignal()
	e.links = &admit.Policy{Lists: &e.rules.Lists, MaxDepth: opt.MaxDepth, MaxRedirects: opt.MaxRedirects, MaxURLBytes: opt.MaxURLBytes,
		KeepEscapes: opt.KeepEscapes, AllowedPort: opt.AllowedPort, LinkFilter: opt.LinkFilter}
	e.draining.Store(opt.Drain)
	return e
}

// pulsedSignal makes a signal that the pulse raises. The engine isn't shared yet.
func (e *engine) pulsedSignal() signal {
	s := newSignal()
	e.pulsed = append(e.pulsed, s)
	return s
}

// activeMillis is how long the crawl has run, earlier runs included.
func (e *engine) activeMillis() int64 { return e.activeBefore + time.Since(e.began).Milliseconds() }

// noteProgress notes that a URL ended.
func (e *engine) noteProgress() { e.lastProgress.Store(int64(time.Since(e.began))) }

// idleFor is how long there has been no progress, by a clock that never jumps.
func (e *engine) idleFor() time.Duration {
	return time.Since(e.began) - time.Duration(e.lastProgress.Load())
}

func (e *engine) counter(n state.Counter) int64 {
	e.acct.mu.Lock()
	defer e.acct.mu.Unlock()
	return e.acct.s.Counters[n]
}

// signal wakes one stage. Sends never block; several before a wait count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// fail stops the crawl for good: the first error is the one that Run returns.
func (e *engine) fail(err error) {
	e.failMu.Lock()
	if e.failed == nil {
		e.failed = err
	}
	e.failMu.Unlock()
	e.cancel()
}

func (e *engine) failure() error {
	e.failMu.Lock()
	defer e.failMu.Unlock()
	return e.failed
}

// StageLabel is the label, in profiles, of the stage that a goroutine is or was started by (directly or not).
const StageLabel = "stage"

// start runs a stage as a goroutine of the crawler. Its error stops the crawl.
func (e *engine) start(ctx context.Context, name string, f func(ctx context.Context) error) {
	e.stages.Add(1)
	go func() {
		defer e.stages.Done()
		defer e.fatal()
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(StageLabel, name)))
		if err := f(ctx); err != nil && ctx.Err() == nil {
			e.opt.Log.Error("stage stopped", "stage", name, "error", err)
			e.fail(err)
		}
	}()
}

// testHook tells the tests where the crawl is.
func (e *engine) testHook(place string) {
	if e.opt.hook != nil {
		e.opt.hook(place)
	}
}

// sleep waits; false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// wakeAfter is the net under all this: how long a stage sleeps at most.
const wakeAfter = time.Minute

// changed notes that a transaction, a merge or an exchange has ended.
func (e *engine) changed() {
	e.changes.Add(1)
	e.committed.raise()
}

// await returns true when the signal was raised or d has passed, false when the context ended.
func (e *engine) await(ctx context.Context, s <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(max(0, min(d, wakeAfter)))
	defer t.Stop()
	defer e.wakeups.Add(1)
	select {
	case <-s:
		return true
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
