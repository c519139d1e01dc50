package crawl

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/weburl"
)

// emitPlaced takes what STAR has given a budget and a queue number, into BEAST.
func (b *budgetStage) emitPlaced(placed []star.Placed) error {
	b.testHook("star")
	return b.transact(func(tx *transaction) error {
		var rec weburl.Record
		var buf []byte
		for i := range placed {
			p := &placed[i]
			if err := rec.Decode(p.Aux); err != nil {
				return fmt.Errorf("crawl: record from STAR: %w", err)
			}
			if p.Number == star.OverLimit {
				if err := b.deferrals.refuse(tx, &rec, state.PlaceStar, state.ReasonPLDPages); err != nil {
					return err
				}
				continue
			}
			rec.Budget = p.Budget
			buf = rec.Append(buf[:0])
			if err := b.beast.Append(beast.Number(p.Number), buf); err != nil {
				return err
			}
			to := state.PlaceBeast
			if beast.Number(p.Number) == beast.Failed {
				to = state.PlaceFailed
			}
			tx.move(b.Hasher.URLKey(rec.URL), state.PlaceStar, to)
		}
		tx.wake(b.wakeBeast)
		return nil
	})
}

// budgetStage is STAR and BEAST: a new URL gets its PLD's budget, then a queue.
//
// Producers: URLseen's emission (emitUnique), and QF (scanFailed). Consumers: its goroutines "star", which merges, "beast",
// which reads the queues while the stock is low, and "scan", which reads QF.
type budgetStage struct {
	*engine
	star        *star.Star
	recentEdges *drum.RAMCache
	beast       *beast.Beast
	scanned     scanMemory
	starMerges  atomic.Int64 // passes of STAR that have ended

	wakeStar, wakeBeast, wakeScan signal

	check     *robotsCheck
	deferrals *deferrals
	passes    *passRunner
	requests  *robotsRequests
	seen      *seenStage
	space     *space
	stock     *stockKeeper
}

func newBudgetStage(e *engine) *budgetStage {
	b := &budgetStage{engine: e, wakeStar: e.pulsedSignal(), wakeBeast: e.pulsedSignal(), wakeScan: e.pulsedSignal()}
	b.scanned.fetched.Store(-1)
	return b
}

// place is the rule that STAR calls for each URL of a round.
func (b *budgetStage) place(ledger *[16]byte, budget uint32) int64 {
	l := beast.DecodeLedger(ledger)
	if b.opt.Scope != state.ScopeAll {
		budget = unboundedBudget // no queue is ever full of one PLD
	}
	n := b.beast.Place(&l, budget)
	l.Encode(ledger)
	return int64(n)
}

// unboundedBudget is every PLD's with budgets off: no queue is ever full of one.
const unboundedBudget = 1<<32 - 1

