package crawl

import (
	"context"
	"errors"
	iofs "io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/options"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// TestFullDiskStopsInOrder: with WhenFullStop and no room for a merge, the crawl must end with a checkpoint
// and resume when there is room.
func TestFullDiskStopsInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		opt.Disk.WhenFull, opt.Disk.KeepFree = options.WhenFullStop, 400_000
		fs.SetCapacity(700_000)
		res, err := Run(t.Context(), opt)
		must(t, err)
		if res.Stop != space.StopDisk {
			t.Errorf("stopped by %q, want %q", res.Stop, space.StopDisk)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		fs.SetCapacity(1 << 40)
		if res, err = Run(t.Context(), opt); err != nil || res.Stop != StopDone {
			t.Fatalf("with room again: %v, %+v", err, res)
		}
		checkFetched(t, web, &opt)
	})
}

// TestFullDiskPauses: with WhenFullPause the crawl must fetch nothing while there is too little room, and
// continue by itself when there is room.
func TestFullDiskPauses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		opt.Disk.KeepFree = 400_000
		fs.SetCapacity(1_300_000)
		rested := make(chan struct{})
		var once sync.Once
		opt.tests.hook = func(place string) {
			if place == "rest" {
				once.Do(func() { close(rested) })
			}
		}
		go func() {
			<-rested
			account.Sleep(t.Context(), time.Minute) // exchanges in flight end
			before := len(web.Log().Snapshot().Fetches)
			account.Sleep(t.Context(), 20*time.Minute)
			if after := len(web.Log().Snapshot().Fetches); after != before || before == 0 {
				t.Errorf("fetched %d URLs before the pause, %d during the pause", before, after-before)
			}
			fs.SetCapacity(1 << 40)
		}()
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone {
			t.Fatalf("got %v, %+v", err, res)
		}
		if res.Snapshot.Elapsed < 20*time.Minute {
			t.Errorf("the crawl never paused")
		}
		checkFetched(t, web, &opt)
	})
}

// TestSuddenlyFullDisk: when another program takes all space at once, so that a write fails, the crawl must
// go back to its last checkpoint and continue from there when there is room, any number of times.
func TestSuddenlyFullDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		small(&opt)
		opt.Disk.KeepFree, opt.Disk.CheckpointEvery = 100_000, time.Second
		falls, back := 0, make(chan struct{}, 100)
		opt.tests.hook = func(place string) {
			if place == "recovery" {
				select {
				case back <- struct{}{}:
				default:
				}
			}
		}
		done := make(chan struct{})
		go func() {
			for range 5 {
				account.Sleep(t.Context(), 1500*time.Millisecond)
				fs.SetCapacity(1) // below the used space: every write that grows a file fails
				select {
				case <-back:
					falls++
				case <-time.After(10 * time.Second):
				case <-done:
					return
				}
				fs.SetCapacity(1 << 40)
			}
		}()
		res, err := Run(t.Context(), opt)
		close(done)
		if err != nil || res.Stop != StopDone {
			t.Fatalf("got %v, %+v", err, res)
		}
		if falls < 2 {
			t.Errorf("the crawl went back to a checkpoint %d times, too few for this test", falls)
		}
		checkStored(t, web, fs, opt.Disk.Dirs)
	})
}

// TestDiskLimit: near --disk the crawl must pause until output files are deleted; with WhenFullStop it must
// end.
func TestDiskLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs, opt := smallCrawl(t, nil)
		opt.Limits.DiskBytes, opt.Disk.WhenFull = 4_000_000, options.WhenFullStop
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != space.StopDisk {
			t.Fatalf("got %v, %+v, want a stop by %q", err, res, space.StopDisk)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		opt.Limits.DiskBytes = 10 << 30
		if res, err = Run(t.Context(), opt); err != nil || res.Stop != StopDone {
			t.Fatalf("with a larger limit: %v, %+v", err, res)
		}
		checkStored(t, web, fs, opt.Disk.Dirs) // a write that the limit refuses takes the crawl back to a checkpoint
	})
}

