package crawl

import (
	"context"
	"runtime/pprof"
	"time"
)

// signal wakes one stage. Sends never block; several before a wait count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// transact runs f as one transaction (docs/ARCHITECTURE.md, "Transactions"): under the shared lock, so that a checkpoint sees all of it
// or nothing. f must not wait for network, admission or space. An error of f is a failed write with part of the transaction
// done: it stops the crawl, and nothing is checkpointed after it.
func (e *engine) transact(f func(tx *transaction) error) error {
	asked := time.Now()
	defer func() { e.slowest.note(time.Since(asked)) }()
	e.txLock.RLock()
	defer e.txLock.RUnlock()
	if err := e.failure(); err != nil {
		return err
	}
	tx := e.transactions.Get().(*transaction)
	defer e.transactions.Put(tx)
	tx.wakes = tx.wakes[:0]
	tx.nothing = false
	if err := f(tx); err != nil {
		tx.reset()
		e.fail(err)
		return err
	}
	e.acct.apply(tx)
	for _, s := range tx.wakes {
		s.raise()
	}
	if !tx.nothing {
		e.changed()
	}
	return nil
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

// MoverLabel is the label, in profiles, of the stage that a goroutine is or was started by (directly or not).
const StageLabel = "mover"

// start runs a stage as a goroutine of the crawler. Its error stops the crawl.
func (e *engine) start(ctx context.Context, name string, f func(ctx context.Context) error) {
	e.stages.Add(1)
	go func() {
		defer e.stages.Done()
		defer e.fatal()
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(StageLabel, name)))
		if err := f(ctx); err != nil && ctx.Err() == nil {
			e.opt.Log.Error("mover stopped", "mover", name, "error", err)
			e.fail(err)
		}
	}()
}

// at tells the tests where the crawl is.
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
