package condition_test

import (
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/testworld"
	"drumbeat/state"
	"drumbeat/state/condition"
	"drumbeat/state/snapshot"
)

// TestForecast: after a tenth of a crawl of one host, the forecast is the time that the crawl then takes, within 10 %.
func TestForecast(t *testing.T) {
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		w := newWorld(t)
		type forecast struct{ at, left time.Duration }
		var list []forecast
		last := time.Duration(0)
		w.opt.Observe.SnapshotEvery = time.Second
		w.opt.Observe.Snapshot = func(s *crawl.Snapshot) {
			if p := condition.ProgressOf(s); p.Queued > 0 {
				list, last = append(list, forecast{s.Elapsed, p.Left}), s.Elapsed
			}
		}
		if _, err := crawl.Run(t.Context(), w.opt); err != nil {
			t.Fatal(err)
		}
		checked := 0
		for _, f := range list {
			real := last - f.at
			if f.at < 40*time.Second || real < 20*time.Second {
				continue
			}
			checked++
			if f.left < real*9/10 || f.left > real*11/10+3*time.Second {
				t.Errorf("at %v: %v left by the forecast, %v really", f.at, f.left, real)
			}
		}
		if checked < 200 {
			t.Errorf("%d forecasts of a crawl of %v", checked, last)
		}
	})
}

// TestProgress: a queue that grows has no end; one that shrinks has, and the longest host can be later.
func TestProgress(t *testing.T) {
	s := busy(func(s *snap) {
		s.Recent = snapshot.Window{Over: 10 * time.Second, Pages: 100, Ended: 100, New: 300}
		s.Places[state.PlaceBeast], s.Places[state.PlaceFetched], s.Places[state.PlaceOverBudget] = 1000, 1000, 77
	})
	p := condition.ProgressOf(s)
	if p.Grows != 20 || p.Left != 0 || p.Queued != 1000 ||
		p.String() != "1,000 URLs of 2,000 done (50 %), 10 pages per second, the queue grows by 20 URLs per second" {
		t.Errorf("%v %+v", &p, p)
	}
	s.Recent.New, s.Recent.Pages = 50, 0
	s.Longer = snapshot.Window{Over: 30 * time.Second, Pages: 3, Ended: 300, New: 150}
	if p = condition.ProgressOf(s); p.Left != 200*time.Second || !strings.HasSuffix(p.String(),
		"no page in 10 s, one page in 10 s over 30 s, about 3 min 20 s left") {
		t.Errorf("%v %+v", &p, p)
	}
	s.LongestHost = time.Hour
	if p = condition.ProgressOf(s); p.Left != time.Hour {
		t.Errorf("%+v", p)
	}
	s.Places[state.PlaceFetched], s.Places[state.PlaceRefused] = 0, 0
	if p = condition.ProgressOf(s); p.Rest() != "" {
		t.Errorf("before the first URL is done: %q", p.Rest())
	}
	s.Places[state.PlaceFetched], s.Recent.Over = 1, time.Second
	if p = condition.ProgressOf(s); p.Rest() != "" {
		t.Errorf("after a second: %q", p.Rest())
	}
}
