package crawl

import (
	"context"
	"runtime/pprof"
	"time"
)

// signal wakes one mover. Sends never block; several before a wait count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// inStep runs f as one step (docs/ARCHITECTURE.md, "Steps"): under the shared lock, so that a checkpoint sees all of it
// or nothing. f must not wait for network, admission or space. An error of f is a failed write with part of the step
// done: it stops the crawl, and nothing is checkpointed after it.
func (r *ring) inStep(f func(d *delta) error) error {
	asked := time.Now()
	defer func() { r.slowest.note(time.Since(asked)) }()
	r.step.RLock()
	defer r.step.RUnlock()
	if err := r.failure(); err != nil {
		return err
	}
	d := r.deltas.Get().(*delta)
	defer r.deltas.Put(d)
	d.wakes = d.wakes[:0]
	d.nothing = false
	if err := f(d); err != nil {
		d.reset()
		r.fail(err)
		return err
	}
	r.acct.apply(d)
	for _, s := range d.wakes {
		s.raise()
	}
	if !d.nothing {
		r.changed()
	}
	return nil
}

// fail stops the crawl for good: the first error is the one that Run returns.
func (r *ring) fail(err error) {
	r.failMu.Lock()
	if r.failed == nil {
		r.failed = err
	}
	r.failMu.Unlock()
	r.cancel()
}

func (r *ring) failure() error {
	r.failMu.Lock()
	defer r.failMu.Unlock()
	return r.failed
}

// MoverLabel is the label, in profiles, of the mover that a goroutine is or was started by (directly or not).
const MoverLabel = "mover"

// start runs a mover as a goroutine of the ring. Its error stops the crawl.
func (r *ring) start(ctx context.Context, name string, f func(ctx context.Context) error) {
	r.movers.Add(1)
	go func() {
		defer r.movers.Done()
		defer r.fatal()
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(MoverLabel, name)))
		if err := f(ctx); err != nil && ctx.Err() == nil {
			r.opt.Log.Error("mover stopped", "mover", name, "error", err)
			r.fail(err)
		}
	}()
}

// at tells the tests where the crawl is.
func (r *ring) at(place string) {
	if r.opt.hook != nil {
		r.opt.hook(place)
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
