package crawl

import (
	"testing"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk/memfs"
)

// TestFlagsAfterClockWasAhead: the network flags change after a run whose clock was a year ahead. Hosts that the new
// flags forbid are decided once, and not asked for without end until the clock has caught up.
func TestFlagsAfterClockWasAhead(t *testing.T) {
	fs, w := memfs.New(*seedFlag), &insideWeb{}
	seeds := []string{"http://a.test:8080/", "http://b.test/", "http://127.16.0.9/"}
	run := func(t *testing.T, allowed ...uint16) *Result {
		opt := w.options(t, seeds...)
		opt.FS, opt.MaxTime = fs, aDay
		w.flags(t, &opt, nil, allowed...)
		return mustRun(t, t.Context(), opt)
	}
	inBubble(t, func(t *testing.T) {
		time.Sleep(year)
		run(t)
	})
	inBubble(t, func(t *testing.T) {
		time.Sleep(aDay)
		res := run(t, 8080)
		s := &res.Snapshot
		if n := s.Count(state.CountLookups); res.Stop != StopDone || s.Place(state.PlaceHeld) != 3 || n > 20 {
			t.Errorf("%s after %v: %d lookups, %d URLs held, places %v", res.Stop, s.Elapsed, n, s.Place(state.PlaceHeld), s.Places)
		}
	})
}
