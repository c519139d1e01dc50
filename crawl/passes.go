package crawl

import (
	"context"
	"errors"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/drum"
)

// A merge that was not triggered by size rewrites the whole cache for what has come in since the last one. So it waits
// dryDuty times the last one's duration, which leaves three quarters of the disks' time to others; and, unless fetchers
// idle, until a part of the cache's size has come in or dryPatience has passed, which bounds the bytes.
const (
	earlyDuty     = 3
	earlyShare    = 8 // pending tuples are an eighth of the keys
	earlyPatience = 300 * time.Millisecond
)

// A merge for a few URLs, as they come back from their hosts' delays, would read or rewrite much for little, again and
// again as long as one slow host is left. So a merge that is not cheap (cheapDry, by its predicted duration) and would
// take more than tupleCost for each tuple waits until idleDuty times its duration has passed since the last one, which
// leaves the disks idle for 99 % of the time; idlePatience bounds the wait.
const (
	cheapEarly   = 20 * time.Millisecond
	tupleCost    = 10 * time.Millisecond
	idleDuty     = 100
	idlePatience = 10 * time.Minute
)

// leastMerge is what the shortest merge is taken to last.
const leastMerge = 2 * time.Millisecond

// passRunner decides when the passes of a repository are due. It runs in the goroutine of the repository's stage.
type passRunner struct {
	*engine
	budgets  *budgetStage
	requests *robotsRequests
	space    *space
	stock    *stockKeeper
}

// merger drives the merges of one store with stock's state in mind.
type merger struct {
	name    string
	pass    func(ctx context.Context, dry bool) (int, error)
	full    func() bool
	pending func() int64
	keys    func() int64
	// dry says that what is downstream runs low.
	early func() bool
	// starving says that fetchers idle for want of URLs that could come from this merge.
	starving func() bool
	// cost is how long a dry merge would take now.
	cost func() time.Duration
	wake signal
}

// run merges when the store is full, and before that when downstream runs low: at once if nothing is in flight.
func (p *passRunner) run(ctx context.Context, m merger) error {
	var last, freed time.Time
	var took time.Duration
	for ctx.Err() == nil {
		full := m.full()
		wait := wakeAfter
		if pending := m.pending(); !full && pending > 0 && m.early() {
			wait = time.Until(p.earlyDue(&m, pending, last, took))
		}
		if !full && wait > 0 {
			// It lacks no room if nothing is due. A copy of sparse files that was refused would keep its reason for ever: while fetching
			// rests nothing comes in, and no other pass clears it.
			p.space.short("merge "+m.name, "")
			p.await(ctx, m.wake, wait)
			continue
		}
		began := time.Now()
		if _, err := m.pass(ctx, !full); errors.Is(err, errNoRoom) {
			if err := p.space.noRoom(ctx, m.name, err, &freed); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return err
		}
		p.space.short("merge "+m.name, "")
		last = time.Now()
		took = max(leastMerge, last.Sub(began))
		p.budgets.passEnded()
		if p.acct.stock() == 0 { // it may have been the crawl's last
			p.wakeWatch.raise()
		}
		p.changed()
	}
	return nil
}

// earlyDue is when a dry merge of so many tuples may begin.
func (p *passRunner) earlyDue(m *merger, pending int64, last time.Time, took time.Duration) time.Time {
	due := last.Add(earlyDuty * took)
	if pending*earlyShare < m.keys() && !m.starving() {
		due = last.Add(max(earlyDuty*took, earlyPatience))
	}
	now := time.Now()
	if p.nothingInFlight() {
		due = now
	}
	if due.After(now) || pending >= m.keys() {
		return due
	}
	if cost := m.cost(); !worthwhile(cost, pending) {
		due = last.Add(min(idleDuty*cost, idlePatience))
	}
	return due
}

// worthwhile says whether so many tuples are worth a merge that takes so long.
func worthwhile(cost time.Duration, tuples int64) bool {
	return cost <= cheapEarly+time.Duration(tuples)*tupleCost
}

// nothingInFlight is true when no URL is in RAM, on its way there or being fetched.
func (p *passRunner) nothingInFlight() bool {
	return p.acct.stock() == 0 && p.requests.underWay() == 0
}

// starving is true when fetchers idle for want of URLs that could come from a merge before BEAST.
func (p *passRunner) starving() bool {
	return p.acct.in(state.PlaceRobotsCheck, state.PlaceReady, state.PlaceRAM) < int64(p.opt.Connections)/2
}

// starvingForVerdicts is true when they idle for want of those that wait in RobotsCache.
func (p *passRunner) starvingForVerdicts() bool {
	return p.acct.in(state.PlaceReady, state.PlaceRAM) < int64(p.opt.Connections)/2
}

// needsURLs is true when the stock is low and BEAST's current queue is read to its end, or all its queues together hold
// little.
func (p *passRunner) needsURLs() bool {
	return p.stock.stockLow() && p.budgets.runsLow()
}

func pendingTuples(d *drum.Drum) func() int64 {
	return func() int64 { n, _ := d.Pending(); return n }
}
