package crawl

import (
	"context"
	"fmt"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/weburl"
)

// openHeld compares the flags with those of the last run; changed is true when they are others.
func (c *crawler) openHeld(m *state.Manifest) (changed bool) {
	if m == nil {
		c.heldState = state.Held{Flags: c.opt.NetworkFlags}
		return false
	}
	c.heldState = m.Held
	if m.Held.Flags == c.opt.NetworkFlags {
		return false
	}
	n, _ := c.held.Len()
	// Later than every verdict so far, which verdictTime may have put after the last manifest.
	since := max(time.Now().Unix(), m.Time+1, m.Held.Since+1)
	c.heldState = state.Held{Flags: c.opt.NetworkFlags, Since: since, Left: n}
	if n > 0 {
		c.opt.Log.Info("other network flags than before: what those held back is tried again", "urls", n)
	}
	return true
}

// verdictTime is when a verdict on forbidden addresses counts as made: not before this run's flags, even if the clock went
// back or the last run ended in this very second.
func (c *crawler) verdictTime(now time.Time) time.Time {
	if since := time.Unix(c.heldState.Since, 0); now.Before(since) {
		return since
	}
	return now
}

// hold takes a URL out of the crawler that the operator's flags forbid; part of a transaction. The crawl log has no line of it: it
// hasn't ended. For a seed without a scheme the other form isn't tried: it has the same host and no better port.
func (c *crawler) hold(tx *transaction, rec *weburl.Record, from state.Place, why state.Reason) error {
	tx.moves = append(tx.moves, move{key: c.Hasher.URLKey(rec.URL), from: from, to: state.PlaceHeld, reason: why, was: state.Reason(rec.Reason)})
	c.noteProgress()
	if rec.Flags&weburl.FlagSeed != 0 {
		c.logSeed(string(rec.URL), why.String())
	}
	rec.Reason, rec.Extra = uint8(why), nil
	return c.held.Append(rec.Append(nil))
}

// releaseHeld gives what other flags held back to RobotsCache again, while the stock is below its target.
func (c *crawler) releaseHeld(ctx context.Context) error {
	for left := c.heldState.Left; left > 0 && ctx.Err() == nil; { // this stage alone changes it
		if c.space.why() != "" || c.stocked() {
			sleep(ctx, spaceEvery)
			continue
		}
		data, ok, err := c.held.Peek()
		if err != nil {
			return err
		}
		if err := c.transact(func(tx *transaction) error {
			if !ok { // a repair could not save all
				c.heldState.Left = 0
				return nil
			}
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record of %s: %w", state.PlaceHeld, err)
			}
			if err := c.checkRobots(tx, data, &rec, state.PlaceHeld); err != nil {
				return err
			}
			c.held.Advance()
			c.heldState.Left--
			return nil
		}); err != nil {
			return err
		}
		left = c.heldState.Left
	}
	return nil
}
