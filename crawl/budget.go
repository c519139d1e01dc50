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
func (r *ring) emitUnique(results []drum.Result) error {
	r.at("urlseen")
	checks := make([]star.CheckTuple, 0, len(results))
	return r.inStep(func(d *delta) error {
		var rec weburl.Record
		for i := range results {
			res := &results[i]
			if !res.New {
				continue
			}
			if err := rec.Decode(res.Aux); err != nil {
				return fmt.Errorf("crawl: record from URLseen: %w", err)
			}
			d.enter(r.Hasher.URLKey(rec.URL), state.PlaceStar) // a text log hands out texts without keys
			r.sketch(rec.URL)
			checks = append(checks, star.CheckTuple{PLD: r.PLDKey(weburl.Split(rec.URL).Host), Aux: res.Aux})
		}
		if len(checks) == 0 {
			return nil
		}
		if err := r.star.Check(checks); err != nil {
			return err
		}
		d.wake(r.wakeStar)
		return nil
	})
}

// emitPlaced takes what STAR has given a budget and a queue number, into BEAST.
func (r *ring) emitPlaced(placed []star.Placed) error {
	r.at("star")
	return r.inStep(func(d *delta) error {
		var rec weburl.Record
		var buf []byte
		for i := range placed {
			p := &placed[i]
			if err := rec.Decode(p.Aux); err != nil {
				return fmt.Errorf("crawl: record from STAR: %w", err)
			}
			if p.Number == star.OverLimit {
				if err := r.refuse(d, &rec, state.PlaceStar, state.ReasonPLDPages); err != nil {
					return err
				}
				continue
			}
			rec.Budget = p.Budget
			buf = rec.Append(buf[:0])
			if err := r.beast.Append(beast.Number(p.Number), buf); err != nil {
				return err
			}
			to := state.PlaceBeast
			if beast.Number(p.Number) == beast.Failed {
				to = state.PlaceFailed
			}
			d.move(r.Hasher.URLKey(rec.URL), state.PlaceStar, to)
		}
		d.wake(r.wakeBeast)
		return nil
	})
}

// place is the rule that STAR calls for each URL of a round.
func (r *ring) place(ledger *[16]byte, budget uint32) int64 {
	l := beast.DecodeLedger(ledger)
	if r.opt.Scope != state.ScopeAll {
		budget = unboundedBudget // no queue is ever full of one PLD
	}
	n := r.beast.Place(&l, budget)
	l.Encode(ledger)
	return int64(n)
}

// unboundedBudget is every PLD's with budgets off: no queue is ever full of one.
const unboundedBudget = 1<<32 - 1

// readBeast releases URLs from the current queue while the stock is below its target.
func (r *ring) readBeast(ctx context.Context) error {
	queue := beast.Number(-1)
	var end endOfQueue
	for ctx.Err() == nil {
		if n := r.beast.Current(); n != queue { // budgets change only between queues
			queue, end.began = n, time.Now()
			r.star.Refresh()
		}
		if r.stocked() {
			r.await(ctx, r.wakeBeast, wakeAfter)
			continue
		}
		if wait := r.mergeFirst(&end); wait > 0 {
			r.wakeSeen.raise()
			r.wakeStar.raise()
			r.await(ctx, r.wakeBeast, wait)
			continue
		}
		data, ok, err := r.beast.Peek()
		if err != nil {
			return err
		}
		if !ok {
			r.wakeSeen.raise()
			r.wakeStar.raise()
			r.wakeScan.raise()
			r.await(ctx, r.wakeBeast, wakeAfter)
			continue
		}
		if err := r.inStep(func(d *delta) error {
			rec := weburl.Record{}
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from BEAST: %w", err)
			}
			if err := r.checkRobots(d, data, &rec, state.PlaceBeast); err != nil {
				return err
			}
			r.beast.Advance()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// scanFailed re-reads QF when a scan is due: each of its URLs goes through STAR's check again.
func (r *ring) scanFailed(ctx context.Context) error {
	for ctx.Err() == nil {
		if !r.beast.Scanning() {
			if !r.scanDue() {
				r.await(ctx, r.wakeScan, wakeAfter)
				continue
			}
			if err := r.inStep(func(*delta) error { return r.beast.StartScan() }); err != nil {
				return err
			}
		}
		data, ok, err := r.beast.ScanPeek()
		if err != nil {
			return err
		}
		if !ok {
			if err := r.inStep(func(*delta) error { return r.beast.EndScan() }); err != nil {
				return err
			}
			r.wakeStar.raise()
			continue
		}
		if r.star.ChecksHalfFull() {
			r.wakeStar.raise()
			r.await(ctx, r.wakeScan, wakeAfter)
			continue
		}
		if err := r.inStep(func(d *delta) error {
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from QF: %w", err)
			}
			d.move(r.Hasher.URLKey(rec.URL), state.PlaceFailed, state.PlaceStar)
			if err := r.star.Check([]star.CheckTuple{{PLD: r.PLDKey(weburl.Split(rec.URL).Host), Aux: data}}); err != nil {
				return err
			}
			r.beast.ScanAdvance()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
