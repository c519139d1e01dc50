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
	"drumbeat/state/repair"
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
	linked, eachRecord                 = testworld.Linked, testworld.EachRecord

	newClient, explainer = testworld.Client, testworld.Explainer

	inBubble, smallWeb, checkBalanced = testworld.InBubble, testworld.SmallWeb, testworld.CheckBalanced

	exportedRows, mirrors = testworld.ExportedRows, testworld.Mirrors

	truthOf, faults, breakers, addSeen = testworld.TruthOf, testworld.Faults, testworld.Breakers, testworld.AddSeen
)

// These stand in crawltest, which the tests inside this package cannot import, because it imports this package.
var (
	simOptions  func(testing.TB, *simweb.Web, disk.FS) Options
	tinyOptions func(testing.TB, *tinyWeb, disk.FS, ...string) Options
	mustRun     func(*testing.T, context.Context, Options) *Result

	stoppedCrawl func(*testing.T) (*memfs.FS, Options)
	atOnce       func(*Options)
)

// SetHarness is for the external tests, which set them from crawltest.
func SetHarness(sim func(testing.TB, *simweb.Web, disk.FS) Options,
	tiny func(testing.TB, *tinyWeb, disk.FS, ...string) Options, run func(*testing.T, context.Context, Options) *Result,
	stopped func(*testing.T) (*memfs.FS, Options), quick func(*Options)) {
	simOptions, tinyOptions, mustRun, stoppedCrawl, atOnce = sim, tiny, run, stopped, quick
}

// allPages makes a small web with -short as large as without.
func allPages(o *simweb.Options) { o.Pages = 800 }

func longOr[T any](long, short T) T { return testworld.LongOr(long, short) }

// smallCrawl returns the options of a crawl of a small web, on a file system in RAM.
func smallCrawl(t *testing.T, change func(*simweb.Options)) (*simweb.Web, *memfs.FS, Options) {
	t.Helper()
	web, fs := smallWeb(t, change), memfs.New(*seedFlag)
	return web, fs, simOptions(t, web, fs)
}

// runFor runs a crawl for a time.
func runFor(t *testing.T, d time.Duration, opt Options) *Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return mustRun(t, ctx, opt)
}

// must ends a test at an error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func notShort(t *testing.T) {
	t.Helper()
	testworld.NotShort(t)
}

func partOf[S any](t testing.TB, m *state.Manifest, name string) *S {
	t.Helper()
	return testworld.PartOf[S](t, m, name)
}

func saved[S any](m *state.Manifest, name string, f interface{ Save(*disk.Tails) (*S, error) },
	tails *disk.Tails) error {
	return testworld.SaveInto(m, name, f, tails)
}

func tamper(t *testing.T, fs disk.FS, opt *Options,
	change func(set disk.Set, m *state.Manifest, tails *disk.Tails) error) {
	t.Helper()
	testworld.Tamper(t, fs, opt.Disk.Dirs, change)
}

func deep(t *testing.T, fs disk.FS, opt *Options) *audit.DeepReport {
	t.Helper()
	return testworld.Deep(t, fs, opt.Disk.Dirs)
}

func crawlFiles(t testing.TB, fs disk.FS, opt *Options, want func(path string) bool) []string {
	t.Helper()
	return testworld.StateFiles(t, fs, opt.Disk.Dirs, want)
}

func repairOf(t testing.TB, fs disk.FS, opt *Options, change func(*repair.Options)) (*repair.Report, error) {
	t.Helper()
	return testworld.Repair(t, fs, opt.Disk.Dirs, change)
}

func checkFetched(t *testing.T, web *simweb.Web, opt *Options) {
	t.Helper()
	testworld.CheckFetched(t, web,
		testworld.Delays{Host: opt.Politeness.HostDelayMin, Server: opt.Politeness.ServerDelayMin})
}

func checkDelays(t *testing.T, snap *simweb.Snapshot, opt *Options, slack time.Duration) {
	t.Helper()
	testworld.CheckDelays(t, snap,
		testworld.Delays{Host: opt.Politeness.HostDelayMin, Server: opt.Politeness.ServerDelayMin}, slack)
}

// TestClosedWebIsCrawledExactly: a crawl of a closed web fetches each URL that it must fetch once, ends by
// itself with a balanced audit, and refuses to run again.
func TestClosedWebIsCrawledExactly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		res := mustRun(t, t.Context(), opt)
		if res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
		}
		checkFetched(t, web, &opt)
		rep, err := audit.Run(fs, opt.Disk.Dirs)
		must(t, err)
		if !rep.Balanced() {
			t.Errorf("audit: %v", rep.Bad)
		}
		if res, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) {
			t.Errorf("running a finished crawl again: got %v, %v, want ErrFinished", res, err)
		}
	})
}
