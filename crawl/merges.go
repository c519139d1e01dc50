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
func (c *crawler) run(ctx context.Context, m merger) error {
	var last, freed time.Time
	var took time.Duration
	for ctx.Err() == nil {
		full := m.full()
		wait := wakeAfter
		if pending := m.pending(); !full && pending > 0 && m.early() {
			wait = time.Until(c.earlyDue(&m, pending, last, took))
		}
		if !full && wait > 0 {
			// It lacks no room if nothing is due. A copy of sparse files that was refused would keep its reason for ever: while fetching
			// rests nothing comes in, and no other pass clears it.
			c.space.short("merge "+m.name, "")
			c.await(ctx, m.wake, wait)
			continue
		}
		began := time.Now()
		if _, err := m.pass(ctx, !full); errors.Is(err, errNoRoom) {
			if err := c.noRoom(ctx, m.name, err, &freed); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return err
		}
		c.space.short("merge "+m.name, "")
		last = time.Now()
		took = max(leastMerge, last.Sub(began))
		c.wakeBeast.raise()      // its next queue was pinned, or waited for, until the merge's end
		if c.acct.stock() == 0 { // it may have been the crawl's last
			c.wakeWatch.raise()
		}
		c.changed()
	}
	return nil
}

// earlyDue is when a dry merge of so many tuples may begin.
func (c *crawler) earlyDue(m *merger, pending int64, last time.Time, took time.Duration) time.Time {
	due := last.Add(earlyDuty * took)
	if pending*earlyShare < m.keys() && !m.starving() {
		due = last.Add(max(earlyDuty*took, earlyPatience))
	}
	now := time.Now()
	if c.nothingInFlight() {
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
func (c *crawler) nothingInFlight() bool { return c.acct.stock() == 0 && c.robotsJobs.len() == 0 }

// starving is true when fetchers idle for want of URLs that could come from a merge before BEAST.
func (c *crawler) starving() bool {
	return c.acct.in(state.PlaceRobotsCheck, state.PlaceReady, state.PlaceRAM) < int64(c.opt.Connections)/2
}

// starvingForVerdicts is true when they idle for want of those that wait in RobotsCache.
func (c *crawler) starvingForVerdicts() bool {
	return c.acct.in(state.PlaceReady, state.PlaceRAM) < int64(c.opt.Connections)/2
}

// needsURLs is true when the stock is low and BEAST's current queue is read to its end, or all its queues together hold
// little.
func (c *crawler) needsURLs() bool {
	return c.stockLow() &&
		(c.beast.AtEnd() || c.acct.in(state.PlaceBeast) < int64(c.opt.Connections))
}

func pendingTuples(d *drum.Drum) func() int64 {
	return func() int64 { n, _ := d.Pending(); return n }
}

func (c *crawler) mergeSeen(ctx context.Context) error {
	return c.run(ctx, merger{
		name: state.NameURLSeen,
		pass: func(ctx context.Context, dry bool) (int, error) {
			if !dry {
				c.fullPasses.Add(1)
			}
			n, err := c.measured(func() (int, error) { return c.urlSeen.Pass(ctx, dry) })
			c.seenMerges.Add(1)
			return n, err
		},
		full:    c.urlSeen.Full,
		pending: pendingTuples(c.urlSeen),
		keys:    c.urlSeen.Keys,
		cost:    func() time.Duration { return c.urlSeen.Stats().PredictedEarly },
		early:   func() bool { return c.needsURLs() && c.star.PendingChecks() == 0 }, starving: c.starving,
		wake: c.wakeSeen,
	})
}

func (c *crawler) mergeStar(ctx context.Context) error {
	return c.run(ctx, merger{
		name: state.NameStar,
		pass: func(ctx context.Context, dry bool) (int, error) {
			n, err := c.star.Pass(ctx, dry)
			c.starMerges.Add(1)
			return n, err
		},
		full:    c.star.Full,
		pending: c.star.PendingChecks,
		keys:    c.star.NumPLDs,
		cost: func() time.Duration {
			_, indegree := c.star.Stats()
			return indegree.PredictedEarly
		},
		early: c.needsURLs, starving: c.starving,
		wake: c.wakeStar,
	})
}

func (c *crawler) mergeRobotsCache(ctx context.Context) error {
	low := int64(2 * c.opt.Connections)
	return c.run(ctx, merger{
		name: state.NameRobotsCache,
		pass: func(ctx context.Context, dry bool) (int, error) {
			c.roundNow.Store(time.Now().Unix())
			return c.robotsCache.Pass(ctx, dry)
		},
		full:    c.robotsCache.Full,
		pending: pendingTuples(c.robotsCache),
		keys:    c.robotsCache.Keys,
		cost:    func() time.Duration { return c.robotsCache.Stats().PredictedEarly },
		early: func() bool {
			return c.acct.in(state.PlaceReady, state.PlaceRAM) < low || c.workers.exchanges.load() < int64(c.opt.Connections)/2 ||
				c.aim().idle
		},
		starving: c.starvingForVerdicts,
		wake:     c.wakeRobots,
	})
}

func (c *crawler) mergeRobotsRequested(ctx context.Context) error {
	return c.run(ctx, merger{
		name: state.NameRobotsRequested,
		pass: func(ctx context.Context, dry bool) (int, error) {
			c.requestedNow.Store(time.Now().Unix())
			mark := c.waiting.beginPass()
			n, err := c.robotsRequested.Pass(ctx, dry)
			if err == nil && dry { // one by size leaves the buckets that aren't full
				c.waiting.endPass(mark, c.robotsJobs.issued())
				c.wakeAwaiting.raise()
			}
			return n, err
		},
		full:    c.robotsRequested.Full,
		pending: pendingTuples(c.robotsRequested),
		keys:    c.robotsRequested.Keys,
		cost:    func() time.Duration { return c.robotsRequested.Stats().PredictedEarly },
		early:   func() bool { return c.robotsJobs.len() < c.opt.RobotsInFlight }, starving: c.starving,
		wake: c.wakeRequested,
	})
}

// cheapMerge is the longest predicted duration of a dry merge for which BEAST waits.
const cheapMerge = time.Second

// queuePause is for how many host delays BEAST waits at most, from the beginning of a queue to that of the next, for its URLs to be
// fetched. In that time each host gets its turn, and what the pages link to goes into the next queues. A PLD with endless URLs
// would otherwise get its budget as fast as queues can be read. A queue that takes longer to be read needs no such pause, and it
// ends when there are hardly more URLs than hosts that rest after a visit (aim.enough): those would be idle next; or when hosts idle.
const queuePause = 4

// endOfQueue is what readBeast remembers of a queue that it has read to the end.
type endOfQueue struct {
	on         bool
	seen, star int64     // merges ended by then
	since      time.Time // when that was
	began      time.Time // when its first URL could be read
}

// mergeFirst says whether BEAST lets what is upstream be merged before it moves to its next queue. While a crawl is small
// its queues are short, and a PLD with endless URLs would get its budget in each of them; so all that is known goes into
// the next queue before it is read: one merge of URLseen and one of STAR. When merges take long, queues are long as well,
// and BEAST doesn't wait. wait is for how long at most; 0 for not at all.
func (c *crawler) mergeFirst(e *endOfQueue) (wait time.Duration) {
	if !c.beast.AtEnd() {
		e.on = false
		return 0
	}
	now := time.Now()
	if !e.on {
		*e = endOfQueue{on: true, seen: c.seenMerges.Load(), star: c.starMerges.Load(), since: now, began: e.began}
	}
	pause := queuePause * c.opt.HostDelay
	if since, a := now.Sub(e.began), c.aim(); since < pause && !a.idle && c.acct.stock() >= a.enough {
		return pause - since // the paper's budget is for the time that a queue takes to be crawled, not to be read
	}
	wait = pause + 2*cheapMerge - now.Sub(e.since)
	if wait <= 0 || c.beast.Scanning() {
		return 0
	}
	if n, _ := c.urlSeen.Pending(); n > 0 && c.seenMerges.Load() == e.seen {
		if cost := c.urlSeen.Stats().PredictedEarly; cost >= cheapMerge || !worthwhile(cost, n) {
			return 0
		}
		return wait
	}
	if n := c.star.PendingChecks(); n > 0 && c.starMerges.Load() == e.star {
		if _, st := c.star.Stats(); worthwhile(st.PredictedEarly, n) {
			return wait
		}
	}
	return 0
}
