package polite_test

import (
	"testing"
	"time"

	"drumbeat/polite"
)

// visit waits for the next grant of the only host, ends it after 10 ms, and returns when it was granted.
func visit(t *testing.T, s *polite.Scheduler, now time.Time, r polite.Result) time.Time {
	t.Helper()
	for {
		g, wait := s.Next(now)
		if g == nil {
			if wait == polite.Forever {
				t.Fatal("nothing is scheduled")
			}
			now = now.Add(wait)
			continue
		}
		s.Started(now, g)
		s.Done(now.Add(ms(10)), g, r)
		return now
	}
}

// TestSetHostDelay: a host's own delay replaces τh, at once, and neither Crawl-delay nor
// back-off gets shorter.
func TestSetHostDelay(t *testing.T) {
	s := polite.New(paper(), t0)
	for range 20 {
		admit(t, s, t0, item(1, 1, v4(1)))
	}
	at := visit(t, s, t0, polite.Result{})
	want := func(r polite.Result, gap time.Duration, what string) {
		t.Helper()
		wantGaps(t, what, gaps(t, s, &at, 1, r), gap)
	}
	want(polite.Result{}, 40*time.Second, "the default")
	s.SetHostDelay(1, 100*time.Second)
	want(polite.Result{}, 100*time.Second, "a longer delay, set while the host is in its delay")
	s.SetHostDelay(1, 5*time.Second)
	want(polite.Result{}, 5*time.Second, "a shorter delay, set while the host is in its delay")
	want(polite.Result{}, 5*time.Second, "a shorter delay")
	want(polite.Result{CrawlDelay: 20 * time.Second}, 5*time.Second, "before the Crawl-delay is known")
	want(polite.Result{Backoff: time.Minute}, 20*time.Second, "with a Crawl-delay of 20 s")
	want(polite.Result{CrawlDelay: time.Nanosecond}, time.Minute, "after a failure")
	s.SetHostDelay(1, -1)
	gaps(t, s, &at, 1, polite.Result{})
	want(polite.Result{}, 40*time.Second, "the default again")
}

// TestGaps: the smallest gaps count from the end of an exchange with a host, and from start to start at an
// address.
func TestGaps(t *testing.T) {
	s := polite.New(paper(), t0)
	if g := s.Gaps(); g.Host != polite.Forever || g.Server != polite.Forever {
		t.Errorf("before the first visit: %v", g)
	}
	for range 3 {
		admit(t, s, t0, item(1, 1, v4(1)))
	}
	admit(t, s, t0, item(2, 2, v4(1)))
	at := visit(t, s, t0, polite.Result{}) // host 1
	at = visit(t, s, at.Add(ms(10)), polite.Result{})
	if g := s.Gaps(); g.Host != polite.Forever || g.Server != time.Second {
		t.Errorf("after a visit to each host: %v", g)
	}
	at = visit(t, s, at.Add(ms(10)), polite.Result{})
	if g := s.Gaps(); g.Host != 40*time.Second || g.Server != time.Second {
		t.Errorf("after a second visit to a host: %v", g)
	}
	s.SetHostDelay(1, 100*time.Second)
	visit(t, s, at.Add(ms(10)), polite.Result{})
	if g := s.Gaps(); g.Host != 40*time.Second || g.Server != time.Second {
		t.Errorf("a longer gap: %v", g)
	}
}
