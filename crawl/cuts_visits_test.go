package crawl

import (
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/gate"
)

// TestVisitsAfter503: checkVisits must report a request within the back-off after a 503. The back-off after
// a request for robots.txt is shorter than after one for a page. When robots.txt redirects to another host,
// that host backs off.
func TestVisitsAfter503(t *testing.T) {
	w := newCutWorld(t, *seedFlag)
	for _, c := range []struct {
		ill     string
		backoff time.Duration
	}{
		{"/page.html", DefaultBackoff},
		{"/robots.txt", gate.RobotsBackoff},
		{"/robots-for/11.txt", gate.RobotsBackoff}, // target of another host's robots.txt redirect
	} {
		for _, next := range []string{"/robots.txt", "/robots-for/12.txt", "/other.html"} {
			for _, early := range []time.Duration{0, time.Millisecond} {
				first := witnessed{url: "http://a.test" + c.ill, host: "a.test", robots: c.ill == "/robots.txt",
					ill: true, covered: true, end: time.Unix(1e9, 0)}
				then := witnessed{url: "http://a.test" + next, host: "a.test", start: first.end.Add(c.backoff - early)}
				l := &life{world: w, wit: &witness{visits: []witnessed{first, then}}}
				found := strings.Contains(strings.Join(l.checkVisits(), "\n"), "of the host's back-off")
				if want := early > 0; found != want {
					t.Errorf("%s answered 503, %s requested %v later: fault %v, want %v", c.ill, next,
						c.backoff-early, found, want)
				}
			}
		}
	}
}
