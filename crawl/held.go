package crawl

import (
	"context"
	"fmt"
	"time"

	"drumbeat/crawl/state"
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
