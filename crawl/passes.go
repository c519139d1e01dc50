package crawl

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// An early pass may rewrite the whole cache for the tuples that have arrived since the last pass. It waits
// earlyDuty times the duration of the last pass, which leaves three quarters of the disks' time for other
// work. Unless fetchers are idle, it also waits until 1/earlyShare of the cache's size has arrived or
// earlyPatience has passed. This limits the bytes written.
const (
	earlyDuty     = 3
	earlyShare    = 8 // pending tuples are at least an eighth of the keys
	earlyPatience = 300 * time.Millisecond
)

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
	urgentDuty     = 10
	urgentPatience = time.Minute
)

// leastMerge is the duration assumed for shorter merges.
const leastMerge = 2 * time.Millisecond

// passRunner decides when the passes of a repository are due. Its methods run in the goroutine of the
// repository's stage.
type passRunner struct {
	*engine
	budgets  *budgetStage
	requests *robotsRequests
	space    *space
	stock    *stockKeeper
	mergers  []*merger // between a link and RAM
}

// merger describes the passes of one store to passRunner. It is the waker of the store's stage.
type merger struct {
	passes  *passRunner
	name    string
	pass    func(ctx context.Context, early bool) (int, error)
	full    func() bool
	pending func() int64
	bytes   func() int64 // of the tuples that wait, on disk
	keys    func() int64
	// early reports whether downstream needs URLs, so that an early pass is wanted.
	early func() bool
	// starving reports whether fetchers are idle because they lack URLs that this pass could deliver.
	starving func() bool
	// idle, if set, reports whether fetchers are idle and this pass has the URLs for them.
	idle func() bool
	// urgent, if set, reports whether an enqueued URL waits for this pass.
	urgent func() bool
	// cost predicts the duration of an early pass.
	cost func() time.Duration
	wake signal

	// planned is the early pass that the stage's goroutine waits for or runs.
	planned atomic.Int32

	// patience is how long a pass waits for more tuples while fetchers are idle; filled is polite.Use.Filled at the last
	// pass. They belong to the stage's goroutine.
	patience time.Duration
	filled   int64
}

// hostShare is the share of the exchanges under way, 1/hostShare, that passes must add in hosts to be worth their while.
const hostShare = 16

