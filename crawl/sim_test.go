package crawl

import (
	"context"
	"errors"
	"testing"
	"time"

	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// The tests inside this package use testworld by these names.
type (
	answer      = testworld.Answer
	request     = testworld.Request
	tinyWeb     = testworld.Web
	simResolver = testworld.SimResolver
)

var (
	verbose, longRuns, seedFlag = testworld.Verbose, testworld.Long, testworld.Seed

	noRobots, pagesOnly, ownAddr, urls = testworld.NoRobots, testworld.PagesOnly, testworld.OwnAddr, testworld.URLs

	inBubble, smallWeb, checkBalanced = testworld.InBubble, testworld.SmallWeb, testworld.CheckBalanced
)

// These stand in crawltest, which the tests inside this package cannot import, because it imports this package.
var (
	simOptions  func(testing.TB, *simweb.Web, disk.FS) Options
	tinyOptions func(testing.TB, *tinyWeb, disk.FS, ...string) Options
	mustRun     func(*testing.T, context.Context, Options) *Result
)

// SetHarness is for the external tests, which set them from crawltest.
func SetHarness(sim func(testing.TB, *simweb.Web, disk.FS) Options, tiny func(testing.TB, *tinyWeb, disk.FS, ...string) Options,
	run func(*testing.T, context.Context, Options) *Result) {
	simOptions, tinyOptions, mustRun = sim, tiny, run
}

// atOnce removes all delays.
func atOnce(o *Options) { o.HostDelay, o.HostDelayMin, o.ServerDelay, o.ServerDelayMin = 0, 0, 0, 0 }

func longOr[T any](long, short T) T { return testworld.LongOr(long, short) }

func notShort(t *testing.T) {
	t.Helper()
	testworld.NotShort(t)
}

func checkFetched(t *testing.T, web *simweb.Web, opt *Options) {
	t.Helper()
	testworld.CheckFetched(t, web, testworld.Delays{Host: opt.HostDelayMin, Server: opt.ServerDelayMin})
}

func checkDelays(t *testing.T, snap *simweb.Snapshot, opt *Options, slack time.Duration) {
	t.Helper()
	testworld.CheckDelays(t, snap, testworld.Delays{Host: opt.HostDelayMin, Server: opt.ServerDelayMin}, slack)
}

// TestClosedWebIsCrawledExactly: a crawl of a closed web fetches each URL that it must fetch once, ends by
// itself with a balanced audit, and refuses to run again.
func TestClosedWebIsCrawledExactly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		fs := memfs.New(*seedFlag)
		opt := simOptions(t, web, fs)
		res, err := Run(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		if res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
		}
		checkFetched(t, web, &opt)
		rep, err := audit.Run(fs, opt.Dirs)
		if err != nil {
			t.Fatal(err)
		}
		if !rep.Balanced() {
			t.Errorf("audit: %v", rep.Bad)
		}
		if res, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) {
			t.Errorf("running a finished crawl again: got %v, %v, want ErrFinished", res, err)
		}
	})
}
