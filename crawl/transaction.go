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
func (c *crawler) transact(f func(tx *transaction) error) error {
	asked := time.Now()
	defer func() { c.slowest.note(time.Since(asked)) }()
	c.txLock.RLock()
	defer c.txLock.RUnlock()
	if err := c.failure(); err != nil {
		return err
	}
	tx := c.transactions.Get().(*transaction)
	defer c.transactions.Put(tx)
	tx.wakes = tx.wakes[:0]
	tx.nothing = false
	if err := f(tx); err != nil {
		tx.reset()
		c.fail(err)
		return err
	}
	c.acct.apply(tx)
	for _, s := range tx.wakes {
		s.raise()
	}
	if !tx.nothing {
		c.changed()
	}
	return nil
}

// fail stops the crawl for good: the first error is the one that Run returns.
func (c *crawler) fail(err error) {
	c.failMu.Lock()
	if c.failed == nil {
		c.failed = err
	}
	c.failMu.Unlock()
	c.cancel()
}

func (c *crawler) failure() error {
	c.failMu.Lock()
	defer c.failMu.Unlock()
	return c.failed
}

// MoverLabel is the label, in profiles, of the stage that a goroutine is or was started by (directly or not).
const StageLabel = "mover"

// start runs a stage as a goroutine of the crawler. Its error stops the crawl.
func (c *crawler) start(ctx context.Context, name string, f func(ctx context.Context) error) {
	c.stages.Add(1)
	go func() {
		defer c.stages.Done()
		defer c.fatal()
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(StageLabel, name)))
		if err := f(ctx); err != nil && ctx.Err() == nil {
			c.opt.Log.Error("mover stopped", "mover", name, "error", err)
			c.fail(err)
		}
	}()
}

// at tells the tests where the crawl is.
func (c *crawler) testHook(place string) {
	if c.opt.hook != nil {
		c.opt.hook(place)
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
