package crawl

import (
	"context"
	"sync/atomic"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/robots"
)

// Reasons for the end of Run.
const (
	StopDone      = "done"       // nothing is left to fetch
	StopCancelled = "stopped"    // the context was cancelled
	StopPages     = "page limit" // Options.MaxPages
	StopTime      = "time limit" // Options.MaxTime
	StopDisk      = "disk limit" // Options.DiskBytes or KeepFree, with WhenFullStop
	StopDrained   = "drained"    // nothing that was queued is left to fetch; new links were not queued
)

// stopReason is why the movers were told to end.
type stopReason struct{ v atomic.Value }

func (s *stopReason) set(why string) { s.v.CompareAndSwap(nil, why) }

func (s *stopReason) get() string {
	if why, ok := s.v.Load().(string); ok {
		return why
	}
	return StopCancelled
}

// inFlight counts things under way.
type inFlight struct{ n atomic.Int64 }

func (c *inFlight) add(n int64) { c.n.Add(n) }
func (c *inFlight) load() int64 { return c.n.Load() }

// scanMemory remembers what the last scan of QF was for, so that a QF of hopeless URLs isn't read again and again.
type scanMemory struct {
	fetched atomic.Int64 // responses when the last idle scan began; -1 before the first
	edges   atomic.Int64
}

// touch notes progress: a URL ended.
func (r *ring) touch() { r.lastProgress.Store(int64(time.Since(r.began))) }

// idleFor is how long there has been no progress, whatever was done to the clock.
func (r *ring) idleFor() time.Duration {
	return time.Since(r.began) - time.Duration(r.lastProgress.Load())
}

func (r *ring) counter(c state.Counter) int64 {
	r.acct.mu.Lock()
	defer r.acct.mu.Unlock()
	return r.acct.s.Counters[c]
}

// scanShare is how many URLs of QF may be read again for each page fetched since the last scan.
const scanShare = 64

// scanDue says whether QF is to be read: when BEAST's distance says so, or when BEAST has run empty and something has
// changed since the last such scan. After a scan a PLD with a budget has URLs in all of BEAST's queues, so that the next
// one comes by distance; what is left in QF for longer are PLDs without a budget. They are read again when many pages
// were fetched, or for a last time when nothing else is left.
func (r *ring) scanDue() bool {
	if r.acct.in(state.PlaceFailed) == 0 {
		return false
	}
	if r.beast.ScanDue() {
		return true
	}
	if r.acct.in(state.PlaceBeast, state.PlaceStar) > 0 || !r.hungry() || !r.upstreamEmpty() {
		return false
	}
	fetched, edges := r.counter(state.CountResponses), r.counter(state.CountEdges)
	if r.scanned.fetched.Load() == fetched && r.scanned.edges.Load() == edges {
		return false
	}
	if last := r.scanned.fetched.Load(); last >= 0 && (fetched-last)*scanShare < r.acct.in(state.PlaceFailed) && !r.onlyFailedLeft() {
		return false
	}
	r.scanned.fetched.Store(fetched)
	r.scanned.edges.Store(edges)
	return true
}

// onlyFailedLeft is true when there is nothing to fetch outside of QF but what hosts without a robots.txt, and hosts that rest for long,
// keep back.
func (r *ring) onlyFailedLeft() bool {
	s := r.acct.copy()
	return r.acct.stock() == 0 && s.Places[state.PlaceLater].N == s.Lingering() && r.robotsJobs.len() == 0
}

// upstreamEmpty is true when no link waits in front of BEAST.
func (r *ring) upstreamEmpty() bool {
	n, _ := r.urlSeen.Pending()
	return n == 0 && r.star.PendingChecks() == 0
}

// watch ends the crawl when it is done or a limit is reached.
func (r *ring) watch(ctx context.Context) error {
	for sleep(ctx, watchEvery) && r.await(ctx, r.wakeWatch, r.untilLimit()) {
		why := ""
		switch {
		case r.opt.MaxPages > 0 && r.counter(state.CountPages) >= r.opt.MaxPages:
			why = StopPages
		case r.opt.MaxTime > 0 && r.activeMillis() >= r.opt.MaxTime.Milliseconds():
			why = StopTime
		case r.done():
			if why = StopDone; r.draining.Load() {
				why = StopDrained
			}
		default:
			continue
		}
		r.stop.set(why)
		r.cancel()
		return nil
	}
	return nil
}

// watchEvery is the least time between two looks for the crawl's end, which cost a microsecond while URLs are left.
const watchEvery = 10 * time.Millisecond

// untilLimit is how long it is till the crawl may end though nothing happens: Options.MaxTime, or Linger after the last
// progress.
func (r *ring) untilLimit() time.Duration {
	wait := wakeAfter
	if r.opt.MaxTime > 0 {
		wait = min(wait, max(time.Millisecond, r.opt.MaxTime-time.Duration(r.activeMillis())*time.Millisecond))
	}
	if linger := r.opt.Linger - r.idleFor(); linger > 0 {
		wait = min(wait, linger)
	}
	return wait
}

// done says whether nothing is left to fetch, or only what --linger does not wait for. It looks at all places under the
// exclusive lock, so that no URL is on its way between two of them.
func (r *ring) done() bool {
	if r.acct.stock() > 0 || r.space.why() != "" || r.slowed() { // cheap looks first
		return false
	}
	r.step.Lock()
	defer r.step.Unlock()
	s := r.acct.copy()
	if r.heldState.Left > 0 || !r.seeds.state.Done && !r.draining.Load() || !r.upstreamEmpty() || r.robotsJobs.len() > 0 {
		return false
	}
	if n, _ := r.robotsFetch.Len(); n > 0 {
		return false
	}
	if n, _ := r.robotsLater.Len(); n > 0 {
		return false
	}
	if n, _ := r.robotsRequested.Pending(); n > 0 {
		return false
	}
	if n, _ := r.robotsCache.Pending(); n > 0 {
		return false
	}
	for _, p := range []state.Place{state.PlaceUnstreamed, state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck, state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM} {
		if s.Places[p].N > 0 {
			return false
		}
	}
	if r.beast.Scanning() {
		return false
	}
	failed, later := s.Places[state.PlaceFailed].N, s.Places[state.PlaceLater].N
	if failed == 0 && later == 0 {
		return true
	}
	if failed > 0 && !r.hopeless(&s) {
		return false
	}
	if later != s.Lingering() {
		return false
	}
	now := time.Now()
	if due, ok := r.later.NextDue(now); ok && due.Sub(now) <= min(r.opt.Linger, robots.FirstRetry) {
		return false // an unreachable host is about to be asked again
	}
	return r.idleFor() >= r.opt.Linger
}

// hopeless is true when a scan of QF brought nothing and nothing has happened since.
func (r *ring) hopeless(s *state.Accounts) bool {
	return r.scanned.fetched.Load() == s.Counters[state.CountResponses] && r.scanned.edges.Load() == s.Counters[state.CountEdges]
}
