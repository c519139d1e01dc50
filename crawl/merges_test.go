package crawl

import (
	"testing"
	"time"

	"drumbeat/crawl/state"
)

// TestRobotsCacheIsNotPatient: what waits in RobotsCache is no work for fetchers that have nothing else. When it counted as
// such, a merge for 4,096 URLs among 10^6 origins waited 300 ms for more, and so did the fetchers, each time.
func TestRobotsCacheIsNotPatient(t *testing.T) {
	r := &ring{opt: Options{Connections: 256}}
	const took = 2 * time.Millisecond
	last := time.Now()
	m := merger{keys: func() int64 { return 1_000_000 }, cost: func() time.Duration { return took }, starving: r.starvingForVerdicts}
	for _, c := range []struct {
		ready int64
		want  time.Duration
	}{{0, dryDuty * took}, {127, dryDuty * took}, {128, dryPatience}} {
		r.acct.s.Places[state.PlaceRobotsCheck].N, r.acct.s.Places[state.PlaceReady].N = 4096, c.ready
		if got := r.dryDue(&m, 4096, last, took).Sub(last); got != c.want {
			t.Errorf("%d URLs ready: the merge waits %v, want %v", c.ready, got, c.want)
		}
	}
}
