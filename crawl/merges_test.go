package crawl

import (
	"testing"
	"time"

	"drumbeat/crawl/state"
)

// TestRobotsCacheIsNotPatient: URLs that wait in RobotsCache must not count as work for idle fetchers. When
// they did, a merge for 4,096 URLs among 10^6 origins waited 300 ms for more each time, and so did the
// fetchers.
func TestRobotsCacheIsNotPatient(t *testing.T) {
	c := newCrawler(Options{Connections: 256})
	const took = 2 * time.Millisecond
	last := time.Now()
	m := merger{keys: func() int64 { return 1_000_000 }, cost: func() time.Duration { return took }, starving: c.passes.starvingForVerdicts}
	for _, test := range []struct {
		ready int64
		want  time.Duration
	}{{0, earlyDuty * took}, {127, earlyDuty * took}, {128, earlyPatience}} {
		c.acct.s.Places[state.PlaceRobotsCheck].N, c.acct.s.Places[state.PlaceReady].N = 4096, test.ready
		if got := c.passes.earlyDue(&m, 4096, last, took).Sub(last); got != test.want {
			t.Errorf("%d URLs ready: the merge waits %v, want %v", test.ready, got, test.want)
		}
	}
}
