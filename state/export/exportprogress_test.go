package export_test

import (
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/export"
)

// TestExportProgress: the total of the progress has the WARC files, if an export reads them. Their requests, which are
// not read, are a third of them here, as the pages are small. WACZ reads pages and copies files, so it reads more.
func TestExportProgress(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, testworld.Mirrors(2, 200), fs, "http://m0.test/")
		opt.Output.Store, opt.Output.ArchiveRobots = true, false
		crawltest.MustRun(t, t.Context(), opt)
		for _, x := range []export.Options{
			{Kind: export.Links, Format: tabular.CSV}, {Kind: export.PLDEdges, Format: tabular.CSV, CountLinks: true},
			{Kind: export.WACZ},
		} {
			var last state.Progress
			x.FS, x.Dirs, x.Target, x.TempDir = fs, opt.Disk.Dirs, "t-"+string(x.Kind), "tmp"
			x.Progress = func(p state.Progress) { last = p }
			if _, err := export.Run(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			if last.Done == 0 || last.Total < last.Done/3 || last.Total > last.Done*7/4 {
				t.Errorf("%s: %d bytes read, the total was %d", x.Kind, last.Done, last.Total)
			}
		}
	})
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
