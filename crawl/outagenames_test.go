package crawl

import (
	"maps"
	"testing"
	"time"

	"drumbeat/internal/simweb"
)

// TestNamesHeal: after an outage of the name servers of minutes or hours the crawl fetches all pages and refuses none
// because of it. It must not end while URLs wait for hosts whose robots.txt has been read meanwhile.
func TestNamesHeal(t *testing.T) {
	notShort(t)
	var want *Result
	inBubble(t, func(t *testing.T) { want = undisturbed(t) })
	for _, lasts := range []time.Duration{3 * time.Minute, 20 * time.Minute, time.Hour, 5 * time.Hour} {
		inBubble(t, func(t *testing.T) {
			names := func(*simweb.Web) simweb.Outage { return simweb.Outage{DNS: true} }
			res := outageCrawl(t, 1500*time.Millisecond, lasts, names, nil)
			for what, both := range map[string][2]map[string]int64{
				"refused":  {res.Snapshot.Refused, want.Snapshot.Refused},
				"deferred": {res.Snapshot.Deferred, want.Snapshot.Deferred},
			} {
				if !maps.Equal(both[0], both[1]) {
					t.Errorf("an outage of %v: %s %v at the end, %v without the outage", lasts, what, both[0], both[1])
				}
			}
		})
	}
}
