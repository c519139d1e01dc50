package crawl

import (
	"cmp"
	"context"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/robots"
	"drumbeat/state"
)

// These are the values of Result.Stop.
const (
	StopDone      = "done"         // nothing is left to fetch
	StopCancelled = "stopped"      // the context was cancelled
	StopPages     = "page limit"   // Options.Limits.MaxPages
	StopTime      = "time limit"   // Options.Limits.MaxTime
	StopDisk      = space.StopDisk // Options.Limits.DiskBytes or KeepFree, with WhenFullStop
	StopDrained   = "drained"      // only new links were left, and draining does not queue them
	StopLeft      = "left"         // this node of a cluster takes part no more
	StopOutage    = "outage"       // nothing has answered for Options.Limits.OutagePatience

	stopErase = "erasing pages"                // then the crawl starts again, or it was cancelled
	stopTable = "changing the table of owners" // the same
)

// stopped returns the reason for which the stages were told to end.
func (c *crawler) stopped() string { return cmp.Or(c.StopReason(), StopCancelled) }

// watch ends the crawl when nothing is left or a limit is reached.
func (c *crawler) watch(ctx context.Context) error {
	for account.Sleep(ctx, watchEvery) && c.Await(ctx, c.WakeWatch, c.untilLimit()) {
		why := ""
		switch {
		case c.node.PagesReached():
			why = StopPages
		case c.opt.Limits.MaxTime > 0 && c.ActiveMillis() >= c.opt.Limits.MaxTime.Milliseconds():
			why = StopTime
		case c.outages.LastsTooLong(time.Now()):
			why = StopOutage
		case c.done():
			if why = StopDone; c.drains() {
				why = StopDrained
			}
		default:
			continue
		}
		c.Stop(why)
		return nil
	}
	return nil
}

// watchEvery is the least time between two checks for the end of the crawl. A check takes a microsecond
// while URLs are left.
const watchEvery = 10 * time.Millisecond

// untilLimit returns the time after which the crawl may end without any event: Options.Limits.MaxTime, Linger
// after the last progress, that for other nodes that start again, or the pause before this one agrees to the end again.
func (c *crawler) untilLimit() time.Duration {
	wait := account.WakeAfter
	if c.opt.Limits.MaxTime > 0 {
		wait = min(wait, max(time.Millisecond, c.opt.Limits.MaxTime-time.Duration(c.ActiveMillis())*time.Millisecond))
	}
	if linger := c.opt.Limits.Linger - c.IdleFor(); linger > 0 {
		wait = min(wait, linger)
	}
	if rejoining := c.node.Rejoining(); rejoining > 0 {
		wait = min(wait, rejoining)
	}
	if pausing := c.node.Pausing(); pausing > 0 {
		wait = min(wait, pausing)
	}
	return wait
}

// done reports whether nothing is left to fetch except URLs for which --linger does not wait. It looks at
// all places under the exclusive lock, so no URL is on its way between two of them.
func (c *crawler) done() bool {
	if c.node.Quiet() {
		return c.node.Concluded() // URLs that came due since are left
	}
	if c.Accounts.Stock() > 0 || c.space.Pausing() != "" || c.outages.Slowed() { // cheap checks first
		return false
	}
	c.TxLock.Lock()
	done := c.doneHere()
	if done {
		c.node.AgreeToEnd(func() bool { return c.walk.Idle() || c.drains() })
	}
	c.TxLock.Unlock()
	return done && c.node.Concluded()
}

// doneHere is done for this node of a cluster. The caller holds the transaction lock exclusively.
func (c *crawler) doneHere() bool {
	if c.Accounts.Stock() > 0 || c.space.Pausing() != "" || c.outages.Slowed() {
		return false
	}
	s := c.Accounts.Copy()
	if c.deferrals.HeldLeft() > 0 || (!c.seeds.Fed() || !c.watched.fed() || !c.operator.Fed()) && !c.drains() ||
		!c.budgets.UpstreamEmpty() || !c.requests.Empty() || !c.check.Empty() || !c.walk.Idle() && !c.drains() {
		return false
	}
	for _, p := range []state.Place{state.PlaceUnstreamed, state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck,
		state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM, state.PlaceContent} {
		if s.Places[p].N > 0 {
			return false
		}
	}
	if c.budgets.Scanning() {
		return false
	}
	overBudget, later := s.Places[state.PlaceOverBudget].N, s.Places[state.PlaceDeferred].N
	if overBudget == 0 && later == 0 {
		return !c.render.Pending()
	}
	if overBudget > 0 && !c.budgets.RescanUseless(&s) {
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
	if due, ok := c.deferrals.NextDue(now); ok && due.Sub(now) <= min(c.opt.Limits.Linger, robots.FirstRetry) {
		return false // an unreachable host is due for another attempt soon
	}
	if s.Deferred[state.ReasonRobotsUnavailable] > 0 && c.requests.Returning(now) {
		return false
	}
	return c.IdleFor() >= c.opt.Limits.Linger && !c.render.Pending()
}
