package pass

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// An early pass may rewrite the whole cache for the tuples that have arrived since the last pass. It waits
// earlyDuty times the duration of the last pass, or of the next one if that is less and fetchers are idle,
// which leaves three quarters of the disks' time for other work. Unless fetchers are idle, it also waits
// until 1/earlyShare of the cache's size has arrived or earlyPatience has passed. This limits the bytes
// written.
const (
	earlyDuty     = 3
	EarlyShare    = 8 // pending tuples are at least an eighth of the keys
	earlyPatience = 300 * time.Millisecond
)

// mostRest is the longest wait after a pass while fetchers are idle and 1/EarlyShare of the cache's size has
// arrived. Such a pass takes long because of its tuples, not because of the cache that it rewrites, and a longer
// wait would only delay them.
const mostRest = 50 * time.Millisecond

// URLs that return a few at a time from the delays of their hosts could cause many passes with little
// result, for as long as one slow host remains. So a pass waits until idleDuty times its predicted duration
// has passed since the last one, at most idlePatience, if that duration is over cheapEarly plus tupleCost
// for each pending tuple. The disks are then idle for 99 % of the time.
const (
	cheapEarly   = 20 * time.Millisecond
	cheapAtOnce  = 5 * time.Millisecond
	tupleCost    = 10 * time.Millisecond
	idleDuty     = 100
	idlePatience = 10 * time.Minute
)

// A pass that an enqueued URL needs waits less, so that the operator does: for a tenth of the disks' time, and for a
// minute at most. Passes of a large repository then write it whole once a minute while such URLs come.
const (
	UrgentDuty     = 10
	UrgentPatience = time.Minute
)

// leastMerge is the duration assumed for shorter merges. keyTime bounds the time of an early pass for each key
// of the cache, which Cost leaves out if the cache is in RAM: a pass that codes the keys again takes about 10 ns.
const (
	leastMerge = 2 * time.Millisecond
	keyTime    = 25 * time.Nanosecond
)

// Runner decides when the passes of a repository are due. Its methods run in the goroutine of the
// repository's stage.
type Runner struct {
	run     *account.Run
	opt     Options
	space   *space.Keeper
	others  Others
	mergers []*Merger // between a link and RAM
}

// Options are the options of a Runner.
type Options struct {
	Log         *slog.Logger
	Connections int
}

// Fetchers are those of the crawl.
type Fetchers interface {
	// Exchanges returns the number of exchanges under way, for pages and robots.txt.
	Exchanges() int64
	// Hungry reports whether many connections are idle because no URL in RAM is due; Starved whether all are.
	Hungry() bool
	Starved() bool
}

// Budgets has STAR and BEAST.
type Budgets interface {
	PassEnded()    // after each pass
	RunsLow() bool // BEAST has few URLs left
	BestDry() bool // BEAST has none of the best
	Raise()        // wakes the reader of BEAST
}

// Others are the stages that a Runner calls.
type Others struct {
	Fetchers Fetchers
	Budgets  Budgets
	Requests func() int   // requests for robots.txt under way
	StockLow func() bool  // the stock is well below its target
	Filled   func() int64 // hosts with URLs in RAM so far (polite.Use.Filled)
}

// New returns a Runner. Wire must give it the other stages before it is used.
func New(run *account.Run, opt Options, room *space.Keeper) *Runner {
	return &Runner{run: run, opt: opt, space: room}
}

// Wire gives the Runner the stages that it calls.
func (p *Runner) Wire(others Others) { p.others = others }

// SetMergers sets those that bring URLs to idle connections.
func (p *Runner) SetMergers(list []*Merger) { p.mergers = list }

