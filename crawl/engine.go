package crawl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
)

// engine is what all stages of a crawl share: its options and identity, its transactions and accounts, its end.
// Safe for concurrent use once the crawl runs.
type engine struct {
	*state.Saved
	opt   Options
	plan  Plan
	links *admit.Policy // which links become URLs
	rules rulesInForce

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
	stop    stopReason

	draining  atomic.Bool  // new links are not queued
	seedsDone atomic.Bool  // the seed file has been fed
	wakeWatch signal       // wakes the stage that looks for the end of the crawl
	committed signal       // wakes the pulse
	changes   atomic.Int64 // transactions, merges and exchanges that have ended
	wakeups   atomic.Int64 // of stages: few while the crawl waits
	bugs      atomic.Int64 // panics that were contained

	began        time.Time
	activeBefore int64        // ms, in earlier runs
	lastProgress atomic.Int64 // when a URL was last fetched or refused, ns after began
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
