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

// emitUnique takes what URLseen found to be new: each URL goes to STAR for its budget.
func (s *seenStage) emitUnique(results []drum.Result) error {
	s.testHook("urlseen")
	checks := make([]star.CheckTuple, 0, len(results))
	return s.transact(func(tx *transaction) error {
		var rec weburl.Record
		for i := range results {
			res := &results[i]
			if !res.New {
				continue
			}
			if err := rec.Decode(res.Aux); err != nil {
				return fmt.Errorf("crawl: record from URLseen: %w", err)
			}
			tx.enter(s.Hasher.URLKey(rec.URL), state.PlaceStar) // a text log hands out texts without keys
			s.sketch(rec.URL)
			checks = append(checks, star.CheckTuple{PLD: s.PLDKey(weburl.Split(rec.URL).Host), Aux: res.Aux})
		}
		if len(checks) == 0 {
			return nil
		}
		if err := s.budgets.star.Check(checks); err != nil {
			return err
		}
		tx.wake(s.budgets.wakeStar)
		return nil
	})
}

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
			b.seen.wakeSeen.raise()
			b.wakeStar.raise()
			b.await(ctx, b.wakeBeast, wait)
			continue
		}
		data, ok, err := b.beast.Peek()
		if err != nil {
			return err
		}
		if !ok {
			b.seen.wakeSeen.raise()
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