// Merger describes the passes of one store to a Runner. It is the Waker of the store's stage.
type Merger struct {
	Passes  *Runner
	Name    string
	Pass    func(ctx context.Context, early bool) (int, error)
	Full    func() bool
	Pending func() int64
	Bytes   func() int64 // of the tuples that wait, on disk
	Keys    func() int64
	// early reports whether downstream needs URLs, so that an early pass is wanted.
	Early func() bool
	// starving reports whether fetchers are idle because they lack URLs that this pass could deliver.
	Starving func() bool
	// idle, if set, reports whether fetchers are idle and this pass has the URLs for them.
	Idle func() bool
	// urgent, if set, reports whether an enqueued URL waits for this pass.
	Urgent func() bool
	// cost predicts the duration of an early pass.
	Cost func() time.Duration
	Wake account.Signal

	// planned is the early pass that the stage's goroutine waits for or runs.
	planned atomic.Int32

	// patience is how long a pass waits for more tuples while fetchers are idle; filled is polite.Use.Filled
	// at the last pass. They belong to the stage's goroutine.
	patience time.Duration
	filled   int64
}

// hostShare is the share of the exchanges under way, 1/hostShare, that passes must add in hosts to be worth
// their while, and hostWorth the time of a pass that each of these hosts is worth. A cache of 10^6 URLs takes
// 10 ms if its keys are coded again: at 4 ms a host, its passes stop when they bring two hosts of several hundred.
const (
	hostShare = 16
	hostWorth = 4 * time.Millisecond
)

// learn adapts the patience to what the last pass has brought for its time. Where all hosts have URLs in RAM, more
// URLs keep no further connection busy, so passes over a few of them would only cost time.
func (m *Merger) learn(filled, exchanges int64, took time.Duration) {
	if gain := filled - m.filled; gain*hostShare <= exchanges || took > time.Duration(gain)*hostWorth {
		m.patience = min(max(2*m.patience, leastMerge), earlyPatience)
	} else if m.patience /= 4; m.patience < leastMerge {
		m.patience = 0
	}
	m.filled = filled
}

// These are the values of merger.planned.
const (
	noPass      int32 = iota
	patientPass       // fetchers have other URLs
	urgentPass
)

// Raise wakes the stage's goroutine if that would begin a pass now, or earlier than planned. Each page ends with
// a transaction that calls it, and most find nothing to do. What it overlooks waits for the pulse.
func (m *Merger) Raise() {
	if m.Pending() == 0 {
		return
	}
	if !m.Full() && !m.atOnce() {
		switch planned := m.planned.Load(); {
		case planned == urgentPass, planned == patientPass && !m.Starving(), planned == noPass && !m.Early():
			return
		}
	}
	m.Wake.Raise()
}

// atOnce reports whether a pass must not wait for the duration of the last one: that may have been long because a
// disk was busy, and nothing else has work. While the stock only waits for its hosts, this holds for passes of a few
// milliseconds: each page of a slow host could cause one.
func (m *Merger) atOnce() bool {
	return m.Passes.NothingLeft() || m.hurries() || m.Idle != nil && m.Idle() ||
		m.Passes.NothingInFlight() && m.Cost() <= cheapAtOnce
}

func (m *Merger) hurries() bool { return m.Urgent != nil && m.Urgent() }

// Run merges when a bucket is full, and earlier when m.early is true. If no URL is in flight, an early pass
// starts at once, unless it is not worthwhile (cheapEarly).
func (p *Runner) Run(ctx context.Context, m *Merger) error {
	var last, freed time.Time
	var took time.Duration
	for ctx.Err() == nil {
		m.planned.Store(noPass) // before the state is read, so that raise misses no change
		full := m.Full()
		wait := account.WakeAfter
		if pending := m.Pending(); !full && pending > 0 && m.Early() {
			planned := patientPass
			if m.Starving() {
				planned = urgentPass
			}
			wait = time.Until(p.earlyDue(m, pending, last, took))
			m.planned.Store(planned)
		}
		if !full && wait > 0 {
			// No pass is due, so no room is missing. Clear the reason here: during a pause of fetching
			// nothing arrives, so no other pass would clear a refused copy of sparse files.
			p.space.SetReason("merge "+m.Name, "")
			p.run.Await(ctx, m.Wake, wait)
			continue
		}
		began, tuples := time.Now(), m.Pending()
		if _, err := p.pass(ctx, m, !full); errors.Is(err, space.ErrNoRoom) {
			if err := p.space.NoRoom(ctx, m.Name, err, &freed); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return err
		}
		p.space.SetReason("merge "+m.Name, "")
		last = time.Now()
		took = max(leastMerge, last.Sub(began))
		m.learn(p.others.Filled(), p.others.Fetchers.Exchanges(), took)
		p.run.Times.Observe(snapshot.TimePass, last.Sub(began))
		p.opt.Log.Debug("pass", "store", m.Name, "tuples", tuples, "keys", m.Keys(), "took", last.Sub(began),
			"exchanges", p.others.Fetchers.Exchanges(), "stock", p.run.Accounts.Stock())
		p.others.Budgets.PassEnded()
		if p.run.Accounts.Stock() == 0 { // the merge may have ended the crawl
			p.run.WakeWatch.Raise()
		}
		p.run.Changed()
	}
	return nil
}

