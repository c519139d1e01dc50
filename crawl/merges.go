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
	dryDuty     = 3
	dryShare    = 8 // pending tuples are an eighth of the keys
	dryPatience = 300 * time.Millisecond
)

// A merge for a few URLs, as they come back from their hosts' delays, would read or rewrite much for little, again and
// again as long as one slow host is left. So a merge that is not cheap (cheapDry, by its predicted duration) and would
// take more than tupleCost for each tuple waits until idleDuty times its duration has passed since the last one, which
// leaves the disks idle for 99 % of the time; idlePatience bounds the wait.
const (
	cheapDry     = 20 * time.Millisecond
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
	dry func() bool
	// starving says that fetchers idle for want of URLs that could come from this merge.
	starving func() bool
	// cost is how long a dry merge would take now.
	cost func() time.Duration
	wake signal
}

// run merges when the store is full, and before that when downstream runs low: at once if nothing is in flight.
func (r *ring) run(ctx context.Context, m merger) error {
	var last, freed time.Time
	var took time.Duration
	for ctx.Err() == nil {
		full := m.full()
		wait := wakeAfter
		if pending := m.pending(); !full && pending > 0 && m.dry() {
			wait = time.Until(r.dryDue(&m, pending, last, took))
		}
		if !full && wait > 0 {
			// It lacks no room if nothing is due. A copy of sparse files that was refused would keep its reason for ever: while fetching
			// rests nothing comes in, and no other pass clears it.
			r.space.short("merge "+m.name, "")
			r.await(ctx, m.wake, wait)
			continue
		}
		began := time.Now()
		if _, err := m.pass(ctx, !full); errors.Is(err, errNoRoom) {
			if err := r.noRoom(ctx, m.name, err, &freed); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return err
		}
		r.space.short("merge "+m.name, "")
		last = time.Now()
		took = max(leastMerge, last.Sub(began))
		r.wakeBeast.raise()      // its next queue was pinned, or waited for, until the merge's end
		if r.acct.stock() == 0 { // it may have been the crawl's last
			r.wakeWatch.raise()
		}
		r.changed()
	}
	return nil
}

