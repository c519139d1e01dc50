package crawl

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk/memfs"
)

// year is by how much the clocks of these tests were ahead.
const year = 365 * aDay

// clockWeb has hosts of each kind that is waited for: b refuses, d fails and asks for 10 hours, r has an unreachable robots.txt, x doesn't
// exist; n is well. From mended on all answer.
func clockWeb(mended *bool) *tinyWeb {
	return &tinyWeb{
		serve: func(host, path string) answer {
			switch robots := path == "/robots.txt"; {
			case robots && !*mended && strings.HasPrefix(host, "r"):
				return answer{503, "", ""}
			case robots:
				return noRobots
			case *mended || strings.HasPrefix(host, "n"):
				return answer{200, "", "<html>x"}
			case strings.HasPrefix(host, "b"):
				return answer{403, "", "no"}
			}
			return answer{503, "Retry-After: 36000\r\n", ""}
		},
		lookup: func(host string) (string, error) {
			if strings.HasPrefix(host, "x") && !*mended {
				return "", fmt.Errorf("no such host")
			}
			return "", nil
		},
	}
}

// TestClockThatWasAhead: a crawl begins while the clock is a year ahead, and goes on when it has been set right. No rest, retry or turn
// that was noted meanwhile lasts until the year is over, and none is forgotten.
func TestClockThatWasAhead(t *testing.T) {
	fs, mended := memfs.New(*seedFlag), false
	web := clockWeb(&mended)
	options := func(t *testing.T) Options {
		var seeds []string
		for _, kind := range []string{"b", "d", "r", "x", "n"} {
			seeds = append(seeds, urls(kind, 2, 15)...)
		}
		opt := web.options(t, fs, seeds...)
		withHealth(&opt)
		return opt
	}
	var ended time.Duration          // before the first run's end
	inBubble(t, func(t *testing.T) { // each bubble begins in 2000
		time.Sleep(year)
		opt := options(t)
		opt.MaxTime = time.Hour
		res := mustRun(t, t.Context(), opt)
		if n := res.Snapshot.Places[state.PlaceDeferred]; n < 40 {
			t.Errorf("%d URLs wait: %v", n, res.Snapshot.Deferred)
		}
		ended = res.Snapshot.Elapsed
	})
	mended, web.requests = true, nil
	inBubble(t, func(t *testing.T) {
		opt := options(t)
		start := time.Now()
		opt.MaxTime = 30 * aDay
		var log bytes.Buffer
		opt.Log = slog.New(slog.NewTextHandler(&log, nil))
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone || res.Snapshot.Elapsed > 4*aDay {
			t.Errorf("stopped by %q after %v: %v", res.Stop, res.Snapshot.Elapsed, res.Snapshot.Deferred)
		}
		if n := strings.Count(log.String(), "clock was set back"); n != 1 {
			t.Errorf("the log says %d times that the clock was set back", n)
		}
		for kind, least := range map[string]time.Duration{"b": aDay, "d": 10 * time.Hour, "r": 0, "x": 0} {
			rs := web.pages(kind)
			if len(rs) == 0 {
				t.Errorf("nothing was asked of %s", kind)
			} else if d := rs[0].at.Sub(start); d < least-ended || d > 3*aDay {
				t.Errorf("%s was asked after %v, want %v at least", kind, d, least-ended)
			}
		}
	})
}
