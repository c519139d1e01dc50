package crawl

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk"
)

// TestQuotaEndsTheCrawl: each checkpoint fails for want of space, and statfs shows room. The crawl goes back to its last checkpoint
// a bounded number of times, at growing intervals, and ends with the error.
func TestQuotaEndsTheCrawl(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		mem := disk.NewMem(*seedFlag)
		began := time.Now()
		full := func() bool { return time.Since(began) > 12*time.Second }
		fs := disk.NewFault(mem, func(op disk.Op, name string) error {
			if full() && op == disk.OpCreate && strings.Contains(name, "tails") {
				return syscall.EDQUOT
			}
			return nil
		})
		opt := simOptions(t, web, fs)
		small(&opt)
		back := 0
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		opt.hook = func(place string) {
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
		if back /= 2; back != fullRounds { // the place is passed twice in each
			t.Errorf("went back %d times, want %d", back, fullRounds)
		}
		if took := time.Since(began); took < 30*time.Minute || took > 3*time.Hour {
			t.Errorf("ended after %v, want an hour or two", took)
		}
	})
}

// TestQuotaFetchesLittleTwice: a quota leaves room for a few writes of output after each recovery. What is fetched again for nothing
// is bounded, and the crawl ends as it should when the quota is raised.
func TestQuotaFetchesLittleTwice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		mem := disk.NewMem(*seedFlag)
		began := time.Now()
		full := func() bool { d := time.Since(began); return d > 12*time.Second && d < 30*time.Minute }
		var left atomic.Int64 // writes to WARC files that still succeed
		fs := disk.NewFault(mem, func(op disk.Op, name string) error {
			if full() && op == disk.OpWrite && strings.Contains(name, "warc") {
				if left.Add(-1) < 0 {
					return syscall.EDQUOT
				}
			}
			return nil
		})
		opt := simOptions(t, web, fs)
		small(&opt)
		opt.tune = func(p *Plan) { p.OutputBufferBytes = 8 << 10 }
		opt.hook = func(place string) {
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
		if most > fullRounds+1 {
			t.Errorf("%s was fetched %d times", url, most)
		}
		checkStored(t, web, mem, opt.Dirs)
	})
}
