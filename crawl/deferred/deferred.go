package deferred

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/crawl/walkers"
	"drumbeat/internal/revisit"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/state/snapshot"
	"drumbeat/weburl"
)

// Stage keeps URLs on disk that wait for a due time or for other flags, and refuses URLs.
//
// Producers: all stages downstream of BEAST (DeferURL, hold, Refuse). Consumers: its goroutines "deferred" and
// "held", which return URLs to RobotsCache, and "visits", which sends URLs that are to be visited again to STAR.
type Stage struct {
	run          *account.Run
	saved        *state.Saved
	opt          Options
	others       Others
	Deferred     *queue.Calendar // the owner opens it and Held
	wakeDeferred account.Signal
	wakeVisits   account.Signal
	wakeHeld     account.Signal
	wantRoom     atomic.Int32 // goroutines that wait for room in the stock
	Held         *queue.Queue
	heldState    state.Held // guarded by the transaction lock; its Since never changes

	orders *orders.Table
	check  Check
	output Output
	space  *space.Keeper
	stock  *stock.Keeper
	walk   *walkers.Leader
}

// Options are the options of a Stage.
type Options struct {
	Log     *slog.Logger
	Flags   string          // network flags of this run
	Recrawl *revisit.Policy // nil: no URL is visited again
	Margin  *revisit.Margin // what a visit must gain; kept in the manifest
	Links   *admit.Policy   // decides which links become URLs
	Rules   *inforce.Rules
	Sites   *inforce.Sites
}

// Needs are the rooms below that a Stage calls.
type Needs struct {
	Orders *orders.Table
	Check  Check
	Output Output
	Space  *space.Keeper
	Stock  *stock.Keeper
	Walk   *walkers.Leader
}

// Check is RobotsCache, to which URLs return.
type Check interface {
	// CheckRobots sends a URL to RobotsCache; data is its record. It is part of a transaction.
	CheckRobots(tx *account.Tx, data []byte, rec *weburl.Record, from state.Place) error
}

// Output takes a line for each URL that ends without a response.
type Output interface {
	LogSeed(seed, why string) // a seed that yields nothing
	// LogRefused writes the line of the crawl log. It is part of a transaction.
	LogRefused(tx *account.Tx, rec *weburl.Record, why state.Reason) error
	// LogOrder writes that of a URL whose order was refused. It is part of a transaction.
	LogOrder(tx *account.Tx, rec *weburl.Record, why string) error
}

// Others are the stages above that a Stage calls.
type Others struct {
	Budgets   Budgets
	SendLinks func(b *admit.Batch, tx *account.Tx) error // to URLseen. It is part of a transaction.
	Quiet     func() bool                                // nothing may come back
	OrderEnds func(tx *account.Tx)                       // there may be room for more orders
}

// Budgets take URLs that are to be visited again.
type Budgets interface {
	Crowded() bool // STAR has no room for checks now
	// Recheck sends a URL to STAR's check. It is part of a transaction.
	Recheck(tx *account.Tx, data []byte, from state.Place) error
}

// New returns a Stage. Its owner opens Deferred and Held, and calls Wire and OpenHeld, before the stages
// start.
func New(run *account.Run, saved *state.Saved, opt Options, n Needs) *Stage {
	return &Stage{run: run, saved: saved, opt: opt, orders: n.Orders, check: n.Check, output: n.Output, space: n.Space,
		stock: n.Stock, walk: n.Walk, wakeDeferred: run.PulsedSignal(), wakeVisits: run.PulsedSignal(),
		wakeHeld: run.PulsedSignal()}
}

// Wire gives the Stage the stages that it calls.
func (d *Stage) Wire(others Others) { d.others = others }

// GoOn tells that URLs may come back again.
func (d *Stage) GoOn() { d.wakeDeferred.Raise(); d.wakeVisits.Raise() }

