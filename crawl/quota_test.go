package crawl

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// TestQuotaEndsTheCrawl: when each checkpoint fails for lack of space although statfs shows room, the crawl
// must go back to its last checkpoint a bounded number of times, at growing intervals, and then end with
// the error.
func TestQuotaEndsTheCrawl(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		mem := memfs.New(*seedFlag)
		began := time.Now()
		full := func() bool { return time.Since(began) > 12*time.Second }
		fs := memfs.NewFault(mem, func(op memfs.Op, name string) error {
			if full() && op == memfs.OpCreate && strings.Contains(name, "tails") {
				return syscall.EDQUOT
			}
			return nil
		})
		opt := simOptions(t, web, fs)
		small(&opt)
		back := 0
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		opt.tests.hook = func(place string) {
			if place == "recovery" && full() {
				if back++; back > 1000 {
					cancel()
				}
			}
		}
		_, err := Run(ctx, opt)
		if !errors.Is(err, syscall.EDQUOT) {
			t.Errorf("got %v, want EDQUOT", err)
		}
		if back /= 2; back != space.FullRounds { // the hook runs twice per recovery
			t.Errorf("went back %d times, want %d", back, space.FullRounds)
		}
		if took := time.Since(began); took < 30*time.Minute || took > 3*time.Hour {
			t.Errorf("ended after %v, want 30m to 3h", took)
		}
	})
}

// TestQuotaFetchesLittleTwice: when a quota leaves room for a few writes of output after each recovery, the
// number of repeated fetches must be bounded, and the crawl must finish once the quota is raised.
func TestQuotaFetchesLittleTwice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		mem := memfs.New(*seedFlag)
		began := time.Now()
		full := func() bool { d := time.Since(began); return d > 12*time.Second && d < 30*time.Minute }
		var left atomic.Int64 // writes to WARC files before the next error
		fs := memfs.NewFault(mem, func(op memfs.Op, name string) error {
			if full() && op == memfs.OpWrite && strings.Contains(name, "warc") {
				if left.Add(-1) < 0 {
					return syscall.EDQUOT
				}
			}
			return nil
		})
		opt := simOptions(t, web, fs)
		small(&opt)
		opt.tests.tune = func(p *plan.Plan) { p.OutputBufferBytes = 8 << 10 }
		opt.tests.hook = func(place string) {
			if place == "recovery" {
				left.Store(12)
			}
		}
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone {
			t.Fatalf("got %v, %+v", err, res)
		}
		most, url, all := 0, "", 0
		for u, n := range web.Log().Snapshot().Fetches {
			if all += n; n > most {
				most, url = n, u
			}
		}
		t.Logf("%d requests, %d of %s", all, most, url)
		if most > space.FullRounds+1 {
			t.Errorf("fetched %s %d times, want at most %d", url, most, space.FullRounds+1)
		}
		checkStored(t, web, mem, opt.Disk.Dirs)
	})
}

// TestCrashLoopGetsOn: a crawl whose process always dies before a checkpoint is due must still finish.
func TestCrashLoopGetsOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, mem, opt := smallCrawl(t, func(o *simweb.Options) { o.Pages = 100 })
		opt.Disk.CheckpointEvery, opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Minute,
			4*time.Second, 4*time.Second
		lives := 0
		for ; lives < 100; lives++ {
			last := mem
			opt.Disk.FS = mem
			death := time.AfterFunc(20*time.Second, func() { last.CrashAfter(1) })
			res, err := Run(t.Context(), opt)
			death.Stop()
			// The latter: after the last checkpoint.
			if err == nil && res.Stop == StopDone || errors.Is(err, state.ErrFinished) {
				break
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("life %d: %v, %+v", lives, err, res)
			}
			mem = mem.Kill()
		}
		if lives < 2 || lives == 100 {
			t.Errorf("the crawl took %d lives, want 2 to 99", lives)
		}
		checkStored(t, web, mem, opt.Disk.Dirs)
	})
}

// TestKilledInItsFirstMinute: a new crawl that is killed before its first periodic checkpoint is due repeats only the
// pages of its last seconds.
func TestKilledInItsFirstMinute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, mem, opt := smallCrawl(t, nil)
		opt.Disk.CheckpointEvery, opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Minute,
			time.Second, time.Second
		var saved map[string]int
		time.AfterFunc(checkpoint.First-time.Second, func() { saved = web.Log().Snapshot().Fetches })
		time.AfterFunc(checkpoint.First+time.Second, func() { mem.CrashAfter(1) })
		if _, err := Run(t.Context(), opt); !errors.Is(err, disk.ErrCrashed) {
			t.Fatal(err)
		}
		opt.Disk.FS = mem.Kill()
		mustRun(t, t.Context(), opt)
		pages := 0
		for url, n := range web.Log().Snapshot().Fetches {
			if strings.HasSuffix(url, "/robots.txt") || saved[url] == 0 {
				continue
			}
			if pages++; n > saved[url] {
				t.Errorf("%s was fetched %d times before the checkpoint, and %d in all", url, saved[url], n)
			}
		}
		if pages < 20 {
			t.Errorf("only %d pages were fetched before the checkpoint", pages)
		}
		checkStored(t, web, opt.Disk.FS.(*memfs.FS), opt.Disk.Dirs)
	})
}

// TestQuotaAtTheEnd: a crawl whose last checkpoint is durable, but whose output finds no space for its final
// names, must end as done when there is room, and not as a crawl that was finished before.
func TestQuotaAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.Pages = 100 })
		mem := memfs.New(*seedFlag)
		failed := false
		fs := memfs.NewFault(mem, func(op memfs.Op, name string) error {
			if op == memfs.OpWrite && strings.Contains(name, ".cdxj") && !strings.HasSuffix(name, ".open") && !failed {
				failed = true
				return syscall.EDQUOT
			}
			return nil
		})
		opt := simOptions(t, web, fs)
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone || res.Finished.Files == 0 {
			t.Fatalf("got %v, %+v", err, res)
		}
		if !failed {
			t.Error("no index was written")
		}
		checkStored(t, web, mem, opt.Disk.Dirs)
		checkBalanced(t, mem, opt.Disk.Dirs)
	})
}
