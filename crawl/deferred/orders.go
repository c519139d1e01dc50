package deferred

import (
	"fmt"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/weburl"
)

// AdoptOrder handles a new URL that was enqueued: its order's record is that of the URL, or has been fetched
// already. ok is false if there is no order. It is part of a transaction.
func (d *Stage) AdoptOrder(tx *account.Tx, rec *weburl.Record) (ok bool, _ error) {
	key := d.saved.Hasher.URLKey(rec.URL)
	order, ok := d.orders.Adopt(key)
	switch {
	case !ok:
		return false, nil
	case !order.Done:
		tx.Adopt(key)
		return true, nil
	}
	d.orders.Met(key)
	tx.Enter(key, state.PlaceStar)
	return true, d.endMet(tx, rec, state.PlaceStar, &order)
}

// MetOrder handles a record of a URL that was enqueued and has been fetched meanwhile: it ends, or waits
// for its next visit, without a request. ok is false if the record continues. It is part of a transaction.
func (d *Stage) MetOrder(tx *account.Tx, rec *weburl.Record, from state.Place) (ok bool, _ error) {
	if !d.orders.Any() {
		return false, nil
	}
	key := d.saved.Hasher.URLKey(rec.URL)
	order, ok := d.orders.Look(key)
	switch {
	case !ok:
		return false, nil
	case !order.Done && d.orders.HasLanded(key): // the page of one of the two records waits: so does this one
		return true, d.DeferURL(tx, rec, from, time.Now().Add(landedWait), state.ReasonHostBacklog)
	case !order.Done && !order.Stored:
		return false, nil
	case order.Stored: // the order's page waits for its verdict: so does this record
		return true, d.DeferURL(tx, rec, from, time.Now().Add(storedWait), state.ReasonHostBacklog)
	}
	d.orders.Met(key)
	return true, d.endMet(tx, rec, from, &order)
}

// refusedOrder handles the record of an order that is refused. It returns false for any other record. It is
// part of a transaction. A record with visits is that of the unique URL.
func (d *Stage) refusedOrder(tx *account.Tx, rec *weburl.Record, from state.Place,
	why state.Reason) (is bool, _ error) {
	if !d.orders.Any() || revisit.Visited(rec.Visits) {
		return false, nil
	}
	key := d.saved.Hasher.URLKey(rec.URL)
	d.judge(tx, key, false)
	if !d.orders.Refused(key) {
		return false, nil
	}
	d.run.NoteProgress()
	tx.Leave(key, from, state.Reason(rec.Reason))
	tx.Late.Add(d.opt.Log.Warn, "an enqueued URL was refused", "url", string(rec.URL), "why", why.String())
	return true, d.output.LogOrder(tx, rec, why.String())
}

// judge counts a URL of --watch that has been fetched or refused. It is part of a transaction.
func (d *Stage) judge(tx *account.Tx, key uint64, fetched bool) {
	d.others.OrderEnds(tx)
	deadline, ok := d.orders.TakeDeadline(key)
	if !ok {
		return
	}
	count := state.CountWatchMissed
	if fetched && time.Now().Unix() <= deadline {
		count = state.CountWatchMet
	}
	tx.Count(count, 1)
}

// storedWait is the wait of a URL whose enqueued record waits for the verdict on its body. Passes of the
// store of contents are at most as far apart in a small crawl.
const storedWait = 15 * time.Second

// landedWait is the wait of a URL whose other record's page has landed: a hook that answers takes at most
// 10 s, parsers less.
const landedWait = 5 * time.Second

// endMet ends a record whose order has been fetched. It is part of a transaction.
func (d *Stage) endMet(tx *account.Tx, rec *weburl.Record, from state.Place, order *state.Order) error {
	if revisit.Visited(order.Visits) {
		var found revisit.History
		if err := found.Decode(order.Visits); err != nil {
			return fmt.Errorf("crawl: enqueued %s: %w", rec.URL, err)
		}
		h, err := state.HistoryOf(rec)
		if err != nil {
			return err
		}
		policy, ok := d.Revisits(rec.URL)
		if h.Last == 0 {
			h = found
		} else if ok {
			policy.Note(&h, &revisit.Outcome{At: time.Unix(found.Last, 0), Missing: found.Missing > 0, Body: found.Body,
				ETag: found.ETag, Modified: found.Modified})
			h.Captured = found.Captured
			policy.Next(&h, 0)
		}
		rec.Renew(h.Append(nil))
	}
	return d.finishVisit(tx, rec, from)
}
