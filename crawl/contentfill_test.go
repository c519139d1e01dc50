package crawl

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/plan"
	"drumbeat/disk/memfs"
)

// contentCrawl makes a crawl of mirrors with three directories, which stops at a number of pages.
func contentCrawl(t *testing.T, filter, pages int64) (Options, *memfs.FS) {
	fs := memfs.New(*seedFlag)
	opt := tinyOptions(t, mirrors(4, 60), fs, "http://m0.test/")
	opt.Disk.Dirs, opt.Output.Store, opt.Limits.MaxPages = []string{"d0", "d1", "d2"}, true, pages
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 10*time.Millisecond, 10*time.Millisecond
	opt.tests.tune = func(p *plan.Plan) { p.ContentFilterBytes = filter }
	mustRun(t, t.Context(), opt)
	opt.Limits.MaxPages = 0
	return opt, fs
}

// TestFilterIsFilledInParallel: a run that continues must read all directories of the store of contents at once, and
// the log must tell of it, with progress while it takes long.
func TestFilterIsFilledInParallel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		opt, fs := contentCrawl(t, 1<<20, 60)
		var log logCounter
		opt.Observe.Log = log.logger()
		all, readers := make(chan struct{}), atomic.Int64{}
		opt.tests.hook = func(place string) {
			if place != "fill" {
				return
			}
			if readers.Add(1) == 3 {
				account.Sleep(context.Background(), 25*time.Second) // a slow disk
				close(all)
			}
			<-all // a bubble whose goroutines all wait ends with a panic
		}
		mustRun(t, t.Context(), opt)
		if n := readers.Load(); n != 3 {
			t.Errorf("%d directories were read", n)
		}
		if log.count("reading the store of contents") != 3 || log.count("read the store of contents") != 1 {
			t.Errorf("log: %v", log.texts)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		checkOneResponseEach(t, fs, opt.Disk.Dirs)
	})
}

// checkOneResponseEach checks that each long body was stored once, the rest as revisits.
func checkOneResponseEach(t *testing.T, fs *memfs.FS, dirs []string) {
	t.Helper()
	records := map[string]int{}
	for _, rec := range storedRecords(t, fs, dirs) {
		if rec.Get("WARC-Resource-Type") == "" {
			records[rec.Type()]++
		}
	}
	if records["revisit"] != 3*60 {
		t.Errorf("%d revisit records, want %d", records["revisit"], 3*60)
	}
}

// TestSmallFilterReadsNothing: with fewer than leastFilterBits for a body the store must not be read at the start. The
// bodies are compared all the same.
func TestSmallFilterReadsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		opt, fs := contentCrawl(t, 1<<20, 60)
		opt.tests.tune = func(p *plan.Plan) { p.ContentFilterBytes = 4 } // less than a bit for each body
		var log logCounter
		opt.Observe.Log = log.logger()
		opt.tests.hook = func(place string) {
			if place == "fill" {
				t.Error("a directory was read")
			}
		}
		mustRun(t, t.Context(), opt)
		if log.count("comparing bodies on disk only") != 1 {
			t.Errorf("log: %v", log.texts)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		checkOneResponseEach(t, fs, opt.Disk.Dirs)
	})
}

// TestFilterIsKept: a crawl that returns to its last checkpoint must not read the store again, and must store each
// body once.
func TestFilterIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		opt, fs := contentCrawl(t, 1<<20, 60)
		opt.Disk.KeepFree, opt.Disk.CheckpointEvery = 100_000, time.Second
		var reads, returns atomic.Int64
		var once sync.Once
		opt.tests.hook = func(place string) {
			switch place {
			case "fill":
				reads.Add(1)
			case "recovery":
				returns.Add(1)
				fs.SetCapacity(1 << 40)
			case "checkpoint":
				once.Do(func() { fs.SetCapacity(1) }) // every write that grows a file fails
			}
		}
		mustRun(t, t.Context(), opt)
		if reads.Load() != 3 || returns.Load() < 2 {
			t.Errorf("%d directories were read in %d rounds, want 3", reads.Load(), returns.Load())
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		checkOneResponseEach(t, fs, opt.Disk.Dirs)
	})
}
