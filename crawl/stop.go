package crawl

import (
	"context"
	"sync/atomic"
	"time"

	"drumbeat/robots"
	"drumbeat/state"
)

// These are the values of Result.Stop.
const (
	StopDone      = "done"       // nothing is left to fetch
	StopCancelled = "stopped"    // the context was cancelled
	StopPages     = "page limit" // Options.MaxPages
	StopTime      = "time limit" // Options.MaxTime
	StopDisk      = "disk limit" // Options.DiskBytes or KeepFree, with WhenFullStop
	StopDrained   = "drained"    // only new links were left, and draining does not queue them
	StopOutage    = "outage"     // nothing has answered for Options.OutagePatience
)

// stopReason is the reason for which the stages were told to end.
type stopReason struct{ v atomic.Value }

func (s *stopReason) set(why string) { s.v.CompareAndSwap(nil, why) }

func (s *stopReason) get() string {
	if why, ok := s.v.Load().(string); ok {
		return why
	}
	return StopCancelled
}

// inFlight counts operations under way.
type inFlight struct{ n atomic.Int64 }

func (c *inFlight) add(n int64) { c.n.Add(n) }
func (c *inFlight) load() int64 { return c.n.Load() }

// watch ends the crawl when nothing is left or a limit is reached.
func (c *crawler) watch(ctx context.Context) error {
	for sleep(ctx, watchEvery) && c.await(ctx, c.wakeWatch, c.untilLimit()) {
		why := ""
		switch {
		case c.cluster.pagesReached():
			why = StopPages
		case c.opt.MaxTime > 0 && c.activeMillis() >= c.opt.MaxTime.Milliseconds():
			why = StopTime
		case c.outages.lastsTooLong(time.Now()):
			why = StopOutage
		case c.done():
			if why = StopDone; c.drains() {
				why = StopDrained
			}
		default:
			continue
		}
		c.stop.set(why)
		c.cancel()
		return nil
	}
	return nil
}

// watchEvery is the least time between two checks for the end of the crawl. A check takes a microsecond
// while URLs are left.
const watchEvery = 10 * time.Millisecond

// untilLimit returns the time after which the crawl may end without any event: Options.MaxTime, Linger
// after the last progress, that for other nodes that start again, or the pause before this one agrees to the end again.
func (c *crawler) untilLimit() time.Duration {
	wait := wakeAfter
	if c.opt.MaxTime > 0 {
		wait = min(wait, max(time.Millisecond, c.opt.MaxTime-time.Duration(c.activeMillis())*time.Millisecond))
	}
	if linger := c.opt.Linger - c.idleFor(); linger > 0 {
		wait = min(wait, linger)
	}
	if rejoining := c.cluster.rejoining(); rejoining > 0 {
		wait = min(wait, rejoining)
	}
	if pausing := c.cluster.pausing(); pausing > 0 {
		wait = min(wait, pausing)
	}
	return wait
}

// done reports whether nothing is left to fetch except URLs for which --linger does not wait. It looks at
// all places under the exclusive lock, so no URL is on its way between two of them.
func (c *crawler) done() bool {
	if c.cluster.quiet() {
		return c.cluster.concluded() // URLs that came due since are left
	}
	if c.acct.stock() > 0 || c.space.pausing() != "" || c.outages.slowed() { // cheap checks first
		return false
	}
	c.txLock.Lock()
	done := c.doneHere()
	if done {
		c.cluster.agreeToEnd()
	}
	c.txLock.Unlock()
	return done && c.cluster.concluded()
}

// doneHere is done for this node of a cluster. The caller holds the transaction lock exclusively.
func (c *crawler) doneHere() bool {
	if c.acct.stock() > 0 || c.space.pausing() != "" || c.outages.slowed() {
		return false
	}
	s := c.acct.copy()
	if c.deferrals.heldLeft() > 0 || (!c.seeds.fed() || !c.operator.fed()) && !c.drains() || !c.budgets.upstreamEmpty() ||
		!c.requests.empty() || !c.check.empty() || !c.walk.idle() && !c.drains() {
		return false
	}
	for _, p := range []state.Place{state.PlaceUnstreamed, state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck,
		state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM, state.PlaceContent} {
		if s.Places[p].N > 0 {
			return false
		}
	}
	if c.budgets.scanning() {
		return false
	}
	overBudget, later := s.Places[state.PlaceOverBudget].N, s.Places[state.PlaceDeferred].N
	if overBudget == 0 && later == 0 {
		return !c.render.pending()
	}
	if overBudget > 0 && !c.budgets.rescanUseless(&s) {
		return false
	}
	lingering := s.Lingering()
	if c.opt.Recrawl == nil { // visits that a former run scheduled
		lingering += s.Deferred[state.ReasonRevisit]
	}
	if later != lingering {
		return false
	}
	now := time.Now()
	if due, ok := c.deferrals.nextDue(now); ok && due.Sub(now) <= min(c.opt.Linger, robots.FirstRetry) {
		return false // an unreachable host is due for another attempt soon
	}
	if s.Deferred[state.ReasonRobotsUnavailable] > 0 && c.requests.comeBack.expected(now) {
		return false
	}
	return c.idleFor() >= c.opt.Linger && !c.render.pending()
}
