package crawl

import (
	"context"
	"fmt"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/state"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/weburl"
)

// emitUnique takes what URLseen found to be new: each URL goes to STAR for its budget.
func (c *crawler) emitUnique(results []drum.Result) error {
	c.testHook("urlseen")
	checks := make([]star.CheckTuple, 0, len(results))
	return c.transact(func(tx *transaction) error {
		var rec weburl.Record
		for i := range results {
			res := &results[i]
			if !res.New {
				continue
			}
			if err := rec.Decode(res.Aux); err != nil {
				return fmt.Errorf("crawl: record from URLseen: %w", err)
			}
			tx.enter(c.Hasher.URLKey(rec.URL), state.PlaceStar) // a text log hands out texts without keys
			c.sketch(rec.URL)
			checks = append(checks, star.CheckTuple{PLD: c.PLDKey(weburl.Split(rec.URL).Host), Aux: res.Aux})
		}
		if len(checks) == 0 {
			return nil
		}
		if err := c.star.Check(checks); err != nil {
			return err
		}
		tx.wake(c.wakeStar)
		return nil
	})
}

// emitPlaced takes what STAR has given a budget and a queue number, into BEAST.
func (c *crawler) emitPlaced(placed []star.Placed) error {
	c.testHook("star")
	return c.transact(func(tx *transaction) error {
		var rec weburl.Record
		var buf []byte
		for i := range placed {
			p := &placed[i]
			if err := rec.Decode(p.Aux); err != nil {
				return fmt.Errorf("crawl: record from STAR: %w", err)
			}
			if p.Number == star.OverLimit {
				if err := c.refuse(tx, &rec, state.PlaceStar, state.ReasonPLDPages); err != nil {
					return err
				}
				continue
			}
			rec.Budget = p.Budget
			buf = rec.Append(buf[:0])
			if err := c.beast.Append(beast.Number(p.Number), buf); err != nil {
				return err
			}
			to := state.PlaceBeast
			if beast.Number(p.Number) == beast.Failed {
				to = state.PlaceFailed
			}
			tx.move(c.Hasher.URLKey(rec.URL), state.PlaceStar, to)
		}
		tx.wake(c.wakeBeast)
		return nil
	})
}

// place is the rule that STAR calls for each URL of a round.
func (c *crawler) place(ledger *[16]byte, budget uint32) int64 {
	l := beast.DecodeLedger(ledger)
	if c.opt.Scope != state.ScopeAll {
		budget = unboundedBudget // no queue is ever full of one PLD
	}
	n := c.beast.Place(&l, budget)
	l.Encode(ledger)
	return int64(n)
}

// unboundedBudget is every PLD's with budgets off: no queue is ever full of one.
const unboundedBudget = 1<<32 - 1

// readBeast releases URLs from the current queue while the stock is below its target.
func (c *crawler) readBeast(ctx context.Context) error {
	queue := beast.Number(-1)
	var end endOfQueue
	for ctx.Err() == nil {
		if n := c.beast.Current(); n != queue { // budgets change only between queues
			queue, end.began = n, time.Now()
			c.star.Refresh()
		}
		if c.stocked() {
			c.await(ctx, c.wakeBeast, wakeAfter)
			continue
		}
		if wait := c.mergeFirst(&end); wait > 0 {
			c.wakeSeen.raise()
			c.wakeStar.raise()
			c.await(ctx, c.wakeBeast, wait)
			continue
		}
		data, ok, err := c.beast.Peek()
		if err != nil {
			return err
		}
		if !ok {
			c.wakeSeen.raise()
			c.wakeStar.raise()
			c.wakeScan.raise()
			c.await(ctx, c.wakeBeast, wakeAfter)
			continue
		}
		if err := c.transact(func(tx *transaction) error {
			rec := weburl.Record{}
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from BEAST: %w", err)
			}
			if err := c.checkRobots(tx, data, &rec, state.PlaceBeast); err != nil {
				return err
			}
			c.beast.Advance()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// scanFailed re-reads QF when a scan is due: each of its URLs goes through STAR's check again.
func (c *crawler) scanFailed(ctx context.Context) error {
	for ctx.Err() == nil {
		if !c.beast.Scanning() {
			if !c.scanDue() {
				c.await(ctx, c.wakeScan, wakeAfter)
				continue
			}
			if err := c.transact(func(*transaction) error { return c.beast.StartScan() }); err != nil {
				return err
			}
		}
		data, ok, err := c.beast.ScanPeek()
		if err != nil {
			return err
		}
		if !ok {
			if err := c.transact(func(*transaction) error { return c.beast.EndScan() }); err != nil {
				return err
			}
			c.wakeStar.raise()
			continue
		}
		if c.star.ChecksHalfFull() {
			c.wakeStar.raise()
			c.await(ctx, c.wakeScan, wakeAfter)
			continue
		}
		if err := c.transact(func(tx *transaction) error {
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from QF: %w", err)
			}
			tx.move(c.Hasher.URLKey(rec.URL), state.PlaceFailed, state.PlaceStar)
			if err := c.star.Check([]star.CheckTuple{{PLD: c.PLDKey(weburl.Split(rec.URL).Host), Aux: data}}); err != nil {
				return err
			}
			c.beast.ScanAdvance()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
