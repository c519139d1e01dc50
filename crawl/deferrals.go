package crawl

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/output"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/crawl/walkers"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// deferrals keeps URLs on disk that wait for a due time or for other flags, and refuses URLs.
//
// Producers: all stages downstream of BEAST (DeferURL, hold, Refuse). Consumers: its goroutines "deferred" and
// "held", which return URLs to RobotsCache, and "visits", which sends URLs that are to be visited again to STAR.
type deferrals struct {
	*engine
	deferred     *queue.Calendar
	wakeDeferred account.Signal
	wakeVisits   account.Signal
	wakeHeld     account.Signal
	wantRoom     atomic.Int32 // goroutines that wait for room in the stock
	held         *queue.Queue
	heldState    state.Held // guarded by the transaction lock; its Since never changes

	budgets *budgetStage
	check   *gate.Check
	output  *output.Writer
	seen    *seenStage
	space   *space.Keeper
	stock   *stock.Keeper
	walk    *walkers.Leader
	quiet   func() bool // node.Node.Quiet: nothing may come back
}

func newDeferrals(e *engine) *deferrals {
	return &deferrals{engine: e, wakeDeferred: e.PulsedSignal(), wakeVisits: e.PulsedSignal(),
		wakeHeld: e.PulsedSignal()}
}

// goOn tells that URLs may come back again.
func (d *deferrals) goOn() { d.wakeDeferred.Raise(); d.wakeVisits.Raise() }

// openHeld compares the network flags with those of the last run. It returns true if they differ.
func (d *deferrals) openHeld(m *state.Manifest) (changed bool) {
	if m == nil {
		d.heldState = state.Held{Flags: d.opt.Network.Flags}
		return false
	}
	d.heldState = m.Held
	if m.Held.Flags == d.opt.Network.Flags {
		return false
	}
	n, _ := d.held.Len()
	// Use a time after all verdicts so far. VerdictTime may have made some later than the last manifest. Verdicts of a
	// clock that was ahead do not hold (robots.HostData), and the flags' time must not be in the future.
	since := time.Now().Unix()
	for _, other := range []int64{m.Time + 1, m.Held.Since + 1} {
		if other <= since+int64(robots.ClockSlack/time.Second) {
			since = max(since, other)
		}
	}
	d.heldState = state.Held{Flags: d.opt.Network.Flags, Since: since, Left: n}
	if n > 0 {
		d.opt.Observe.Log.Info("network flags changed: trying URLs again that the former flags held back", "urls", n)
	}
	return true
}

// freeze copies the state of the held URLs, and what a visit must gain.
func (d *deferrals) freeze() (held state.Held, margin float64) {
	return d.heldState, d.margin.Seconds()
}

// flagsSince returns since when this run's network flags hold; the zero time if that is unknown, because the clock was
// ahead then. A verdict of former flags holds for its usual time in that case: no verdict at all would hold, and hosts
// would be asked for without end.
func (d *deferrals) flagsSince(now time.Time) time.Time {
	if since := time.Unix(d.heldState.Since, 0); !since.After(now.Add(robots.ClockSlack)) {
		return since
	}
	return time.Time{}
}

// SinceFlags reports whether at is within the time of this run's network flags.
func (d *deferrals) SinceFlags(at, now time.Time) bool { return at.Unix() >= d.flagsSince(now).Unix() }

// heldLeft returns the number of URLs, held back by former flags, that are still to be tried again.
func (d *deferrals) heldLeft() int64 { return d.heldState.Left }

// nextDue returns when the first deferred URL is due; false if there is none.
func (d *deferrals) nextDue(now time.Time) (time.Time, bool) {
	due, any := d.deferred.NextDue(now, queue.Usual)
	if visit, ok := d.deferred.NextDue(now, queue.Bulk); ok && (!any || visit.Before(due)) {
		return visit, true
	}
	return due, any
}

// show adds to a snapshot how late deferred URLs return.
func (d *deferrals) show(s *Snapshot) {
	late := func(class queue.Class) time.Duration {
		if due, any := d.deferred.NextDue(s.Time, class); any {
			return max(0, s.Time.Sub(due))
		}
		return 0
	}
	s.DeferredLate, s.VisitsLate = late(queue.Usual), late(queue.Bulk)
}

// VerdictTime returns the time of a verdict on forbidden addresses. It is not before the time of this run's
// flags, even if the clock was set back or the last run ended within this second.
func (d *deferrals) VerdictTime(now time.Time) time.Time {
	if since := d.flagsSince(now); now.Before(since) {
		return since
	}
	return now
}