// dryDue is when a dry merge of so many tuples may begin.
func (r *ring) dryDue(m *merger, pending int64, last time.Time, took time.Duration) time.Time {
	due := last.Add(dryDuty * took)
	if pending*dryShare < m.keys() && !m.starving() {
		due = last.Add(max(dryDuty*took, dryPatience))
	}
	now := time.Now()
	if r.nothingInFlight() {
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
	return cost <= cheapDry+time.Duration(tuples)*tupleCost
}

// nothingInFlight is true when no URL is in RAM, on its way there or being fetched.
func (r *ring) nothingInFlight() bool { return r.acct.stock() == 0 && r.robotsJobs.len() == 0 }

// starving is true when fetchers idle for want of URLs that could come from a merge before BEAST.
func (r *ring) starving() bool {
	return r.acct.in(state.PlaceRobotsCheck, state.PlaceReady, state.PlaceRAM) < int64(r.opt.Connections)/2
}

// starvingForVerdicts is true when they idle for want of those that wait in RobotsCache.
func (r *ring) starvingForVerdicts() bool {
	return r.acct.in(state.PlaceReady, state.PlaceRAM) < int64(r.opt.Connections)/2
}

// hungry is true when the stock is low and BEAST's current queue is read to its end, or all its queues together hold
// little.
func (r *ring) hungry() bool {
	return r.stockLow() &&
		(r.beast.AtEnd() || r.acct.in(state.PlaceBeast) < int64(r.opt.Connections))
}

func pendingTuples(d *drum.Drum) func() int64 {
	return func() int64 { n, _ := d.Pending(); return n }
}

func (r *ring) mergeSeen(ctx context.Context) error {
	return r.run(ctx, merger{
		name: state.NameURLSeen,
		pass: func(ctx context.Context, dry bool) (int, error) {
			if !dry {
				r.fullPasses.Add(1)
			}
			n, err := r.measured(func() (int, error) { return r.urlSeen.Pass(ctx, dry) })
			r.seenMerges.Add(1)
			return n, err
		},
		full:    r.urlSeen.Full,
		pending: pendingTuples(r.urlSeen),
		keys:    r.urlSeen.Keys,
		cost:    func() time.Duration { return r.urlSeen.Stats().PredictedDry },
		dry:     func() bool { return r.hungry() && r.star.PendingChecks() == 0 }, starving: r.starving,
		wake: r.wakeSeen,
	})
}

func (r *ring) mergeStar(ctx context.Context) error {
	return r.run(ctx, merger{
		name: state.NameStar,
		pass: func(ctx context.Context, dry bool) (int, error) {
			n, err := r.star.Pass(ctx, dry)
			r.starMerges.Add(1)
			return n, err
		},
		full:    r.star.Full,
		pending: r.star.PendingChecks,
		keys:    r.star.NumPLDs,
		cost: func() time.Duration {
			_, indegree := r.star.Stats()
			return indegree.PredictedDry
		},
		dry: r.hungry, starving: r.starving,
		wake: r.wakeStar,
	})
}

func (r *ring) mergeRobotsCache(ctx context.Context) error {
	low := int64(2 * r.opt.Connections)
	return r.run(ctx, merger{
		name: state.NameRobotsCache,
		pass: func(ctx context.Context, dry bool) (int, error) {
			r.roundNow.Store(time.Now().Unix())
			return r.robotsCache.Pass(ctx, dry)
		},
		full:    r.robotsCache.Full,
		pending: pendingTuples(r.robotsCache),
		keys:    r.robotsCache.Keys,
		cost:    func() time.Duration { return r.robotsCache.Stats().PredictedDry },
		dry: func() bool {
			return r.acct.in(state.PlaceReady, state.PlaceRAM) < low || r.workers.exchanges.load() < int64(r.opt.Connections)/2 ||
				r.aim().idle
		},
		starving: r.starvingForVerdicts,
		wake:     r.wakeRobots,
	})
}

func (r *ring) mergeRobotsRequested(ctx context.Context) error {
	return r.run(ctx, merger{
		name: state.NameRobotsRequested,
		pass: func(ctx context.Context, dry bool) (int, error) {
			r.requestedNow.Store(time.Now().Unix())
			mark := r.waiting.beginPass()
			n, err := r.robotsRequested.Pass(ctx, dry)
			if err == nil && dry { // one by size leaves the buckets that aren't full
				r.waiting.endPass(mark, r.robotsJobs.issued())
				r.wakeAwaiting.raise()
			}
			return n, err
		},
		full:    r.robotsRequested.Full,
		pending: pendingTuples(r.robotsRequested),
		keys:    r.robotsRequested.Keys,
		cost:    func() time.Duration { return r.robotsRequested.Stats().PredictedDry },
		dry:     func() bool { return r.robotsJobs.len() < r.opt.RobotsInFlight }, starving: r.starving,
		wake: r.wakeRequested,
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
func (r *ring) mergeFirst(e *endOfQueue) (wait time.Duration) {
	if !r.beast.AtEnd() {
		e.on = false
		return 0
	}
	now := time.Now()
	if !e.on {
		*e = endOfQueue{on: true, seen: r.seenMerges.Load(), star: r.starMerges.Load(), since: now, began: e.began}
	}
	pause := queuePause * r.opt.HostDelay
	if since, a := now.Sub(e.began), r.aim(); since < pause && !a.idle && r.acct.stock() >= a.enough {
		return pause - since // the paper's budget is for the time that a queue takes to be crawled, not to be read
	}
	wait = pause + 2*cheapMerge - now.Sub(e.since)
	if wait <= 0 || r.beast.Scanning() {
		return 0
	}
	if n, _ := r.urlSeen.Pending(); n > 0 && r.seenMerges.Load() == e.seen {
		if cost := r.urlSeen.Stats().PredictedDry; cost >= cheapMerge || !worthwhile(cost, n) {
			return 0
		}
		return wait
	}
	if n := r.star.PendingChecks(); n > 0 && r.starMerges.Load() == e.star {
		if _, st := r.star.Stats(); worthwhile(st.PredictedDry, n) {
			return wait
		}
	}
	return 0
}
