package operate

import (
	"context"
	"errors"
	"sync"

	"drumbeat/crawl/account"
	"drumbeat/crawl/figures"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/node"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/space"
	"drumbeat/polite"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
	"drumbeat/state/snapshot"
)

// Control is a handle on a running crawl: it reads its state and makes changes. It is safe
// for concurrent use. Reading never waits for a pass or a checkpoint.
type Control struct {
	mu    sync.RWMutex // guards c, pause and last; held for reading by each call, so the crawl stays open
	c     *Running
	pause *Running // the crawl that waits for disk space before it runs; nil while it runs
	last  *Ending  // nil until the crawl has ended
	rest  *Rest    // nil unless pages are being erased

	once    sync.Once // makes started
	started chan struct{}
}

// Running is a running crawl, as Control sees it.
type Running struct {
	Run         *account.Run
	Saved       *state.Saved
	Operator    *Operator
	Figures     *figures.Figures
	Heaps       *polite.Scheduler
	Hosts       *gate.Hosts
	Limits      *limits.Limits
	Connections int // connection slots
	Space       *space.Keeper
	Outages     *outage.Watch
	Node        *node.Node
	NodeNumber  int                                         // of this node of a cluster
	Top         func(order star.Order, n int) []star.Ranked // see star.Top
	SeenFills   func(n int) []float64                       // how full URLseen's buckets are, in n groups
}

// Started returns a channel that is closed when the crawl first runs.
func (k *Control) Started() <-chan struct{} {
	k.once.Do(func() { k.started = make(chan struct{}) })
	return k.started
}

// ErrNotRunning is returned by calls while no crawl runs.
var ErrNotRunning = errors.New("crawl: the crawl is not running: it is starting, stopping, erasing pages or " +
	"waiting for disk space")

// Attach begins to serve a crawl; Attach(nil) waits for running calls and ends it.
func (k *Control) Attach(c *Running) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.c, k.pause, k.last = c, nil, nil
	if c != nil {
		k.rest = nil
		k.start()
	}
}

// Show shows a crawl that waits for disk space before it runs. Its state can be read, not changed. Attach ends this.
func (k *Control) Show(c *Running) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pause, k.last = c, nil
}

// Rest is the state of a crawl while pages are erased: there is no Running.
type Rest struct {
	ID       string
	Settings *changes.Settings
	Snapshot *snapshot.Snapshot
}

// Erasing shows a crawl that rests while pages are erased, under the lock of its directories; nil, Attach and End end
// this.
func (k *Control) Erasing(r *Rest) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rest = r; r == nil {
		return
	}
	k.last = nil
	k.start()
}

// start tells that the crawl runs. The caller holds the lock.
func (k *Control) start() {
	select {
	case <-k.Started():
	default:
		close(k.started)
	}
}

// resting returns the crawl that rests, nil if none does.
func (k *Control) resting() *Rest {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.rest
}

// Ending is the last word of a crawl that has ended.
type Ending struct {
	Why      string // one of the Stop constants; "" after an error
	Err      error
	ID       string
	Snapshot *snapshot.Snapshot
}

// Ended returns how the crawl ended; nil while it has not ended, or if it never ran.
func (k *Control) Ended() *Ending {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.last
}

// End notes the end of a run for Ended.
func (k *Control) End(last *Ending) {
	if k == nil || last == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.rest = last, nil
}

// Stopping reports whether the crawl was told to end: it finishes running exchanges and writes its last
// checkpoint.
func (k *Control) Stopping() (is bool) {
	_ = k.With(func(c *Running) error { is = c.Run.Running().Err() != nil; return nil }) // not running: false
	return is
}

// With calls f with the running crawl.
func (k *Control) With(f func(c *Running) error) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.c == nil {
		return ErrNotRunning
	}
	return f(k.c)
}

// look calls f with the running crawl, or with the one that waits for disk space.
func (k *Control) look(f func(c *Running) error) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.c == nil && k.pause != nil {
		return f(k.pause)
	}
	if k.c == nil {
		return ErrNotRunning
	}
	return f(k.c)
}

// changing is With for a change, whose log lines it writes afterwards, when no lock is held.
func (k *Control) changing(f func(c *Running, late *account.LateLog) error) error {
	var late account.LateLog
	defer func() { late.Tell() }()
	return k.With(func(c *Running) error { return f(c, &late) })
}

// Snapshot returns the state of the crawl with the rates of the last second.
func (k *Control) Snapshot() (s *snapshot.Snapshot, err error) {
	if r := k.resting(); r != nil {
		return r.Snapshot, nil
	}
	err = k.look(func(c *Running) error { s = c.Figures.Last(); return nil })
	return s, err
}

// Exact returns the state of the crawl now, without rates.
func (k *Control) Exact() (s *snapshot.Snapshot, err error) {
	err = k.look(func(c *Running) error { s = c.Figures.Snapshot(); return nil })
	return s, err
}

// Make makes a change. It returns when the change is durable and in force: no request begins that the change
// forbids. The change returned has its number and time. The errors are *changes.RefusedError,
// *changes.FullError, ErrNotRunning, and failures of this machine.
func (k *Control) Make(ctx context.Context, c changes.Change) (made changes.Change, err error) {
	err = k.changing(func(cr *Running, late *account.LateLog) error {
		made, err = cr.Operator.Make(ctx, c, late)
		return err
	})
	return made, err
}

// BadSeeds returns the lines that are no URL or host, each with the reason.
func (k *Control) BadSeeds(lines []string) (bad [][2]string, err error) {
	err = k.With(func(c *Running) error { bad = c.Operator.BadSeeds(lines); return nil })
	return bad, err
}

// Settings returns the changes in force. The caller must not change them.
func (k *Control) Settings() (s *changes.Settings, err error) {
	if r := k.resting(); r != nil {
		return r.Settings, nil
	}
	err = k.look(func(c *Running) error { s = c.Operator.Settings(); return nil })
	return s, err
}

// Changes returns the last changes, newest first, at most n.
func (k *Control) Changes(n int) (list []changes.Change, err error) {
	err = k.With(func(c *Running) error { list = c.Operator.Last(n); return nil })
	return list, err
}

// Enqueue makes URLs be fetched before all others, as soon as politeness allows. It returns when the change
// is durable, with an answer for each line in their order. The errors are those of Make.
func (k *Control) Enqueue(ctx context.Context, who string, lines []string) (answers []Enqueued,
	made changes.Change, err error) {
	err = k.changing(func(c *Running, late *account.LateLog) error {
		answers, made, err = c.Operator.Enqueue(ctx, who, lines, late)
		return err
	})
	return answers, made, err
}

// Erase takes a request to erase pages; see Operator.Erase.
func (k *Control) Erase(ctx context.Context, ask *erase.Ask) (r *erase.Request, err error) {
	err = k.changing(func(c *Running, late *account.LateLog) error {
		r, err = c.Operator.Erase(ctx, ask, late)
		return err
	})
	return r, err
}

// Reload reads the files of rules, blacklist, sites and trusted PLDs again and puts them in force, as
// Options.Admission.Reload does, and counts what that changed. If a file has errors, nothing changes, and the
// error is a *changes.RefusedError. With replace the URLs that BEAST holds are placed again, by the budgets
// that the sites have now.
func (k *Control) Reload(ctx context.Context, who string, replace bool) (r inforce.Reloaded, made changes.Change,
	err error) {
	err = k.changing(func(c *Running, late *account.LateLog) error {
		r, made, err = c.Operator.Reload(ctx, who, replace, late)
		return err
	})
	return r, made, err
}