// hold sets aside a URL that the operator's flags forbid. It is part of a transaction. The crawl log has no
// line for the URL, because it has not ended. The HTTP fallback of a seed is not tried: it has the same
// host, and its port is no better.
func (d *deferrals) hold(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error {
	if d.refusedOrder(tx, rec, from, why) {
		return nil
	}
	tx.MoveFor(d.Hasher.URLKey(rec.URL), from, state.PlaceHeld, why, state.Reason(rec.Reason))
	if err := d.walk.Refused(tx, rec.URL); err != nil {
		return err
	}
	d.NoteProgress()
	if rec.Flags&weburl.FlagSeed != 0 {
		d.output.LogSeed(string(rec.URL), why.String())
	}
	rec.Reason, rec.Extra = uint8(why), nil
	return d.held.Append(rec.Append(nil))
}

// releaseHeld returns the URLs that former flags held back to RobotsCache while the stock is below its
// target.
func (d *deferrals) releaseHeld(ctx context.Context) error {
	for left := d.heldState.Left; left > 0 && ctx.Err() == nil; { // only this stage changes it
		if d.space.Pausing() != "" {
			account.Sleep(ctx, space.Every)
			continue
		}
		if d.waitsForRoom(ctx, d.wakeHeld) {
			continue
		}
		data, ok, err := d.held.Peek()
		if err != nil {
			return err
		}
		if err := d.Transact(func(tx *account.Tx) error {
			if !ok { // a repair could not save all URLs
				d.heldState.Left = 0
				return nil
			}
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record of %s: %w", state.PlaceHeld, err)
			}
			if err := d.check.CheckRobots(tx, data, &rec, state.PlaceHeld); err != nil {
				return err
			}
			d.held.Advance()
			d.heldState.Left--
			d.stock.NoteReturn()
			return nil
		}); err != nil {
			return err
		}
		left = d.heldState.Left
	}
	return nil
}

// DeferURL makes a URL wait on disk until due. It is part of a transaction.
func (d *deferrals) DeferURL(tx *account.Tx, rec *weburl.Record, from state.Place, due time.Time,
	why state.Reason) error {
	tx.MoveFor(d.Hasher.URLKey(rec.URL), from, state.PlaceDeferred, why, state.Reason(rec.Reason))
	tx.Count(state.CountDeferrals, 1)
	if err := d.walk.Deferred(tx, rec.URL, due, why); err != nil {
		return err
	}
	if d.orders.Any() {
		d.orders.Moved(d.Hasher.URLKey(rec.URL), false)
	}
	rec.Reason, rec.Extra = uint8(why), nil
	now := time.Now()
	if why == state.ReasonRevisit {
		tx.Wake(d.wakeVisits)
		return d.deferred.Append(now, due, queue.Bulk, rec.Append(nil))
	}
	tx.Wake(d.wakeDeferred)
	if why == state.ReasonHostBacklog || why == state.ReasonEvicted || why == state.ReasonNetworkLease {
		due = due.Add(-lead(due.Sub(now)))
	}
	return d.deferred.Append(now, due, queue.Usual, rec.Append(nil))
}

// lead returns how much earlier a URL returns that waits only for its host. The calendar may be late by as
// much, and the host should not wait for the URL. A URL that finds no room in RAM waits again, for at most
// a quarter of the time.
func lead(delay time.Duration) time.Duration { return max(0, delay/4) }

// waitsForRoom waits if the stock has no room for a URL that returns. It returns true if it has waited: the caller must
// look again. Room that a settled page makes ends the wait at once.
func (d *deferrals) waitsForRoom(ctx context.Context, wake account.Signal) bool {
	if d.stock.RoomForReturning() {
		return false
	}
	d.wantRoom.Add(1)
	defer d.wantRoom.Add(-1)
	if !d.stock.RoomForReturning() { // none was made meanwhile
		d.Await(ctx, wake, account.WakeAfter)
	}
	return true
}

// roomMade wakes the goroutines that wait for room in the stock.
func (d *deferrals) roomMade() {
	if d.wantRoom.Load() > 0 && d.stock.RoomForReturning() {
		d.wakeDeferred.Raise()
		d.wakeHeld.Raise()
	}
}

