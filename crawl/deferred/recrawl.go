package deferred

import (
	"math"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/internal/revisit"
	"drumbeat/internal/sites"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Recrawl: a URL that had a page is visited again and again (Options.Recrawl). Between two visits it is a
// deferred URL: its record, with what its visits found, waits in the calendar, a disk queue by due time. So a
// visit costs two writes and reads of the record, no seek and no RAM, and a checkpoint has the URL in exactly
// one place. A URL that is due goes through STAR and BEAST like a new one, where it keeps to its PLD's
// budget, and through RobotsCache to its host's delay.
//
// A URL ends, as without recrawl, if its first visit finds no page, after Policy.Gone visits in a row without
// one, or when it is refused for good.

// Revisits says when a URL is visited again: as the settings of its site say, else as Options.Recrawl does.
// ok is false if it is not to be.
func (d *Stage) Revisits(url []byte) (policy revisit.Policy, ok bool) {
	if d.opt.Recrawl == nil {
		return policy, false
	}
	policy = *d.opt.Recrawl
	policy.Margin = d.opt.Margin.Seconds()
	parts := weburl.Split(url)
	if site := d.opt.Sites.Of(&parts); site != nil && site.Has&sites.HasRevisit != 0 {
		policy.Least, policy.Longest, policy.Default = site.Revisit, site.Revisit, site.Revisit
		policy.Kind = revisit.Uniform
		return policy, site.Revisit > 0
	}
	return policy, true
}

// EndVisit ends the visit of a URL with a final response: the URL is visited again, or it has ended. It is
// part of a transaction.
func (d *Stage) EndVisit(tx *account.Tx, rec *weburl.Record, from state.Place) error {
	if d.orders.Any() {
		key := d.saved.Hasher.URLKey(rec.URL)
		d.judge(tx, key, true)
		if d.orders.Fetched(key, rec.Visits) {
			tx.Leave(key, from, state.Reason(rec.Reason))
			return nil
		}
	}
	return d.finishVisit(tx, rec, from)
}

// finishVisit is EndVisit for the record of a unique URL.
func (d *Stage) finishVisit(tx *account.Tx, rec *weburl.Record, from state.Place) error {
	end := func() {
		tx.MoveFor(d.saved.Hasher.URLKey(rec.URL), from, state.PlaceFetched, state.ReasonNone, state.Reason(rec.Reason))
	}
	policy, ok := d.Revisits(rec.URL)
	if !ok || !revisit.Visited(rec.Visits) {
		end()
		return nil
	}
	h, err := state.HistoryOf(rec)
	if err != nil {
		return err
	}
	if int(h.Missing) >= policy.Gone {
		tx.Count(state.CountGone, 1)
		end()
		return nil
	}
	return d.nextVisit(tx, rec, &h, from)
}

// Earlier handles a new URL that an earlier crawl has fetched: it waits for the visit that was planned there, or it
// ends. It is part of a transaction.
func (d *Stage) Earlier(tx *account.Tx, rec *weburl.Record) error {
	rec.Reason = uint8(state.ReasonNone)
	tx.Enter(d.saved.Hasher.URLKey(rec.URL), state.PlaceStar)
	if _, ok := d.Revisits(rec.URL); !ok || !revisit.Visited(rec.Visits) {
		return d.Refuse(tx, rec, state.PlaceStar, state.ReasonEarlier)
	}
	h, err := state.HistoryOf(rec)
	if err != nil {
		return err
	}
	return d.nextVisit(tx, rec, &h, state.PlaceStar)
}

// nextVisit defers a URL until its next visit. The calendar may be late by a quarter of a delay. So the URL
// returns after three quarters and waits again for the rest: then a visit is late by at most a sixteenth of
// its interval, for a second write and read of its record.
func (d *Stage) nextVisit(tx *account.Tx, rec *weburl.Record, h *revisit.History, from state.Place) error {
	tx.Count(state.CountScheduled, 1)
	return d.waitForVisit(tx, rec, h, from)
}

func (d *Stage) waitForVisit(tx *account.Tx, rec *weburl.Record, h *revisit.History, from state.Place) error {
	due := h.Due()
	return d.DeferURL(tx, rec, from, due.Add(-Lead(time.Until(due))), state.ReasonRevisit)
}

// ArriveVisit defers a URL that waited for its next visit at another node of the cluster. It is part of a transaction.
func (d *Stage) ArriveVisit(tx *account.Tx, rec *weburl.Record, from state.Place) error {
	h, err := state.HistoryOf(rec)
	if err != nil {
		return err
	}
	return d.waitForVisit(tx, rec, &h, from)
}

// longerInterval returns the interval between visits that the settings of a URL's site ask for now, in
// seconds, if it is longer than the one by which the URL has been deferred. A shorter one holds from the next
// visit: the calendar is by due time, and cannot be searched for a site.
func (d *Stage) longerInterval(url []byte, h *revisit.History) (seconds uint32, ok bool) {
	parts := weburl.Split(url)
	site := d.opt.Sites.Of(&parts)
	if d.opt.Recrawl == nil || site == nil || site.Has&sites.HasRevisit == 0 {
		return 0, false
	}
	want := min(site.Revisit/time.Second, math.MaxUint32)
	return uint32(want), uint32(want) > h.Interval
}

// failedVisit defers a URL that was visited before and now failed for a reason that may pass. ok is false if the URL is
// to be refused. A host that stays dead is given up in the end (package health), and its URLs with it.
func (d *Stage) failedVisit(tx *account.Tx, rec *weburl.Record, from state.Place,
	why state.Reason) (ok bool, _ error) {
	policy, again := d.Revisits(rec.URL)
	if !again || !revisit.Visited(rec.Visits) || !passes(why) {
		return false, nil
	}
	h, err := state.HistoryOf(rec)
	if err != nil {
		return false, err
	}
	policy.Later(&h, time.Now())
	rec.Renew(h.Append(nil))
	return true, d.nextVisit(tx, rec, &h, from)
}

// passes reports whether a reason for refusing a URL may be gone by its next visit.
func passes(why state.Reason) bool {
	switch why {
	case state.ReasonNoHost, state.ReasonDNS, state.ReasonConnect, state.ReasonTimeout, state.ReasonReset,
		state.ReasonTLS, state.ReasonCertificate, state.ReasonBadResponse, state.ReasonHeadTooLarge,
		state.ReasonServerError, state.ReasonTooMany, state.ReasonRobotsUnavailable:
		return true
	}
	return false
}

// overdue is how long a run without Options.Recrawl defers a URL whose visit is due: long enough to cost
// nothing, and short enough for the next run with it.
const overdue = 24 * time.Hour

// visitDue takes a URL that was deferred until its next visit: to the calendar for the rest of the time, to
// STAR for its budget, or, if its site is to be visited no more, to its end. A run without Options.Recrawl
// leaves it to a later one. It is part of a transaction.
func (d *Stage) visitDue(tx *account.Tx, data []byte, rec *weburl.Record) error {
	if _, ok := d.Revisits(rec.URL); !ok && d.opt.Recrawl != nil {
		tx.MoveFor(d.saved.Hasher.URLKey(rec.URL), state.PlaceDeferred, state.PlaceFetched, state.ReasonNone,
			state.Reason(rec.Reason))
		return nil
	}
	if met, err := d.MetOrder(tx, rec, state.PlaceDeferred); met || err != nil {
		return err
	}
	h, err := state.HistoryOf(rec)
	if err != nil {
		return err
	}
	if want, ok := d.longerInterval(rec.URL, &h); ok {
		h.Interval = want
		rec.Visits = h.Append(nil)
		if time.Until(h.Due()) > 0 {
			return d.nextVisit(tx, rec, &h, state.PlaceDeferred)
		}
	}
	// More than a third is left only if the clock was set back; the URL has waited long enough then.
	if left := time.Until(h.Due()); left > 0 && left <= time.Duration(h.Interval)*time.Second/3 {
		return d.DeferURL(tx, rec, state.PlaceDeferred, h.Due(), state.ReasonRevisit)
	}
	if d.opt.Recrawl == nil {
		return d.DeferURL(tx, rec, state.PlaceDeferred, time.Now().Add(overdue), state.ReasonRevisit)
	}
	return d.others.Budgets.Recheck(tx, data, state.PlaceDeferred)
}
