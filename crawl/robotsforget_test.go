package crawl

import (
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// TestForgettingLosesNoURL: a crawl that visits hosts so rarely that it forgets most records between two
// visits must still fetch exactly what it should.
func TestForgettingLosesNoURL(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		pages := 15
		if *longRuns {
			pages = 60
		}
		web := smallWeb(t, func(o *simweb.Options) { o.Pages, o.Hosts, o.PLDs, o.IPs = pages, 8, 4, 6 })
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Health.RobotsForget, opt.Disk.CheckpointEvery = 20*
			time.Hour, 19*time.Hour, time.Second, 6*time.Hour
		opt.Limits.Linger = time.Hour
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone {
			t.Errorf("stopped by %q", res.Stop)
		}
		checkFetched(t, web, &opt)
	})
}

// TestDelaysLongerThanRobotsLast: robots.txt takes one visit to a host, and its rules must apply to the
// next visit even if they expire before it.
func TestDelaysLongerThanRobotsLast(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, delay := range []time.Duration{24 * time.Hour, 60 * time.Hour} {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) { o.Pages, o.Hosts, o.PLDs, o.IPs = 4, 2, 2, 2 })
			opt := simOptions(t, web, memfs.New(*seedFlag))
			opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Disk.CheckpointEvery, opt.Limits.MaxTime = delay,
				delay, 24*time.Hour, 24*delay
			opt.Output.TDMRep = delay == 24*time.Hour // a page is then two turns after its robots.txt
			if res := mustRun(t, t.Context(), opt); res.Stop != StopDone {
				t.Errorf("%v: stopped by %q: %v", delay, res.Stop, res.Snapshot.Places)
			}
			checkFetched(t, web, &opt)
		})
	}
}
