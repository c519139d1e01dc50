package crawl

import (
	"strings"
	"testing"

	"drumbeat/cluster"
	"drumbeat/crawl/gate"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/fetch"
)

// TestPlans opens every store with the plans of machines of all sizes. drum must accept the plan, and what
// a store takes must stay within its share.
func TestPlans(t *testing.T) {
	for _, ram := range []int64{plan.LeastRAM, 128 << 20, 512 << 20, 4 << 30, 16 << 30, 64 << 30, 512 << 30} {
		for _, disk := range []int64{10 << 30, 1 << 40, 50 << 40} {
			o := Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: ram, DiskBytes: disk},
				Network: NetworkOptions{Connections: 500}}
			p, err := MakePlan(&o)
			if err != nil {
				t.Errorf("RAM %d, disk %d: %v", ram, disk, err)
				continue
			}
			c := newCrawler(o)
			c.Saved.Set, c.plan = testSet(), p
			so, err := c.budgets.StarOptions()
			must(t, err)
			sum := p.CacheBytes + p.EdgeCacheBytes + p.Edges.RAMBytes + p.Indegree.RAMBytes
			if got, want := p.Edges.RAMBytes+p.Indegree.RAMBytes, so.RAMBytes(); got > want || got < want-1<<20 {
				t.Errorf("RAM %d, disk %d: STAR's stores take %d bytes, planned %d", ram, disk, want, got)
			}
			for _, d := range []struct {
				plan plan.DrumPlan
				opt  drum.Options
			}{{p.URLSeen, c.seen.SeenStore()}, {p.RobotsCache, c.check.RobotsStore()},
				{p.RobotsRequested, c.requests.RequestedStore()}, {p.Edges, named(p.Edges.Geometry(nil), "e")},
				{p.Indegree, named(p.Indegree.Geometry(nil), "i")}} {
				store, err := drum.Open(d.opt, nil)
				if err != nil {
					t.Errorf("RAM %d, disk %d: %s: %v", ram, disk, d.plan.Name, err)
				} else if err := store.Close(); err != nil {
					t.Error(err)
				}
				if got := d.opt.RAMBytes(); d.opt.Name == d.plan.Name && got != d.plan.RAMBytes {
					t.Errorf("RAM %d, disk %d: %s takes %d bytes, planned %d", ram, disk, d.plan.Name, got,
						d.plan.RAMBytes)
				}
				if d.opt.Name == d.plan.Name {
					sum += d.plan.RAMBytes
				}
			}
			if p.URLSeen.RAMBytes > ram*plan.ShareSeen/100 {
				t.Errorf("RAM %d, disk %d: URLseen takes %d bytes", ram, disk, p.URLSeen.RAMBytes)
			}
			if sum > ram {
				t.Errorf("RAM %d, disk %d: stores and caches take %d bytes", ram, disk, sum)
			}
			if robots := (fetch.Limits{BodyBytes: gate.RobotsBodyBytes,
				DecodedBytes: gate.RobotsBodyBytes}); p.BodyBytes < 4*robots.MemoryBytes() {
				t.Errorf("RAM %d, disk %d: %d bytes for bodies, too few for a robots.txt", ram, disk, p.BodyBytes)
			}
			parts := int64(0)
			for _, part := range p.RAM() {
				if parts += part.Bytes; part.Bytes < 0 {
					t.Errorf("RAM %d, disk %d: %+v", ram, disk, part)
				}
			}
			if parts != ram {
				t.Errorf("RAM %d, disk %d: the parts add up to %d bytes", ram, disk, parts)
			}
			if p.HeapBytes < 16<<20 {
				t.Errorf("RAM %d, disk %d: %d bytes left for the heap", ram, disk, p.HeapBytes)
			}
		}
	}
}

// TestPlanRefused: too little RAM, or stores that leave too little, is an error.
func TestPlanRefused(t *testing.T) {
	o := Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: 16 << 20}}
	if _, err := MakePlan(&o); err == nil {
		t.Error("16 MiB of RAM: no error")
	}
	o = Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: 1 << 30},
		Drum: DrumOptions{BucketBytes: 1 << 30}}
	if _, err := MakePlan(&o); err == nil || !strings.Contains(err.Error(), "caches take") {
		t.Errorf("stores larger than RAM: got %v", err)
	}
}

func testSet() disk.Set { return disk.Set{FS: memfs.New(1), Paths: []string{"d"}} }

func named(o drum.Options, name string) drum.Options {
	o.Set, o.Name = testSet(), name
	return o
}

// TestPlannedCluster: more nodes than a table has are refused.
func TestPlannedCluster(t *testing.T) {
	if _, err := PlannedCluster(cluster.MaxNodes + 1); err == nil {
		t.Error("too many nodes are accepted")
	}
}
