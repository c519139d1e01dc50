package crawl

import (
	"context"
	"fmt"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/weburl"
)

// openHeld compares the flags with those of the last run; changed is true when they are others.
func (r *ring) openHeld(m *state.Manifest) (changed bool) {
	if m == nil {
		r.heldState = state.Held{Flags: r.opt.NetworkFlags}
		return false
	}
	r.heldState = m.Held
	if m.Held.Flags == r.opt.NetworkFlags {
		return false
	}
	n, _ := r.held.Len()
	// Later than every verdict so far, which verdictTime may have put after the last manifest.
	since := max(time.Now().Unix(), m.Time+1, m.Held.Since+1)
	r.heldState = state.Held{Flags: r.opt.NetworkFlags, Since: since, Left: n}
	if n > 0 {
		r.opt.Log.Info("other network flags than before: what those held back is tried again", "urls", n)
	}
	return true
}

// verdictTime is when a verdict on forbidden addresses counts as made: not before this run's flags, even if the clock went
// back or the last run ended in this very second.
func (r *ring) verdictTime(now time.Time) time.Time {
	if since := time.Unix(r.heldState.Since, 0); now.Before(since) {
		return since
	}
	return now
}

// hold takes a URL out of the ring that the operator's flags forbid; part of a step. The crawl log has no line of it: it
// hasn't ended. For a seed without a scheme the other form isn't tried: it has the same host and no better port.
func (r *ring) hold(d *delta, rec *weburl.Record, from state.Place, why state.Reason) error {
	d.moves = append(d.moves, move{key: r.Hasher.URLKey(rec.URL), from: from, to: state.PlaceHeld, reason: why, was: state.Reason(rec.Reason)})
	r.touch()
	if rec.Flags&weburl.FlagSeed != 0 {
		r.logSeed(string(rec.URL), why.String())
	}
	rec.Reason, rec.Extra = uint8(why), nil
	return r.held.Append(rec.Append(nil))
}

// releaseHeld gives what other flags held back to RobotsCache again, while the stock is below its target.
func (r *ring) releaseHeld(ctx context.Context) error {
	for left := r.heldState.Left; left > 0 && ctx.Err() == nil; { // this mover alone changes it
		if r.space.why() != "" || r.stocked() {
			sleep(ctx, spaceEvery)
			continue
		}
		data, ok, err := r.held.Peek()
		if err != nil {
			return err
		}
		if err := r.inStep(func(d *delta) error {
			if !ok { // a repair could not save all
				r.heldState.Left = 0
				return nil
			}
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: record of %s: %w", state.PlaceHeld, err)
			}
			if err := r.checkRobots(d, data, &rec, state.PlaceHeld); err != nil {
				return err
			}
			r.held.Advance()
			r.heldState.Left--
			return nil
		}); err != nil {
			return err
		}
		left = r.heldState.Left
	}
	return nil
}
