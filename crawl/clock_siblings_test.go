package crawl

import (
	"testing"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// TestVerdictAfterClockWasAhead: a robots.txt that allowed URLs while the clock was ahead binds them no
// longer than usual once the clock is right. Those that wait in Q are decided again, each once.
func TestVerdictAfterClockWasAhead(t *testing.T) {
	for _, ahead := range []time.Duration{30 * time.Hour, year} {
		t.Run(ahead.String(), func(t *testing.T) {
			fs, forbids := memfs.New(*seedFlag), false
			web := &tinyWeb{Serve: func(_, path string) answer {
				if path == "/robots.txt" && forbids {
					return answer{200, "", "User-agent: *\nDisallow: /"}
				}
				return pagesOnly("", path)
			}}
			inBubble(t, func(t *testing.T) {
				time.Sleep(ahead)
				runToQ(t, fs, web, 40*time.Second)
			})
			forbids, web.Requests = true, nil
			inBubble(t, func(t *testing.T) {
				res := mustRun(t, t.Context(), tinyOptions(t, web, fs, urls("a", 60, 5)...))
				if pages, asked := len(web.Pages("a")), len(web.Requests); pages > 0 || asked > 60 {
					t.Errorf("%s: %d pages of 60 hosts that forbid them, %d requests", res.Stop, pages, asked)
				}
			})
		})
	}
}

// TestVerdictAfterDelaysBecameShorter: a verdict lasts until the host's next visit, 28 hours with a delay of
// 26. A run with shorter delays takes it for one of a clock that was ahead, and asks for robots.txt once
// more, not without end.
func TestVerdictAfterDelaysBecameShorter(t *testing.T) {
	notShort(t)
	fs, web := memfs.New(*seedFlag), &tinyWeb{Serve: pagesOnly}
	inBubble(t, func(t *testing.T) {
		runToQ(t, fs, web, 26*time.Hour)
		web.Requests = nil
		res := mustRun(t, t.Context(), tinyOptions(t, web, fs, urls("a", 60, 5)...))
		if robots := len(web.Requests) - len(web.Pages("a")); res.Stop != StopDone || robots == 0 || robots > 2*60 {
			t.Errorf("%s after %v: %d requests for the robots.txt of 60 hosts", res.Stop, res.Snapshot.Elapsed, robots)
		}
	})
}

// runToQ crawls until URLs of 60 hosts wait in Q with their verdicts, because RAM is full.
func runToQ(t *testing.T, fs disk.FS, web *tinyWeb, delay time.Duration) {
	t.Helper()
	opt := tinyOptions(t, web, fs, urls("a", 60, 5)...)
	opt.Politeness.HostDelay, opt.Limits.MaxTime = delay, 4*time.Minute
	opt.tests.tune = func(p *plan.Plan) { p.PoliteBytes = 8 * plan.PoliteItemBytes }
	if s := mustRun(t, t.Context(), opt).Snapshot; s.Place(state.PlaceReady) < 50 {
		t.Fatalf("%d URLs wait in Q: %v", s.Place(state.PlaceReady), s.Places)
	}
}
