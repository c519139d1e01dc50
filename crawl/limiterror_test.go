package crawl

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// TestForeignFileAtTheLimit: a file of another program in the crawl's directory takes what is left of --disk. The next
// writes are refused. The error names the limit and the use, and blames no disk; a waiting crawl continues when the file
// is gone.
func TestForeignFileAtTheLimit(t *testing.T) {
	for _, full := range []WhenFull{WhenFullStop, WhenFullPause} {
		if testing.Short() && full == WhenFullPause {
			continue
		}
		inBubble(t, func(t *testing.T) {
			web, fs := smallWeb(t, nil), memfs.New(*seedFlag)
			opt := simOptions(t, web, fs)
			small(&opt)
			opt.Limits.DiskBytes, opt.Disk.WhenFull = 8e6, full
			var put sync.Once
			var removed sync.WaitGroup
			defer removed.Wait()
			opt.tests.hook = func(place string) {
				if place != "urlseen" {
					return
				}
				put.Do(func() {
					if err := disk.WriteFileAtomic(fs, "d0/foreign", make([]byte, 8e6)); err != nil {
						t.Error(err)
					}
					removed.Go(func() {
						time.Sleep(time.Hour)
						if err := fs.Remove("d0/foreign"); err != nil {
							t.Error(err)
						}
					})
				})
			}
			log := new(logCounter)
			opt.Observe.Log = log.logger()
			res, err := Run(t.Context(), opt)
			if full == WhenFullPause {
				if err != nil || res.Stop != StopDone || log.count("a write found no space") == 0 {
					t.Fatalf("%v, %+v; %v", err, res, log.texts)
				}
				checkStored(t, web, fs, opt.Disk.Dirs)
				return
			}
			var limit *LimitError
			var blamed *DiskError
			if !errors.As(err, &limit) || errors.As(err, &blamed) || !state.IsFull(err) {
				t.Fatalf("got %v, %+v, want a LimitError", err, res)
			}
			for _, want := range []string{"--disk is reached", " of at most 7.6 MiB: ", "d0/"} {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "device") {
					t.Errorf("no %q in %q, or it speaks of the device", want, err)
				}
			}
		})
	}
}

// TestLimitMet: each write that meets the limit doubles the distance that the crawl keeps from it, from 256 KiB to a
// quarter of the limit, also in the next round of the run.
func TestLimitMet(t *testing.T) {
	opt := Options{Disk: DiskOptions{FS: memfs.New(1), Dirs: []string{"d0"}}, Limits: LimitsOptions{DiskBytes: 3 << 20}}
	opt.opened.limit = newDiskLimit(&opt)
	refused := &disk.CorruptError{}
	for i, want := range []int64{256 << 10, 512 << 10, 768 << 10, 768 << 10} {
		if err := opt.opened.limit.met(opt.Limits.DiskBytes, refused); !errors.Is(err, error(refused)) {
			t.Errorf("the error %v hides its cause", err)
		}
		c := newCrawler(opt) // of the next round
		if got := c.space.limit.extra.Load(); got != want {
			t.Errorf("met %d times: %d bytes more, want %d", i+1, got, want)
		}
		free := opt.Limits.DiskBytes - c.space.toSave()
		if c.space.over(free, 0) || !c.space.over(free+1, 0) || c.space.toSave() < want {
			t.Errorf("met %d times: %d bytes kept for a checkpoint do not bound what may be written", i+1, c.space.toSave())
		}
	}
}

// TestUselessWritesText: a crawl that gives up says whether --disk or a disk refused its writes.
func TestUselessWritesText(t *testing.T) {
	f := fullTries{hidden: 17}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("x: %w", disk.ErrQuota), "although --disk seemed to leave room: x: "},
		{syscall.EDQUOT, "although the file systems report free space (a quota, a thin pool?): "},
	} {
		if got := f.error(c.err); !strings.Contains(got.Error(), c.want) || !errors.Is(got, c.err) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
