package crawl

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/weburl"
)

// deferrals is where URLs wait on disk for a time, or for other flags, and where they end without a response.
//
// Producers: all stages behind BEAST (deferURL, hold, refuse). Consumers: its goroutines "deferred" and "held", which give
// URLs back to RobotsCache.
type deferrals struct {
	*engine
	deferred     *queue.Calendar
	wakeDeferred signal
	held         *queue.Queue
	heldState    state.Held // guarded by the transaction lock; its Since never changes

	check  *robotsCheck
	output *output
	seen   *seenStage
	space  *space
	stock  *stockKeeper
}

func newDeferrals(e *engine) *deferrals {
	return &deferrals{engine: e, wakeDeferred: e.pulsedSignal()}
}

// openHeld compares the flags with those of the last run; changed is true when they are others.
func (d *deferrals) openHeld(m *state.Manifest) (changed bool) {
	if m == nil {
		d.heldState = state.Held{Flags: d.opt.NetworkFlags}
		return false
	}
	d.heldState = m.Held
	if m.Held.Flags == d.opt.NetworkFlags {
		return false
	}
	n, _ := d.held.Len()
	// Later than every verdict so far, which verdictTime may have put after the last manifest.
	since := max(time.Now().Unix(), m.Time+1, m.Held.Since+1)
	d.heldState = state.Held{Flags: d.opt.NetworkFlags, Since: since, Left: n}
	if n > 0 {
		d.opt.Log.Info("other network flags than before: what those held back is tried again", "urls", n)
	}
	return true
}

// freeze notes what is held.
func (d *deferrals) freeze(m *moment) { m.held = d.heldState }

// sinceFlags says whether something was found out under the flags of this run, not under others.
func (d *deferrals) sinceFlags(at time.Time) bool { return at.Unix() >= d.heldState.Since }

// heldLeft is how many URLs that other flags held back are to be tried again.
func (d *deferrals) heldLeft() int64 { return d.heldState.Left }

// nextDue is when the first of the deferred URLs comes back; false if there is none.
func (d *deferrals) nextDue(now time.Time) (time.Time, bool) { return d.deferred.NextDue(now) }

// verdictTime is when a verdict on forbidden addresses counts as made: not before this run's flags, even if the clock went
// back or the last run ended in this very second.
func (d *deferrals) verdictTime(now time.Time) time.Time {
	if since := time.Unix(d.heldState.Since, 0); now.Before(since) {
		return since
	}
	return now
}

// hold takes a URL out of the crawler that the operator's flags forbid; part of a transaction. The crawl log has no line of it: it
// hasn't ended. For a seed without a scheme the other form isn't tried: it has the same host and no better port.
func (d *deferrals) hold(tx *transaction, rec *weburl.Record, from state.Place, why state.Reason) error {
	tx.moves = append(tx.moves, move{key: d.Hasher.URLKey(rec.URL), from: from, to: state.PlaceHeld, reason: why, was: state.Reason(rec.Reason)})
	d.noteProgress()
	if rec.Flags&weburl.FlagSeed != 0 {
		d.output.logSeed(string(rec.URL), why.String())
	}
	rec.Reason, rec.Extra = uint8(why), nil
	return d.held.Append(rec.Append(nil))
}

// releaseHeld gives what other flags held back to RobotsCache again, while the stock is below its target.
func (d *deferrals) releaseHeld(ctx context.Context) error {
	for left := d.heldState.Left; left > 0 && ctx.Err() == nil; { // this stage alone changes it
		if d.space.why() != "" || d.stock.stocked() {
			sleep(ctx, spaceEvery)
			continue
		}
		data, ok, err := d.held.Peek()
		if err != nil {
			return err
		}
		if err := d.transact(func(tx *transaction) error {
			if !ok { // a repair could not save all
				d.heldState.Left = 0
				return nil
			}
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record of %s: %w", state.PlaceHeld, err)
			}
			if err := d.check.checkRobots(tx, data, &rec, state.PlaceHeld); err != nil {
				return err
			}
			d.held.Advance()
			d.heldState.Left--
			return nil
		}); err != nil {
			return err
		}
		left = d.heldState.Left
	}
	return nil
}