// OpenHeld compares the network flags with those of the last run. It returns true if they differ.
func (d *Stage) OpenHeld(m *state.Manifest) (changed bool) {
	if m == nil {
		d.heldState = state.Held{Flags: d.opt.Flags}
		return false
	}
	d.heldState = m.Held
	if m.Held.Flags == d.opt.Flags {
		return false
	}
	n, _ := d.Held.Len()
	// Use a time after all verdicts so far. VerdictTime may have made some later than the last manifest. Verdicts of a
	// clock that was ahead do not hold (robots.HostData), and the flags' time must not be in the future.
	since := time.Now().Unix()
	for _, other := range []int64{m.Time + 1, m.Held.Since + 1} {
		if other <= since+int64(robots.ClockSlack/time.Second) {
			since = max(since, other)
		}
	}
	d.heldState = state.Held{Flags: d.opt.Flags, Since: since, Left: n}
	if n > 0 {
		d.opt.Log.Info("network flags changed: retrying URLs that the previous flags forbade", "urls", n)
	}
	return true
}

// Freeze copies the state of the held URLs, and what a visit must gain.
func (d *Stage) Freeze() (held state.Held, margin float64) {
	return d.heldState, d.opt.Margin.Seconds()
}

// flagsSince returns since when this run's network flags hold; the zero time if that is unknown, because the clock was
// ahead then. A verdict of former flags holds for its usual time in that case: no verdict at all would hold, and hosts
// would be asked for without end.
func (d *Stage) flagsSince(now time.Time) time.Time {
	if since := time.Unix(d.heldState.Since, 0); !since.After(now.Add(robots.ClockSlack)) {
		return since
	}
	return time.Time{}
}

// SinceFlags reports whether at is within the time of this run's network flags.
func (d *Stage) SinceFlags(at, now time.Time) bool { return at.Unix() >= d.flagsSince(now).Unix() }

// HeldLeft returns the number of URLs, held back by former flags, that are still to be tried again.
func (d *Stage) HeldLeft() int64 { return d.heldState.Left }

// NextDue returns when the first deferred URL is due; false if there is none.
func (d *Stage) NextDue(now time.Time) (time.Time, bool) {
	due, any := d.Deferred.NextDue(now, queue.Usual)
	if visit, ok := d.Deferred.NextDue(now, queue.Bulk); ok && (!any || visit.Before(due)) {
		return visit, true
	}
	return due, any
}

// Show adds to a snapshot how late deferred URLs return.
func (d *Stage) Show(s *snapshot.Snapshot) {
	late := func(class queue.Class) time.Duration {
		if due, any := d.Deferred.NextDue(s.Time, class); any {
			return max(0, s.Time.Sub(due))
		}
		return 0
	}
	s.DeferredLate, s.VisitsLate = late(queue.Usual), late(queue.Bulk)
	s.NextDue, _ = d.NextDue(s.Time)
}

// VerdictTime returns the time of a verdict on forbidden addresses. It is not before the time of this run's
// flags, even if the clock was set back or the last run ended within this second.
func (d *Stage) VerdictTime(now time.Time) time.Time {
	if since := d.flagsSince(now); now.Before(since) {
		return since
	}
	return now
}