// pass runs a pass, if what it hands on fits.
func (p *Runner) pass(ctx context.Context, m *Merger, early bool) (int, error) {
	release, err := p.space.ReservePass(m.Name, m.Bytes())
	if err != nil {
		return 0, err
	}
	defer release()
	return m.Pass(ctx, early)
}

// earlyDue returns when an early pass over pending tuples may begin.
func (p *Runner) earlyDue(m *Merger, pending int64, last time.Time, took time.Duration) time.Time {
	rest, starving := earlyDuty*took, m.Starving()
	if starving { // the last pass may have taken long because of its tuples
		rest = earlyDuty * min(took, max(leastMerge, m.Cost(), time.Duration(m.Keys())*keyTime))
	}
	switch few := pending*EarlyShare < m.Keys(); {
	case few && starving:
		rest = max(rest, m.patience)
	case few:
		rest = max(rest, earlyPatience)
	case starving:
		rest = min(rest, mostRest)
	}
	due := last.Add(rest)
	now := time.Now()
	if m.atOnce() {
		due = now
	}
	if due.After(now) || pending >= m.Keys() {
		return due
	}
	if cost := m.Cost(); !Worthwhile(cost, pending) {
		due = last.Add(min(idleDuty*cost, idlePatience))
		if m.hurries() {
			due = last.Add(min(UrgentDuty*cost, UrgentPatience))
		}
	}
	return due
}

// Worthwhile reports whether tuples are worth a pass that takes cost.
func Worthwhile(cost time.Duration, tuples int64) bool {
	return cost <= cheapEarly+time.Duration(tuples)*tupleCost
}

// NothingLeft reports whether the stock is empty and no request for robots.txt is under way.
func (p *Runner) NothingLeft() bool { return p.run.Accounts.Stock() == 0 && p.others.Requests() == 0 }

// NothingInFlight reports whether no request is under way: nothing is left, or no URL of the stock is due.
func (p *Runner) NothingInFlight() bool {
	return p.NothingLeft() || p.others.Fetchers.Starved() && p.others.Requests() == 0
}

// Starving reports whether fetchers are idle because they lack URLs that a merge before BEAST could deliver.
func (p *Runner) Starving() bool {
	few := int64(p.opt.Connections) / 2
	return p.run.Accounts.In(state.PlaceRobotsCheck, state.PlaceReady) < few &&
		(p.others.Fetchers.Hungry() || p.run.Accounts.In(state.PlaceRAM) < few)
}

// StarvingForVerdicts reports whether fetchers are idle because they lack URLs that wait in RobotsCache.
func (p *Runner) StarvingForVerdicts() bool {
	few := int64(p.opt.Connections) / 2
	return p.run.Accounts.In(state.PlaceReady) < few &&
		(p.others.Fetchers.Hungry() || p.run.Accounts.In(state.PlaceRAM) < few)
}

// NeedsURLs reports whether the stock is low and BEAST runs low as well, or BEAST lacks the best URLs.
func (p *Runner) NeedsURLs() bool {
	return p.others.StockLow() && p.others.Budgets.RunsLow() || p.others.Budgets.BestDry()
}

// LackURLs wakes the stages that could bring URLs to idle connections.
func (p *Runner) LackURLs() {
	p.others.Budgets.Raise()
	for _, m := range p.mergers {
		m.Raise()
	}
}

func PendingTuples(d *drum.Drum) func() int64 { return func() int64 { n, _ := d.Pending(); return n } }

func PendingBytes(d *drum.Drum) func() int64 { return func() int64 { _, n := d.Pending(); return n } }
