package crawl

import (
	"strings"
	"testing"
	"time"
)

// TestVisitsAfter503 holds checkVisits to the rests that it must see: that of a page's 503, and the shorter one after a 503 to a
// request for rules. Rules may lie on another host than theirs: that one rests then.
func TestVisitsAfter503(t *testing.T) {
	w := newCutWorld(t, *seedFlag)
	for _, c := range []struct {
		ill  string
		rest time.Duration
	}{
		{"/page.html", firstBackoff},
		{"/robots.txt", robotsBackoff},
		{"/robots-for/11.txt", robotsBackoff}, // where another host's robots.txt redirects to
	} {
		for _, next := range []string{"/robots.txt", "/robots-for/12.txt", "/other.html"} {
			for _, early := range []time.Duration{0, time.Millisecond} {
				first := visit{url: "http://a.test" + c.ill, host: "a.test", robots: c.ill == "/robots.txt", ill: true, covered: true,
					end: time.Unix(1e9, 0)}
				then := visit{url: "http://a.test" + next, host: "a.test", start: first.end.Add(c.rest - early)}
				l := &life{world: w, wit: &witness{visits: []visit{first, then}}}
				found := strings.Contains(strings.Join(l.checkVisits(), "\n"), "the host was to rest")
				if want := early > 0; found != want {
					t.Errorf("%s answered 503, %s asked for %v later: fault %v, want %v", c.ill, next, c.rest-early, found, want)
				}
			}
		}
	}
}
