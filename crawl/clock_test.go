package crawl

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// year is the time by which the clock is ahead in these tests.
const year = 365 * aDay

// clockWeb has four kinds of hosts that make the crawl wait: b refuses, d fails with a Retry-After of 10
// hours, r has an unreachable robots.txt, x doesn't exist. Hosts n answer. Once *fixed is true all answer.
func clockWeb(fixed *bool) *tinyWeb {
	return &tinyWeb{
		Serve: func(host, path string) answer {
			switch robots := path == "/robots.txt"; {
			case robots && !*fixed && strings.HasPrefix(host, "r"):
				return answer{503, "", ""}
			case robots:
				return noRobots
			case *fixed || strings.HasPrefix(host, "n"):
				return answer{200, "", "<html>x"}
			case strings.HasPrefix(host, "b"):
				return answer{403, "", "no"}
			}
			return answer{503, "Retry-After: 36000\r\n", ""}
		},
		Lookup: func(host string) (string, error) {
			if strings.HasPrefix(host, "x") && !*fixed {
				return "", fmt.Errorf("no such host")
			}
			return "", nil
		},
	}
}

// TestClockThatWasAhead: when a crawl starts with a clock that is a year ahead and resumes after the clock
// is corrected, it must neither wait for back-offs, retries or visit times until that year is over, nor
// forget them.
func TestClockThatWasAhead(t *testing.T) {
	notShort(t)
	fs, fixed := memfs.New(*seedFlag), false
	web := clockWeb(&fixed)
	options := func(t *testing.T) Options {
		var seeds []string
		for _, kind := range []string{"b", "d", "r", "x", "n"} {
			seeds = append(seeds, urls(kind, 2, 15)...)
		}
		opt := tinyOptions(t, web, fs, seeds...)
		withHealth(&opt)
		return opt
	}
	var ended time.Duration          // time before the end of the first run
	inBubble(t, func(t *testing.T) { // each bubble starts in the year 2000
		time.Sleep(year)
		opt := options(t)
		opt.Limits.MaxTime = time.Hour
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Places[state.PlaceDeferred]; n < 40 {
			t.Errorf("%d URLs wait: %v", n, res.Snapshot.Deferred)
		}
		ended = res.Snapshot.Elapsed
	})
	fixed, web.Requests = true, nil
	inBubble(t, func(t *testing.T) {
		opt := options(t)
		start := time.Now()
		opt.Limits.MaxTime = 30 * aDay
		var log bytes.Buffer
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone || res.Snapshot.Elapsed > 4*aDay {
			t.Errorf("stopped by %q after %v: %v", res.Stop, res.Snapshot.Elapsed, res.Snapshot.Deferred)
		}
		if n := strings.Count(log.String(), "clock was set back"); n != 1 {
			t.Errorf("the log reports %d times that the clock was set back, want 1", n)
		}
		for kind, least := range map[string]time.Duration{"b": aDay, "d": 10 * time.Hour, "r": 0, "x": 0} {
			rs := web.Pages(kind)
			if len(rs) == 0 {
				t.Errorf("%s got no request", kind)
			} else if d := rs[0].At.Sub(start); d < least-ended || d > 3*aDay {
				t.Errorf("%s got a request after %v, want %v at least", kind, d, least-ended)
			}
		}
	})
}
