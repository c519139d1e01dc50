package crawl

import (
	"testing"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/fetch"
)

// TestPlans opens every store with the plan of machines of all sizes: what is planned must be what drum accepts, and what
// it takes must stay within the share.
func TestPlans(t *testing.T) {
	for _, ram := range []int64{leastRAM, 128 << 20, 512 << 20, 4 << 30, 16 << 30, 64 << 30, 512 << 30} {
		for _, disk := range []int64{10 << 30, 1 << 40, 50 << 40} {
			o := Options{Dirs: []string{"d"}, RAMBytes: ram, DiskBytes: disk, Connections: 500}
			p, err := MakePlan(&o)
			if err != nil {
				t.Errorf("RAM %d, disk %d: %v", ram, disk, err)
				continue
			}
			sum := p.CacheBytes + p.EdgeCacheBytes
			for _, d := range []DrumPlan{p.URLSeen, p.Edges, p.Indegree, p.RobotsCache, p.RobotsRequested} {
				opt := d.options(nil)
				opt.Set, opt.Name = testSet(), d.Name
				if d.Name == nameRobotsCache {
					opt.ValueBytes, opt.MaxValueBytes, opt.OutBytes = -1, maxRobotsValue, 128
				}
				store, err := drum.Open(opt, nil)
				if err != nil {
					t.Errorf("RAM %d, disk %d: %s: %v", ram, disk, d.Name, err)
				} else if err := store.Close(); err != nil {
					t.Error(err)
				}
				sum += d.RAMBytes
			}
			if sum > ram {
				t.Errorf("RAM %d, disk %d: stores and caches take %d", ram, disk, sum)
			}
			if robots := (fetch.Limits{BodyBytes: robotsBodyBytes, DecodedBytes: robotsBodyBytes}); p.BodyBytes < 4*robots.MemoryBytes() {
				t.Errorf("RAM %d, disk %d: %d bytes for bodies are too few for a robots.txt", ram, disk, p.BodyBytes)
			}
			if p.HeapBytes < 16<<20 {
				t.Errorf("RAM %d, disk %d: %d bytes are left for the heap", ram, disk, p.HeapBytes)
			}
		}
	}
	o := Options{Dirs: []string{"d"}, RAMBytes: 16 << 20}
	if _, err := MakePlan(&o); err == nil {
		t.Error("16 MiB of RAM: no error")
	}
}

func testSet() disk.Set { return disk.Set{FS: disk.NewMem(1), Paths: []string{"d"}} }