// hold sets aside a URL that the operator's flags forbid. It is part of a transaction. The crawl log has no line for
// the end of the URL, because it has not ended, but one if it was an order. The HTTP fallback of a seed is not tried:
// it has the same host, and its port is no better.
func (d *Stage) hold(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error {
	key := d.saved.Hasher.URLKey(rec.URL)
	order, ordered := d.orders.Look(key)
	ordered = ordered && !order.Done && !revisit.Visited(rec.Visits)
	if is, err := d.refusedOrder(tx, rec, from, why); is || err != nil {
		return err
	}
	if ordered {
		if err := d.output.LogOrder(tx, rec, why.String()); err != nil {
			return err
		}
	}
	tx.MoveFor(key, from, state.PlaceHeld, why, state.Reason(rec.Reason))
	if err := d.walk.Refused(tx, rec.URL); err != nil {
		return err
	}
	d.run.NoteProgress()
	if rec.Flags&weburl.FlagSeed != 0 {
		d.output.LogSeed(string(rec.URL), why.String())
	}
	rec.Reason, rec.Extra = uint8(why), nil
	return d.Held.Append(rec.Append(nil))
}

// ReleaseHeld returns the URLs that former flags held back to RobotsCache while the stock is below its
// target.
func (d *Stage) ReleaseHeld(ctx context.Context) error {
	for left := d.heldState.Left; left > 0 && ctx.Err() == nil; { // only this stage changes it
		if d.space.Pausing() != "" {
			account.Sleep(ctx, space.Every)
			continue
		}
		if d.waitsForRoom(ctx, d.wakeHeld) {
			continue
		}
		data, ok, err := d.Held.Peek()
		if err != nil {
			return err
		}
		if err := d.run.Transact(func(tx *account.Tx) error {
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
			d.Held.Advance()
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
func (d *Stage) DeferURL(tx *account.Tx, rec *weburl.Record, from state.Place, due time.Time,
	why state.Reason) error {
	tx.MoveFor(d.saved.Hasher.URLKey(rec.URL), from, state.PlaceDeferred, why, state.Reason(rec.Reason))
	tx.Count(state.CountDeferrals, 1)
	if err := d.walk.Deferred(tx, rec.URL, due, why); err != nil {
		return err
	}
	if d.orders.Any() {
		d.orders.Moved(d.saved.Hasher.URLKey(rec.URL), false)
	}
	rec.Reason, rec.Extra = uint8(why), nil
	now := time.Now()
	if why == state.ReasonRevisit {
		tx.Wake(d.wakeVisits)
		return d.Deferred.Append(now, due, queue.Bulk, rec.Append(nil))
	}
	tx.Wake(d.wakeDeferred)
	if why == state.ReasonHostBacklog || why == state.ReasonEvicted || why == state.ReasonNetworkLease {
		due = due.Add(-Lead(due.Sub(now)))
	}
	return d.Deferred.Append(now, due, queue.Usual, rec.Append(nil))
}

// Lead returns how much earlier a URL returns that waits only for its host. The calendar may be late by as
// much, and the host should not wait for the URL. A URL that finds no room in RAM waits again, for at most
// a quarter of the time.
func Lead(delay time.Duration) time.Duration { return max(0, delay/4) }

// waitsForRoom waits if the stock has no room for a URL that returns. It returns true if it has waited: the caller
// must look again. Room that a settled page makes ends the wait at once.
func (d *Stage) waitsForRoom(ctx context.Context, wake account.Signal) bool {
	if d.stock.RoomForReturning() {
		return false
	}
	d.wantRoom.Add(1)
	defer d.wantRoom.Add(-1)
	if !d.stock.RoomForReturning() { // none was made meanwhile
		d.run.Await(ctx, wake, account.WakeAfter)
	}
	return true
}

// RoomMade wakes the goroutines that wait for room in the stock.
func (d *Stage) RoomMade() {
	if d.wantRoom.Load() > 0 && d.stock.RoomForReturning() {
		d.wakeDeferred.Raise()
		d.wakeHeld.Raise()
	}
}

// ReadDeferred returns due URLs to RobotsCache, but for visits.
func (d *Stage) ReadDeferred(ctx context.Context) error {
	var setBack time.Duration
	for ctx.Err() == nil {
		if back := d.Deferred.SetBack(); back != setBack {
			d.opt.Log.Warn("the clock was set back: deferred URLs keep their remaining wait",
				"by", (back - setBack).Round(time.Second))
			setBack = back
		}
		if d.others.Quiet() {
			d.run.Await(ctx, d.wakeDeferred, account.WakeAfter)
			continue
		}
		if d.waitsForRoom(ctx, d.wakeDeferred) {
			continue
		}
		err := d.readDue(ctx, queue.Usual, d.wakeDeferred, func(tx *account.Tx, data []byte, rec *weburl.Record) error {
			if state.Reason(rec.Reason) == state.ReasonRevisit { // an earlier release had one class
				tx.Wake(d.wakeVisits)
				now := time.Now()
				return d.Deferred.Append(now, now, queue.Bulk, data)
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

// ReadVisits sends URLs that are to be visited again to STAR while it has room.
func (d *Stage) ReadVisits(ctx context.Context) error {
	for ctx.Err() == nil {
		if d.others.Quiet() || d.opt.Recrawl != nil && d.others.Budgets.Crowded() {
			d.run.Await(ctx, d.wakeVisits, time.Second)
			continue
		}
		err := d.readDue(ctx, queue.Bulk, d.wakeVisits, func(tx *account.Tx, data []byte, rec *weburl.Record) error {
			// The clock of an earlier release made its slot look like one of visits.
			if state.Reason(rec.Reason) != state.ReasonRevisit {
				tx.Wake(d.wakeDeferred)
				now := time.Now()
				return d.Deferred.Append(now, now, queue.Usual, data)
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
func (d *Stage) readDue(ctx context.Context, class queue.Class, wake account.Signal,
	move func(tx *account.Tx, data []byte, rec *weburl.Record) error) error {
	data, ok, err := d.Deferred.Peek(time.Now(), class)
	if err != nil {
		return err
	}
	if !ok {
		d.run.Await(ctx, wake, d.Deferred.UntilDue(time.Now(), class, account.WakeAfter))
		return nil
	}
	return d.run.Transact(func(tx *account.Tx) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return fmt.Errorf("crawl: record from deferred URLs: %w", err)
		}
		if err := move(tx, data, &rec); err != nil {
			return err
		}
		d.Deferred.Advance(class)
		return nil
	})
}

// Refuse ends a URL without a response. It is part of a transaction. A URL that was enqueued and has been fetched
// meanwhile has a response, and ends with that.
func (d *Stage) Refuse(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) error {
	if met, err := d.MetOrder(tx, rec, from); met || err != nil {
		return err
	}
	if why == state.ReasonForbiddenAddress || why == state.ReasonForbiddenPort {
		return d.hold(tx, rec, from, why)
	}
	if again, err := d.failedVisit(tx, rec, from, why); again || err != nil {
		return err
	}
	if is, err := d.refusedOrder(tx, rec, from, why); is || err != nil {
		return err
	}
	tx.MoveFor(d.saved.Hasher.URLKey(rec.URL), from, state.PlaceRefused, why, state.Reason(rec.Reason))
	if err := d.walk.Refused(tx, rec.URL); err != nil {
		return err
	}
	d.run.NoteProgress()
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
func (d *Stage) tryHTTPFallback(tx *account.Tx, rec *weburl.Record) error {
	rest, ok := bytes.CutPrefix(rec.URL, []byte("https://"))
	if !ok {
		return nil
	}
	b := admit.NewBatch(d.opt.Links)
	b.Start(nil, nil, rec.Depth, weburl.FlagSeed, time.Now())
	url, err := weburl.Canonical("http://" + string(rest))
	if err != nil {
		d.output.LogSeed("http://"+string(rest), "bad-seed: "+err.Error())
		return nil
	}
	b.Add([]byte(url))
	return d.others.SendLinks(b, tx)
}

// Evicted defers URLs that have left RAM. It is part of a transaction.
func (d *Stage) Evicted(tx *account.Tx, items []*polite.Item, why state.Reason) error {
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
func (d *Stage) DropBlocked(tx *account.Tx, item *polite.Item) error {
	var rec weburl.Record
	if err := rec.Decode(item.Rec); err != nil {
		return fmt.Errorf("crawl: record in RAM: %w", err)
	}
	if d.opt.Rules.Closed(item.Addrs) {
		return d.Refuse(tx, &rec, state.PlaceRAM, state.ReasonBlocked)
	}
	return d.check.CheckRobots(tx, item.Rec, &rec, state.PlaceRAM)
}
