package crawl

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/strategy"
	"drumbeat/internal/cookies"
	"drumbeat/internal/health"
	"drumbeat/internal/revisit"
	"drumbeat/internal/sites"
	"drumbeat/internal/trapscore"
	"drumbeat/polite"
	"drumbeat/state"
)

// engine holds what all stages of a crawl share: options, identity, transactions, accounts, the end of the
// crawl, and the parts with their own locks that several stages use. It is safe for concurrent use once the crawl runs.
type engine struct {
	*state.Saved
	opt         Options
	limit       *diskLimit // the file system of opt, which holds Options.Limits.DiskBytes
	plan        Plan
	links       *admit.Policy // decides which links become URLs
	rules       rulesInForce
	sites       atomic.Pointer[sites.Set]         // settings of some sites; nil for none. A reload replaces it
	siteBudgets atomic.Pointer[map[uint64]uint32] // of PLDs with settings, by key
	margin      revisit.Margin                    // what a visit must gain; kept in the manifest
	cookies     *cookies.Store                    // of sites with settings; nil without Options.Admission.Sites

	// These parts have their own locks. They are created when the crawl is opened.
	polite     *polite.Scheduler // the heaps of hosts and servers in RAM
	workers    *workers
	policy     health.Policy // for hosts that fail or refuse
	faultWaits retryWaits

	// txLock is the transaction lock. Transactions share it; a checkpoint, and the check whether
	// the crawl is done, hold it exclusively. No
	// goroutine waits for the network, for room in RAM or for disk space while it holds the lock.
	txLock       sync.RWMutex
	slowest      slowest // slowest transaction, including its wait for the lock
	times        times
	transactions sync.Pool
	acct         accounts
	strategy     atomic.Pointer[strategy.Strategy] // which URLs are preferred; set once the journal is open
	sketches     *sketches
	traps        *trapscore.Table // nil without Options.Budgets.TrapScore; created when the crawl is opened

	failMu  sync.Mutex // guards failed
	failed  error
	cancel  context.CancelFunc
	running context.Context // context of the stages
	stages  sync.WaitGroup
	// fetching outlives the stages' context by stopGrace so that open exchanges can end. fetchers waits for
	// them.
	fetching context.Context
	fetchers sync.WaitGroup
	stop     stopReason

	draining      atomic.Bool // new links are not queued: Options.Admission.Drain, or little disk space
	operatorDrain atomic.Bool // new links are not queued: a change of the operator
	paused        atomic.Bool // no request starts: a change of the operator

	orders *orders // URLs that the operator has enqueued

	seedsDone atomic.Bool  // all seeds have been read
	wakeWatch signal       // wakes the stage that detects the end of the crawl
	committed signal       // wakes the pulse
	pulsed    []signal     // signals that the pulse raises
	changes   atomic.Int64 // number of transactions, merges and exchanges that have ended
	wakeups   atomic.Int64 // number of times a stage woke up; stays low while the crawl waits
	bugs      atomic.Int64 // contained panics

	began        time.Time
	made         time.Time
	firstBegan   int64        // Unix seconds of the crawl's first start; 0: unknown
	activeBefore int64        // ms, in earlier runs
	lastProgress atomic.Int64 // time of the last fetched or refused URL, ns after began
}

func newEngine(opt Options) *engine {
	limit := opt.opened.limit
	if limit == nil {
		limit = newDiskLimit(&opt)
	}
	opt.Disk.FS = limit
	e := &engine{Saved: state.NewSaved(opt.Disk.FS, opt.Disk.Dirs, opt.Disk.Out), opt: opt, limit: limit, cancel: func() {}, began: time.Now(),
		made:     time.Now(),
		sketches: newSketches(), committed: newSignal(), faultWaits: opt.makeWaits(), policy: opt.makePolicy()}
	e.transactions.New = func() any { return new(transaction) }
	e.wakeWatch = e.pulsedSignal()
	e.orders = newOrders()
	e.links = &admit.Policy{Lists: &e.rules.Lists, MaxDepth: opt.Limits.MaxDepth, MaxRedirects: opt.Links.MaxRedirects,
		MaxURLBytes: opt.Admission.MaxURLBytes, KeepEscapes: opt.Admission.KeepEscapes, Ports: opt.Network.Ports,
		LinkFilter: opt.Admission.LinkFilter, Settings: &e.sites, SeedsOnly: opt.seedsOnly()}
	e.draining.Store(opt.Admission.Drain)
	return e
}

// drains reports whether new links are not queued.
func (e *engine) drains() bool { return e.draining.Load() || e.operatorDrain.Load() }

// partOf returns the part of its PLD's budget that a host may use, in sixteenths; 0 for all of it.
func (e *engine) partOf(host []byte) uint8 {
	if e.traps == nil {
		return 0
	}
	return e.traps.Get(e.HostKey(host)).Part()
}

// observed reports whether anything takes snapshots while the crawl runs.
func (e *engine) observed() bool {
	return e.opt.Observe.Snapshot != nil || e.opt.Observe.Control != nil || e.opt.Observe.HistoryBytes > 0
}

// pulsedSignal creates a signal that the pulse raises. Call it only before the stages start.
func (e *engine) pulsedSignal() signal {
	s := newSignal()
	e.pulsed = append(e.pulsed, s)
	return s
}

// uptime returns the time since the engine was made, by the monotonic clock: unlike Unix times, it still counts time that
// has passed after the wall clock was set.
func (e *engine) uptime() time.Duration { return time.Since(e.made) }

// activeMillis returns how long the crawl has run, including earlier runs.
func (e *engine) activeMillis() int64 { return e.activeBefore + time.Since(e.began).Milliseconds() }

// noteProgress records that a URL was fetched or refused.
func (e *engine) noteProgress() { e.lastProgress.Store(int64(time.Since(e.began))) }

// idleFor returns the time since the last progress, by the monotonic clock.
func (e *engine) idleFor() time.Duration {
	return time.Since(e.began) - time.Duration(e.lastProgress.Load())
}

func (e *engine) counter(n state.Counter) int64 {
	e.acct.mu.Lock()
	defer e.acct.mu.Unlock()
	return e.acct.s.Counters[n]
}

// signal wakes one stage. Raising it never blocks; several raises before a wait count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// fail stops the crawl. Run returns the first error that fail receives.
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

// StageLabel is the profile label that names the stage of a goroutine. Goroutines that a stage starts
// inherit the label.
const StageLabel = "stage"

// start runs a stage in its own goroutine. An error of the stage stops the crawl.
func (e *engine) start(ctx context.Context, name string, f func(ctx context.Context) error) {
	e.stages.Add(1)
	go func() {
		defer e.stages.Done()
		defer e.fatal()
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(StageLabel, name)))
		if err := f(ctx); err != nil && ctx.Err() == nil {
			e.opt.Observe.Log.Error("stage stopped", "stage", name, "error", err)
			e.fail(err)
		}
	}()
}

// testHook tells the tests which place in the code the crawl has reached.
func (e *engine) testHook(place string) {
	if e.opt.tests.hook != nil {
		e.opt.tests.hook(place)
	}
}

// sleep waits for d. It returns false if ctx ended first.
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

// wakeAfter is the longest sleep of a stage. It bounds the delay if a signal is missing.
const wakeAfter = time.Minute

// changed counts a transaction, merge or exchange that has ended, and wakes the pulse.
func (e *engine) changed() {
	e.changes.Add(1)
	e.committed.raise()
}

// await waits until s is raised or d (at most wakeAfter) has passed. It returns false if ctx ended first.
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
