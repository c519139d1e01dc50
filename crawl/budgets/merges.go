package budgets

import (
	"time"

	"drumbeat/crawl/pass"
	"drumbeat/state"
)

// cheapMerge is the longest predicted duration of an early pass for which BEAST waits.
const cheapMerge = time.Second

// queuePause is the longest pause of BEAST, in host delays, from the start of one queue to the start of the
// next. During the pause each host gets its turn, the queue's URLs are fetched, and their links enter the
// next queues. Without it a PLD with endless URLs would receive its budget as fast as BEAST can read queues.
//
// A queue that takes longer to read needs no pause. The pause also ends when hosts are idle, or when the
// stock falls below aim.enough, because hosts would be idle next.
const queuePause = 4

// endOfQueue is the state of ReadBeast at the end of a queue.
type endOfQueue struct {
	on         bool
	seen, star int64     // passes that had ended when the end was reached
	since      time.Time // when the end was reached
	began      time.Time // when the queue's first URL could be read
}

// mergeFirst decides whether BEAST waits for upstream merges before it moves to its next queue. In a small
// crawl the queues are short, and a PLD with endless URLs would receive its budget in each of them. So
// BEAST first lets one merge of URLseen and one of STAR bring all known URLs into the next queue. When
// merges take long, queues are long as well, and BEAST does not wait.
//
// wait is the longest time to wait; 0 means do not wait.
func (b *Stage) mergeFirst(e *endOfQueue) (wait time.Duration) {
	if !b.Beast.AtEnd() {
		e.on = false
		return 0
	}
	now := time.Now()
	if !e.on {
		*e = endOfQueue{on: true, seen: b.seen.PassesEnded(), star: b.starMerges.Load(), since: now, began: e.began}
	}
	if b.opt.Strategy.Load().SitesAtOnce > 0 {
		return b.finishSites(now.Sub(e.since))
	}
	pause := queuePause * b.opt.HostDelay
	if since, a := now.Sub(e.began), b.stock.Aim(); since < pause && !a.Idle && b.run.Accounts.Stock() >= a.Enough {
		return pause - since // the paper means one budget for each queue crawled, not for each queue read
	}
	wait = pause + 2*cheapMerge - now.Sub(e.since)
	if wait <= 0 || b.Beast.Scanning() || b.littleToMerge() {
		return 0
	}
	if n := b.seen.Pending(); n > 0 && b.seen.PassesEnded() == e.seen {
		if cost := b.seen.PassCost(); cost >= cheapMerge || !pass.Worthwhile(cost, n) {
			return 0
		}
		return wait
	}
	if n := b.Star.PendingChecks(); n > 0 && b.starMerges.Load() == e.star {
		if _, st := b.Star.Stats(); pass.Worthwhile(st.PredictedEarly, n) {
			return wait
		}
	}
	return 0
}

// leastNews is the least share of the links upstream in the URLs of BEAST's queues for which BEAST waits.
const leastNews = 1. / 8

// littleToMerge reports whether the merges upstream could bring so few URLs that the next queue is complete
// enough without them, or that fetchers would be idle for them although BEAST has URLs.
func (b *Stage) littleToMerge() bool {
	queued := b.run.Accounts.In(state.PlaceBeast)
	if news := b.seen.Pending() + b.Star.PendingChecks(); float64(news) < leastNews*float64(queued) {
		return true
	}
	return b.run.Accounts.Stock() < int64(b.opt.Network.Connections) && queued > b.stock.Aim().Target
}