// learn adapts the patience to what the last pass has brought. Where all hosts have URLs in RAM, more URLs keep no further
// connection busy, so passes over a few of them would only cost time.
func (m *merger) learn(filled, exchanges int64) {
	if gain := filled - m.filled; gain*hostShare <= exchanges {
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

// waker wakes a stage after a transaction.
type waker interface{ raise() }

// raise wakes the stage's goroutine if that would begin a pass now, or earlier than planned. Each page ends with
// a transaction that calls it, and most find nothing to do. What it overlooks waits for the pulse.
func (m *merger) raise() {
	if m.pending() == 0 {
		return
	}
	if !m.full() && !m.atOnce() {
		switch planned := m.planned.Load(); {
		case planned == urgentPass, planned == patientPass && !m.starving(), planned == noPass && !m.early():
			return
		}
	}
	m.wake.raise()
}

// atOnce reports whether a pass must not wait for the duration of the last one: that may have been long because a
// disk was busy, and nothing else has work. While the stock only waits for its hosts, this holds for passes of a few
// milliseconds: each page of a slow host could cause one.
func (m *merger) atOnce() bool {
	return m.passes.nothingLeft() || m.hurries() || m.idle != nil && m.idle() || m.passes.nothingInFlight() && m.cost() <= cheapAtOnce
}

func (m *merger) hurries() bool { return m.urgent != nil && m.urgent() }

// run merges when a bucket is full, and earlier when m.early is true. If no URL is in flight, an early pass
// starts at once, unless it is not worthwhile (cheapEarly).
func (p *passRunner) run(ctx context.Context, m *merger) error {
	var last, freed time.Time
	var took time.Duration
	for ctx.Err() == nil {
		m.planned.Store(noPass) // before the state is read, so that raise misses no change
		full := m.full()
		wait := wakeAfter
		if pending := m.pending(); !full && pending > 0 && m.early() {
			plan := patientPass
			if m.starving() {
				plan = urgentPass
			}
			wait = time.Until(p.earlyDue(m, pending, last, took))
			m.planned.Store(plan)
		}
		if !full && wait > 0 {
			// No pass is due, so no room is missing. Clear the reason here: during a pause of fetching
			// nothing arrives, so no other pass would clear a refused copy of sparse files.
			p.space.setReason("merge "+m.name, "")
			p.await(ctx, m.wake, wait)
			continue
		}
		began, tuples := time.Now(), m.pending()
		if _, err := p.pass(ctx, m, !full); errors.Is(err, errNoRoom) {
			if err := p.space.noRoom(ctx, m.name, err, &freed); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return err
		}
		p.space.setReason("merge "+m.name, "")
		last = time.Now()
		took = max(leastMerge, last.Sub(began))
		m.learn(p.polite.Use().Filled, p.workers.exchanges.load())
		p.times.observe(snapshot.TimePass, last.Sub(began))
		p.opt.Observe.Log.Debug("pass", "store", m.name, "tuples", tuples, "keys", m.keys(), "took", last.Sub(began),
			"exchanges", p.workers.exchanges.load(), "stock", p.acct.stock())
		p.budgets.passEnded()
		if p.acct.stock() == 0 { // the merge may have ended the crawl
			p.wakeWatch.raise()
		}
		p.changed()
	}
	return nil
}

// pass runs a pass, if what it hands on fits.
func (p *passRunner) pass(ctx context.Context, m *merger, early bool) (int, error) {
	release, err := p.space.reservePass(m.name, m.bytes())
	if err != nil {
		return 0, err
	}
	defer release()
	return m.pass(ctx, early)
}

// earlyDue returns when an early pass over pending tuples may begin.
func (p *passRunner) earlyDue(m *merger, pending int64, last time.Time, took time.Duration) time.Time {
	patience := time.Duration(0)
	if pending*earlyShare < m.keys() {
		if patience = earlyPatience; m.starving() {
			patience = m.patience
		}
	}
	due := last.Add(max(earlyDuty*took, patience))
	now := time.Now()
	if m.atOnce() {
		due = now
	}
	if due.After(now) || pending >= m.keys() {
		return due
	}
	if cost := m.cost(); !worthwhile(cost, pending) {
		due = last.Add(min(idleDuty*cost, idlePatience))
		if m.hurries() {
			due = last.Add(min(urgentDuty*cost, urgentPatience))
		}
	}
	return due
}

// worthwhile reports whether tuples are worth a pass that takes cost.
func worthwhile(cost time.Duration, tuples int64) bool {
	return cost <= cheapEarly+time.Duration(tuples)*tupleCost
}

// nothingLeft reports whether the stock is empty and no request for robots.txt is under way.
func (p *passRunner) nothingLeft() bool { return p.acct.stock() == 0 && p.requests.underWay() == 0 }

// nothingInFlight reports whether no request is under way: nothing is left, or no URL of the stock is due.
func (p *passRunner) nothingInFlight() bool {
	return p.nothingLeft() || p.workers.starved() && p.requests.underWay() == 0
}

// starving reports whether fetchers are idle because they lack URLs that a merge before BEAST could
// deliver.
func (p *passRunner) starving() bool {
	few := int64(p.opt.Network.Connections) / 2
	return p.acct.in(state.PlaceRobotsCheck, state.PlaceReady) < few && (p.workers.hungry() || p.acct.in(state.PlaceRAM) < few)
}

// starvingForVerdicts reports whether fetchers are idle because they lack URLs that wait in RobotsCache.
func (p *passRunner) starvingForVerdicts() bool {
	few := int64(p.opt.Network.Connections) / 2
	return p.acct.in(state.PlaceReady) < few && (p.workers.hungry() || p.acct.in(state.PlaceRAM) < few)
}

// needsURLs reports whether the stock is low and BEAST runs low as well, or BEAST lacks the best URLs.
func (p *passRunner) needsURLs() bool {
	return p.stock.stockLow() && p.budgets.runsLow() || p.budgets.bestDry()
}

// lackURLs wakes the stages that could bring URLs to idle connections.
func (p *passRunner) lackURLs() {
	p.budgets.raise()
	for _, m := range p.mergers {
		m.raise()
	}
}

func pendingTuples(d *drum.Drum) func() int64 {
	return func() int64 { n, _ := d.Pending(); return n }
}

func pendingBytes(d *drum.Drum) func() int64 {
	return func() int64 { _, n := d.Pending(); return n }
}
