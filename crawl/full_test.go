package crawl

import (
	"testing"

	"drumbeat/disk"
)

// TestFullDiskStopsInOrder: with no room for a merge the crawl ends with a checkpoint, and goes on when there is room.
func TestFullDiskStopsInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		fs := disk.NewMem(*seedFlag)
		opt := simOptions(t, web, fs)
		fs.SetCapacity(diskReserve + 500_000)
		res, err := Run(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		if res.Stop != StopDisk {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDisk)
		}
		if rep, err := Audit(fs, opt.Dirs); err != nil || !rep.Balanced() {
			t.Errorf("audit of the full disk: %v, %+v", err, rep)
		}
		fs.SetCapacity(1 << 40)
		if res, err = Run(t.Context(), opt); err != nil || res.Stop != StopDone {
			t.Fatalf("with room again: %v, %+v", err, res)
		}
		checkFetched(t, web, &opt)
	})
}

// TestDiskLimit: --disk ends the crawl after the checkpoint that finds it exceeded.
func TestDiskLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		fs := disk.NewMem(*seedFlag)
		opt := simOptions(t, web, fs)
		opt.DiskBytes = 400_000
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDisk {
			t.Fatalf("got %v, %+v, want a stop by %q", err, res, StopDisk)
		}
		opt.DiskBytes = 10 << 30
		if res, err = Run(t.Context(), opt); err != nil || res.Stop != StopDone {
			t.Fatalf("with a larger limit: %v, %+v", err, res)
		}
		checkFetched(t, web, &opt)
	})
}

// TestQueueBuffersKeepToTheirShare: BEAST at its widest must not take more RAM than the plan gives the queues.
func TestQueueBuffersKeepToTheirShare(t *testing.T) {
	for _, ram := range []int64{leastRAM, 128 << 20, 1 << 30, 16 << 30} {
		o := Options{Dirs: []string{"d"}, RAMBytes: ram, Connections: 100}
		p, err := MakePlan(&o)
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(p.QueueBlockBytes) * int64(o.QueuesMax+openQueueBuffers); got > max(p.QueueBytes, 6<<20) {
			t.Errorf("RAM %d: queue buffers take %d, their share is %d", ram, got, p.QueueBytes)
		}
	}
}