// deferURL lets a URL wait on disk until due; part of a step.
func (d *deferrals) deferURL(tx *transaction, rec *weburl.Record, from state.Place, due time.Time, why state.Reason) error {
	tx.moves = append(tx.moves, move{key: d.Hasher.URLKey(rec.URL), from: from, to: state.PlaceDeferred, reason: why})
	tx.count(state.CountDeferrals, 1)
	rec.Reason, rec.Extra = uint8(why), nil
	tx.wake(d.wakeDeferred)
	now := time.Now()
	if why == state.ReasonHostBacklog || why == state.ReasonEvicted {
		due = due.Add(-lead(due.Sub(now)))
	}
	return d.deferred.Append(now, due, rec.Append(nil))
}

// lead is by how much a URL that waits for its host's turn alone comes back early: as much as the calendar may be late, so
// that the host doesn't wait for the URL. What finds no room in RAM then waits again, for a quarter of the time at most.
func lead(delay time.Duration) time.Duration { return max(0, delay/4) }

// untilDue is how long it is till a calendar's next record is due.
func untilDue(c *queue.Calendar) time.Duration {
	due, any := c.NextDue(time.Now())
	if !any {
		return wakeAfter
	}
	return max(time.Millisecond, time.Until(due))
}

// readDeferred gives URLs whose time has come back to RobotsCache.
func (d *deferrals) readDeferred(ctx context.Context) error {
	var setBack time.Duration
	for ctx.Err() == nil {
		if back := d.deferred.SetBack(); back != setBack {
			d.opt.Log.Warn("the clock was set back: what waits until a time of the former clock waits for what was left of that",
				"by", (back - setBack).Round(time.Second))
			setBack = back
		}
		if d.stock.stocked() {
			d.await(ctx, d.wakeDeferred, wakeAfter)
			continue
		}
		data, ok, err := d.deferred.Peek(time.Now())
		if err != nil {
			return err
		}
		if !ok {
			d.await(ctx, d.wakeDeferred, untilDue(d.deferred))
			continue
		}
		if err := d.transact(func(tx *transaction) error {
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record from later: %w", err)
			}
			if err := d.check.checkRobots(tx, data, &rec, state.PlaceDeferred); err != nil {
				return err
			}
			d.deferred.Advance()
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// refuse ends a URL without a response; part of a transaction.
func (d *deferrals) refuse(tx *transaction, rec *weburl.Record, from state.Place, why state.Reason) error {
	if why == state.ReasonForbiddenAddress || why == state.ReasonForbiddenPort {
		return d.hold(tx, rec, from, why)
	}
	tx.moves = append(tx.moves, move{key: d.Hasher.URLKey(rec.URL), from: from, to: state.PlaceRefused, reason: why,
		was: state.Reason(rec.Reason)})
	d.noteProgress()
	if rec.Flags&weburl.FlagSeedFallback != 0 && why != state.ReasonRobots {
		if err := d.tryHTTPFallback(tx, rec); err != nil {
			return err
		}
	} else if rec.Flags&weburl.FlagSeed != 0 {
		d.output.logSeed(string(rec.URL), why.String())
	}
	return d.output.logRefused(rec, why)
}

// tryHTTPFallback feeds the http form of a seed without scheme whose https form failed; part of a transaction.
func (d *deferrals) tryHTTPFallback(tx *transaction, rec *weburl.Record) error {
	rest, ok := bytes.CutPrefix(rec.URL, []byte("https://"))
	if !ok {
		return nil
	}
	b := admit.NewBatch(d.links)
	b.Start(nil, nil, rec.Depth, weburl.FlagSeed, time.Now())
	url, err := weburl.Canonical("http://" + string(rest))
	if err != nil {
		d.output.logSeed("http://"+string(rest), "bad-seed: "+err.Error())
		return nil
	}
	b.Add([]byte(url))
	return d.seen.sendLinks(b, tx)
}

// evicted defers what left RAM; part of a transaction.
func (d *deferrals) evicted(tx *transaction, items []*polite.Item, why state.Reason) error {
	for _, item := range items {
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if err := d.deferURL(tx, &rec, state.PlaceRAM, item.Due, why); err != nil {
			return err
		}
	}
	return nil
}

// dropBlocked ends a URL that has left RAM because of the blacklist, or lets RobotsCache judge it anew if its host has other
// addresses; part of a transaction.
func (d *deferrals) dropBlocked(tx *transaction, item *polite.Item) error {
	var rec weburl.Record
	if err := rec.Decode(item.Rec); err != nil {
		return fmt.Errorf("crawl: record in RAM: %w", err)
	}
	if d.rules.Closed(item.Addrs) {
		return d.refuse(tx, &rec, state.PlaceRAM, state.ReasonBlocked)
	}
	return d.check.checkRobots(tx, item.Rec, &rec, state.PlaceRAM)
}