// TestDrain: with Drain the crawl must fetch what is queued, and count but not queue new links. Without
// Drain it continues.
func TestDrain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, fs, opt := smallCrawl(t, nil)
		opt.Limits.MaxPages = 100
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopPages {
			t.Fatalf("got %v, %+v", err, res)
		}
		opt.Limits.MaxPages, opt.Admission.Drain = 0, true
		if res, err = Run(t.Context(), opt); err != nil || res.Stop != StopDrained {
			t.Fatalf("draining: got %v, %+v", err, res)
		}
		s := &res.Snapshot
		// The crawl doesn't wait for unreachable hosts.
		dead := s.Deferred[state.ReasonRobotsUnavailable.String()]
		if got := s.Place(state.PlaceFetched) + s.Place(state.PlaceRefused) + dead; got != s.Unique {
			t.Errorf("drained: %d of %d unique URLs ended, places %v", got, s.Unique, s.Places)
		}
		if n := s.Count(state.CountLinksDraining); n == 0 {
			t.Error("no link was dropped")
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		if res, err = Run(t.Context(), opt); err != nil || res.Stop != StopDrained {
			t.Errorf("drain again: %v, %+v", err, res)
		}
	})
}

// TestDiskErrorNamesItsDirectory: an I/O error on one of several directories must end the crawl with an
// error that names the directory. The same command must then resume from the last checkpoint.
func TestDiskErrorNamesItsDirectory(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, op := range []memfs.Op{memfs.OpWrite, memfs.OpRead, memfs.OpSyncFS, memfs.OpCreate} {
		inBubble(t, func(t *testing.T) {
			web, mem, opt := smallCrawl(t, nil)
			small(&opt)
			opt.Disk.CheckpointEvery = time.Second
			began := time.Now()
			opt.Disk.FS = memfs.NewFault(mem, func(o memfs.Op, name string) error {
				if o == op && strings.HasPrefix(name, "d1") && time.Since(began) > 3*time.Second {
					return &iofs.PathError{Op: o.String(), Path: name, Err: syscall.EIO}
				}
				return nil
			})
			_, err := Run(t.Context(), opt)
			var de *space.DiskError
			if !errors.As(err, &de) || de.Dir != "d1" || de.Number != 2 || !errors.Is(err, syscall.EIO) {
				t.Fatalf("%v fails: got %v, want a DiskError of d1", op, err)
			}
			mem = mem.Kill()
			opt.Disk.FS = mem
			checkBalanced(t, mem, opt.Disk.Dirs)
			if res, err := Run(t.Context(), opt); err != nil || res.Stop != StopDone {
				t.Fatalf("with a good disk: %v, %+v", err, res)
			}
			checkStored(t, web, mem, opt.Disk.Dirs)
		})
	}
}

// TestQueueBuffersKeepToTheirShare: BEAST with its maximum number of queues must not take more RAM than the
// plan gives the queues.
func TestQueueBuffersKeepToTheirShare(t *testing.T) {
	for _, ram := range []int64{plan.LeastRAM, 128 << 20, 1 << 30, 16 << 30} {
		o := Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: ram},
			Network: NetworkOptions{Connections: 100}}
		p, err := MakePlan(&o)
		must(t, err)
		if got := int64(p.QueueBlockBytes) * int64(o.Budgets.QueuesMax+
			plan.OpenQueueBuffers); got > max(p.QueueBytes, 6<<20) {
			t.Errorf("RAM %d: queue buffers take %d bytes, want at most %d", ram, got, p.QueueBytes)
		}
	}
}

// TestRefusedCompactionIsForgotten: a merger with nothing to merge that found no room to compact must not
// keep the crawl paused. While fetching pauses, nothing new would come in to merge.
func TestRefusedCompactionIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.Pages = 50 })
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.defaults()
		c, err := open(opt)
		must(t, err)
		c.space.SetReason("merge "+state.NameURLSeen, "no room for a copy")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		res, err := c.crawl(ctx, 0)
		if err = errors.Join(err, c.close()); err != nil || res.Stop != StopDone {
			t.Errorf("got %v, %+v", err, res)
		}
	})
}