// readBeast releases URLs from the current queue while the stock is below its target.
func (b *budgetStage) readBeast(ctx context.Context) error {
	queue := beast.Number(-1)
	var end endOfQueue
	for ctx.Err() == nil {
		if n := b.beast.Current(); n != queue { // budgets change only between queues
			queue, end.began = n, time.Now()
			b.star.Refresh()
		}
		if b.stock.stocked() {
			b.await(ctx, b.wakeBeast, wakeAfter)
			continue
		}
		if wait := b.mergeFirst(&end); wait > 0 {
			b.seen.wakeNow()
			b.wakeStar.raise()
			b.await(ctx, b.wakeBeast, wait)
			continue
		}
		data, ok, err := b.beast.Peek()
		if err != nil {
			return err
		}
		if !ok {
			b.seen.wakeNow()
			b.wakeStar.raise()
			b.wakeScan.raise()
			b.await(ctx, b.wakeBeast, wakeAfter)
			continue
		}
		if err := b.transact(func(tx *transaction) error {
			rec := weburl.Record{}
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from BEAST: %w", err)
			}
			if err := b.check.checkRobots(tx, data, &rec, state.PlaceBeast); err != nil {
				return err
			}
			b.beast.Advance()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// scanFailed re-reads QF when a scan is due: each of its URLs goes through STAR's check again.
func (b *budgetStage) scanFailed(ctx context.Context) error {
	for ctx.Err() == nil {
		if !b.beast.Scanning() {
			if !b.scanDue() {
				b.await(ctx, b.wakeScan, wakeAfter)
				continue
			}
			if err := b.transact(func(*transaction) error { return b.beast.StartScan() }); err != nil {
				return err
			}
		}
		data, ok, err := b.beast.ScanPeek()
		if err != nil {
			return err
		}
		if !ok {
			if err := b.transact(func(*transaction) error { return b.beast.EndScan() }); err != nil {
				return err
			}
			b.wakeStar.raise()
			continue
		}
		if b.star.ChecksHalfFull() {
			b.wakeStar.raise()
			b.await(ctx, b.wakeScan, wakeAfter)
			continue
		}
		if err := b.transact(func(tx *transaction) error {
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from QF: %w", err)
			}
			tx.move(b.Hasher.URLKey(rec.URL), state.PlaceFailed, state.PlaceStar)
			if err := b.star.Check([]star.CheckTuple{{PLD: b.PLDKey(weburl.Split(rec.URL).Host), Aux: data}}); err != nil {
				return err
			}
			b.beast.ScanAdvance()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// openCache makes the cache in front of the edges.
func (b *budgetStage) openCache() { b.recentEdges = drum.NewRAMCache(b.plan.EdgeCacheBytes) }

// close frees the cache of edges.
func (b *budgetStage) close() {
	if b.recentEdges != nil {
		b.recentEdges.Close()
	}
}

// wake lets the reader of BEAST's queues look again once the transaction has ended.
func (b *budgetStage) wake(tx *transaction) { tx.wake(b.wakeBeast) }

// passEnded tells that a pass has ended: BEAST's next queue was pinned, or waited for, until then.
func (b *budgetStage) passEnded() { b.wakeBeast.raise() }

// runsLow says whether BEAST's current queue is read to its end, or all its queues together hold few URLs.
func (b *budgetStage) runsLow() bool {
	return b.beast.AtEnd() || b.acct.in(state.PlaceBeast) < int64(b.opt.Connections)
}

// scanning says whether QF is being read.
func (b *budgetStage) scanning() bool { return b.beast.Scanning() }

// show adds what STAR and BEAST know to a snapshot.
func (b *budgetStage) show(s *Snapshot) {
	s.PLDs = b.star.NumPLDs()
	s.Queue, s.Horizon = int64(b.beast.Current()), int64(b.beast.Horizon())
	s.Scans = b.beast.Stats().Scans
}

// checksPending says whether URLs wait in STAR for their budget.
func (b *budgetStage) checksPending() bool { return b.star.PendingChecks() > 0 }

// checkAll sends URLs to STAR for their budgets; part of a transaction.
func (b *budgetStage) checkAll(tx *transaction, urls []star.CheckTuple) error {
	if err := b.star.Check(urls); err != nil {
		return err
	}
	tx.wake(b.wakeStar)
	return nil
}

// addEdges tells STAR of links between PLDs; fetched of a page; part of a transaction.
func (b *budgetStage) addEdges(edges []star.Edge) error { return b.star.AddEdges(edges) }

func (b *budgetStage) fetched(pld uint64, bytes int64) error { return b.star.Fetched(pld, 1, bytes) }

// starOptions wires STAR: edges and checks come from transactions, places go to BEAST, which stands still during a round.
func (b *budgetStage) starOptions() (star.Options, error) {
	f, err := star.ParseFunction(string(b.opt.Budget))
	if err != nil {
		return star.Options{}, err
	}
	return star.Options{
		Set: b.Set, Name: state.NameStar, Edges: b.plan.Edges.options(b.space.reserve), Indegree: b.plan.Indegree.options(b.space.reserve),
		Recent: b.recentEdges,
		Budgets: star.Budgets{Function: f, Default: b.opt.BudgetDefault, Max: b.opt.BudgetMax,
			Ranks: b.opt.BudgetRanks, QueuePages: b.opt.QueuePages},
		MaxPlaced: b.opt.MaxPagesPerPLD,
		Place:     b.place, Emit: b.emitPlaced,
		Pin: func() func() { return b.beast.Pin() },
	}, nil
}

func (b *budgetStage) mergeStar(ctx context.Context) error {
	return b.passes.run(ctx, merger{
		name: state.NameStar,
		pass: func(ctx context.Context, dry bool) (int, error) {
			n, err := b.star.Pass(ctx, dry)
			b.starMerges.Add(1)
			return n, err
		},
		full:    b.star.Full,
		pending: b.star.PendingChecks,
		keys:    b.star.NumPLDs,
		cost: func() time.Duration {
			_, indegree := b.star.Stats()
			return indegree.PredictedEarly
		},
		early: b.passes.needsURLs, starving: b.passes.starving,
		wake: b.wakeStar,
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
func (b *budgetStage) mergeFirst(e *endOfQueue) (wait time.Duration) {
	if !b.beast.AtEnd() {
		e.on = false
		return 0
	}
	now := time.Now()
	if !e.on {
		*e = endOfQueue{on: true, seen: b.seen.passesEnded(), star: b.starMerges.Load(), since: now, began: e.began}
	}
	pause := queuePause * b.opt.HostDelay
	if since, a := now.Sub(e.began), b.stock.aim(); since < pause && !a.idle && b.acct.stock() >= a.enough {
		return pause - since // the paper's budget is for the time that a queue takes to be crawled, not to be read
	}
	wait = pause + 2*cheapMerge - now.Sub(e.since)
	if wait <= 0 || b.beast.Scanning() {
		return 0
	}
	if n := b.seen.pending(); n > 0 && b.seen.passesEnded() == e.seen {
		if cost := b.seen.passCost(); cost >= cheapMerge || !worthwhile(cost, n) {
			return 0
		}
		return wait
	}
	if n := b.star.PendingChecks(); n > 0 && b.starMerges.Load() == e.star {
		if _, st := b.star.Stats(); worthwhile(st.PredictedEarly, n) {
			return wait
		}
	}
	return 0
}

// scanMemory remembers what the last scan of QF was for, so that a QF of useless URLs isn't read again and again.
type scanMemory struct {
	fetched atomic.Int64 // responses when the last idle scan began; -1 before the first
	edges   atomic.Int64
}

// scanShare is how many URLs of QF may be read again for each page fetched since the last scan.
const scanShare = 64

// scanDue says whether QF is to be read: when BEAST's distance says so, or when BEAST has run empty and something has
// changed since the last such scan. After a scan a PLD with a budget has URLs in all of BEAST's queues, so that the next
// one comes by distance; what is left in QF for longer are PLDs without a budget. They are read again when many pages
// were fetched, or for a last time when nothing else is left.
func (b *budgetStage) scanDue() bool {
	if b.acct.in(state.PlaceFailed) == 0 {
		return false
	}
	if b.beast.ScanDue() {
		return true
	}
	if b.acct.in(state.PlaceBeast, state.PlaceStar) > 0 || !b.passes.needsURLs() || !b.upstreamEmpty() {
		return false
	}
	fetched, edges := b.counter(state.CountResponses), b.counter(state.CountEdges)
	if b.scanned.fetched.Load() == fetched && b.scanned.edges.Load() == edges {
		return false
	}
	if last := b.scanned.fetched.Load(); last >= 0 && (fetched-last)*scanShare < b.acct.in(state.PlaceFailed) && !b.onlyFailedLeft() {
		return false
	}
	b.scanned.fetched.Store(fetched)
	b.scanned.edges.Store(edges)
	return true
}

// onlyFailedLeft is true when there is nothing to fetch outside of QF but what hosts without a robots.txt, and hosts that rest for long,
// keep back.
func (b *budgetStage) onlyFailedLeft() bool {
	s := b.acct.copy()
	return b.acct.stock() == 0 && s.Places[state.PlaceDeferred].N == s.Lingering() && b.requests.underWay() == 0
}

// upstreamEmpty is true when no link waits in front of BEAST.
func (b *budgetStage) upstreamEmpty() bool {
	return b.seen.pending() == 0 && b.star.PendingChecks() == 0
}

// useless is true when a scan of QF brought nothing and nothing has happened since.
func (b *budgetStage) rescanUseless(s *state.Accounts) bool {
	return b.scanned.fetched.Load() == s.Counters[state.CountResponses] && b.scanned.edges.Load() == s.Counters[state.CountEdges]
}
