package crawl

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/state"
)

// TestForeignFileAtTheLimit: a file of another program in the crawl's directory takes what is left of --disk.
// The next writes are refused. The error names the limit and the use, and blames no disk; a waiting crawl
// continues when the file is gone.
func TestForeignFileAtTheLimit(t *testing.T) {
	for _, full := range []options.WhenFull{options.WhenFullStop, options.WhenFullPause} {
		if testing.Short() && full == options.WhenFullPause {
			continue
		}
		inBubble(t, func(t *testing.T) {
			web, fs, opt := smallCrawl(t, nil)
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
			if full == options.WhenFullPause {
				if err != nil || res.Stop != StopDone || log.count("a write found no disk space") == 0 {
					t.Fatalf("%v, %+v; %v", err, res, log.texts)
				}
				checkStored(t, web, fs, opt.Disk.Dirs)
				return
			}
			var limit *space.LimitError
			var blamed *space.DiskError
			if !errors.As(err, &limit) || errors.As(err, &blamed) || !state.IsFull(err) {
				t.Fatalf("got %v, %+v, want a LimitError", err, res)
			}
			for _, want := range []string{"--disk limit reached", " of at most 7.6 MiB: ", "d0/"} {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "device") {
					t.Errorf("no %q in %q, or it speaks of the device", want, err)
				}
			}
		})
	}
}