// readDeferred returns due URLs to RobotsCache, but for visits.
func (d *deferrals) readDeferred(ctx context.Context) error {
	var setBack time.Duration
	for ctx.Err() == nil {
		if back := d.deferred.SetBack(); back != setBack {
			d.opt.Observe.Log.Warn("the clock was set back: deferred URLs keep their remaining wait",
				"by", (back - setBack).Round(time.Second))
			setBack = back
		}
		if d.quiet() {
			d.Await(ctx, d.wakeDeferred, account.WakeAfter)
			continue
		}
		if d.waitsForRoom(ctx, d.wakeDeferred) {
			continue
		}
		err := d.readDue(ctx, queue.Usual, d.wakeDeferred, func(tx *account.Tx, data []byte, rec *weburl.Record) error {
			if state.Reason(rec.Reason) == state.ReasonRevisit { // an earlier release had one class
				tx.Wake(d.wakeVisits)
				now := time.Now()
				return d.deferred.Append(now, now, queue.Bulk, data)
			}
			d.stock.NoteReturn()
			return d.check.CheckRobots(tx, data, rec, state.PlaceDeferred)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readVisits sends URLs that are to be visited again to STAR while it has room.
func (d *deferrals) readVisits(ctx context.Context) error {
	for ctx.Err() == nil {
		if d.quiet() || d.opt.Recrawl != nil && d.budgets.crowded() {
			d.Await(ctx, d.wakeVisits, time.Second)
			continue
		}
		err := d.readDue(ctx, queue.Bulk, d.wakeVisits, func(tx *account.Tx, data []byte, rec *weburl.Record) error {
			// The clock of an earlier release made its slot look like one of visits.
			if state.Reason(rec.Reason) != state.ReasonRevisit {
				tx.Wake(d.wakeDeferred)
				now := time.Now()
				return d.deferred.Append(now, now, queue.Usual, data)
			}
			return d.visitDue(tx, data, rec)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readDue hands on the next due record of a class, or waits until one is due.
func (d *deferrals) readDue(ctx context.Context, class queue.Class, wake account.Signal,
	move func(tx *account.Tx, data []byte, rec *weburl.Record) error) error {
	data, ok, err := d.deferred.Peek(time.Now(), class)
	if err != nil {
		return err
	}
	if !ok {
		d.Await(ctx, wake, d.deferred.UntilDue(time.Now(), class, account.WakeAfter))
		return nil
	}
	return d.Transact(func(tx *account.Tx) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return fmt.Errorf("crawl: record from deferred URLs: %w", err)
		}
		if err := move(tx, data, &rec); err != nil {
			return err
		}
		d.deferred.Advance(class)
		return nil
	})
}

// Refuse ends a URL without a response. It is part of a transaction. A URL that was enqueued and has been fetched
// meanwhile has a response, and ends with that.
func (d *deferrals) Refuse(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error {
	if met, err := d.MetOrder(tx, rec, from); met || err != nil {
		return err
	}
	if why == state.ReasonForbiddenAddress || why == state.ReasonForbiddenPort {
		return d.hold(tx, rec, from, why)
	}
	if again, err := d.failedVisit(tx, rec, from, why); again || err != nil {
		return err
	}
	if d.refusedOrder(tx, rec, from, why) {
		return nil
	}
	tx.MoveFor(d.Hasher.URLKey(rec.URL), from, state.PlaceRefused, why, state.Reason(rec.Reason))
	if err := d.walk.Refused(tx, rec.URL); err != nil {
		return err
	}
	d.NoteProgress()
	if rec.Flags&weburl.FlagSeedFallback != 0 && why != state.ReasonRobots {
		if err := d.tryHTTPFallback(tx, rec); err != nil {
			return err
		}
	} else if rec.Flags&weburl.FlagSeed != 0 {
		d.output.LogSeed(string(rec.URL), why.String())
	}
	return d.output.LogRefused(tx, rec, why)
}

// tryHTTPFallback adds the http form of a seed without scheme whose https form failed. It is part of a
// transaction.
func (d *deferrals) tryHTTPFallback(tx *account.Tx, rec *weburl.Record) error {
	rest, ok := bytes.CutPrefix(rec.URL, []byte("https://"))
	if !ok {
		return nil
	}
	b := admit.NewBatch(d.links)
	b.Start(nil, nil, rec.Depth, weburl.FlagSeed, time.Now())
	url, err := weburl.Canonical("http://" + string(rest))
	if err != nil {
		d.output.LogSeed("http://"+string(rest), "bad-seed: "+err.Error())
		return nil
	}
	b.Add([]byte(url))
	return d.seen.sendLinks(b, tx)
}

// Evicted defers URLs that have left RAM. It is part of a transaction.
func (d *deferrals) Evicted(tx *account.Tx, items []*polite.Item, why state.Reason) error {
	for _, item := range items {
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if err := d.DeferURL(tx, &rec, state.PlaceRAM, item.Due, why); err != nil {
			return err
		}
	}
	return nil
}

// DropBlocked handles a URL that left RAM because of the blacklist. It refuses the URL if all its addresses
// are blocked; otherwise it sends the URL to RobotsCache again. It is part of a transaction.
func (d *deferrals) DropBlocked(tx *account.Tx, item *polite.Item) error {
	var rec weburl.Record
	if err := rec.Decode(item.Rec); err != nil {
		return fmt.Errorf("crawl: record in RAM: %w", err)
	}
	if d.rules.Closed(item.Addrs) {
		return d.Refuse(tx, &rec, state.PlaceRAM, state.ReasonBlocked)
	}
	return d.check.CheckRobots(tx, item.Rec, &rec, state.PlaceRAM)
}
