package crawl

import (
	"math"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/state"
)

// TestPlans opens every store with the plans of machines of all sizes. drum must accept the plan, and what
// a store takes must stay within its share.
func TestPlans(t *testing.T) {
	for _, ram := range []int64{leastRAM, 128 << 20, 512 << 20, 4 << 30, 16 << 30, 64 << 30, 512 << 30} {
		for _, disk := range []int64{10 << 30, 1 << 40, 50 << 40} {
			o := Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: ram, DiskBytes: disk},
				Network: NetworkOptions{Connections: 500}}
			p, err := MakePlan(&o)
			if err != nil {
				t.Errorf("RAM %d, disk %d: %v", ram, disk, err)
				continue
			}
			c := newCrawler(o)
			c.Saved, c.plan = &state.Saved{Set: testSet()}, p
			so, err := c.budgets.starOptions()
			if err != nil {
				t.Fatal(err)
			}
			sum := p.CacheBytes + p.EdgeCacheBytes + p.Edges.RAMBytes + p.Indegree.RAMBytes
			if got, want := p.Edges.RAMBytes+p.Indegree.RAMBytes, so.RAMBytes(); got > want || got < want-1<<20 {
				t.Errorf("RAM %d, disk %d: STAR's stores take %d bytes, planned %d", ram, disk, want, got)
			}
			for _, d := range []struct {
				plan DrumPlan
				opt  drum.Options
			}{{p.URLSeen, c.seen.seenStore()}, {p.RobotsCache, c.check.robotsStore()}, {p.RobotsRequested, c.requests.requestedStore()},
				{p.Edges, named(p.Edges.options(nil), "e")}, {p.Indegree, named(p.Indegree.options(nil), "i")}} {
				store, err := drum.Open(d.opt, nil)
				if err != nil {
					t.Errorf("RAM %d, disk %d: %s: %v", ram, disk, d.plan.Name, err)
				} else if err := store.Close(); err != nil {
					t.Error(err)
				}
				if got := d.opt.RAMBytes(); d.opt.Name == d.plan.Name && got != d.plan.RAMBytes {
					t.Errorf("RAM %d, disk %d: %s takes %d bytes, planned %d", ram, disk, d.plan.Name, got, d.plan.RAMBytes)
				}
				if d.opt.Name == d.plan.Name {
					sum += d.plan.RAMBytes
				}
			}
			if p.URLSeen.RAMBytes > ram*shareSeen/100 {
				t.Errorf("RAM %d, disk %d: URLseen takes %d bytes", ram, disk, p.URLSeen.RAMBytes)
			}
			if sum > ram {
				t.Errorf("RAM %d, disk %d: stores and caches take %d bytes", ram, disk, sum)
			}
			if robots := (fetch.Limits{BodyBytes: robotsBodyBytes, DecodedBytes: robotsBodyBytes}); p.BodyBytes < 4*robots.MemoryBytes() {
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
	o := Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: 16 << 20}}
	if _, err := MakePlan(&o); err == nil {
		t.Error("16 MiB of RAM: no error")
	}
	o = Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: 1 << 30},
		Drum: DrumOptions{BucketBytes: 1 << 30}}
	if _, err := MakePlan(&o); err == nil || !strings.Contains(err.Error(), "beside the stores") {
		t.Errorf("stores larger than RAM: got %v", err)
	}
}

// TestForecast: more pages must need more disk and time and collide more, and a load must fit up to
// MostPages.
func TestForecast(t *testing.T) {
	o := Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: 4 << 30, DiskBytes: 1 << 40},
		Network: NetworkOptions{Connections: 500}, Output: OutputOptions{Store: true}}
	p, err := MakePlan(&o)
	if err != nil {
		t.Fatal(err)
	}
	var last Forecast
	for _, pages := range []float64{1, 1e3, 1e6, 1e8, 1e9, 1e10, 1e12} {
		f, err := p.Forecast(&o, Load{Pages: pages, MaxRate: 1e9})
		if err != nil {
			t.Fatal(err)
		}
		sum, pageIO := int64(0), int64(0)
		for _, d := range f.Disk {
			sum += d.Bytes
		}
		for _, d := range f.PageIO {
			pageIO += d.Bytes
		}
		if sum != f.DiskBytes || math.Abs(float64(pageIO)-f.PageIOBytes) > 20 {
			t.Errorf("%g pages: disk %d of %d, I/O %d of %v", pages, sum, f.DiskBytes, pageIO, f.PageIOBytes)
		}
		if f.DiskBytes <= last.DiskBytes || f.Seconds <= last.Seconds || f.Collisions <= last.Collisions || f.Unique <= last.Unique {
			t.Errorf("%g pages: %+v after %+v", pages, f, last)
		}
		if most := p.MostPages(&o, Load{}); f.Fits != (pages <= most) {
			t.Errorf("%g pages: fits %v, MostPages %g", pages, f.Fits, most)
		}
		last = f
	}
	// The paper predicts 47 collisions among 41.5e9 URLs.
	f, err := p.Forecast(&o, Load{Pages: 1e9, LinksPerPage: 83, UniqueFraction: 0.5})
	if err != nil || math.Abs(f.Collisions-46.7) > 0.1 {
		t.Errorf("41.5e9 URLs: %v collisions, %v", f.Collisions, err)
	}
	for _, bad := range []Load{{UniqueFraction: 2}, {TextRatio: 0.5}, {Pages: -1}, {DiskRate: math.NaN()}} {
		if _, err := p.Forecast(&o, bad); err == nil {
			t.Errorf("%+v: accepted", bad)
		}
	}
}

func testSet() disk.Set { return disk.Set{FS: memfs.New(1), Paths: []string{"d"}} }

func named(o drum.Options, name string) drum.Options {
	o.Set, o.Name = testSet(), name
	return o
}

// TestFiles: more pages need more inodes, and so does output: three for each GB.
func TestFiles(t *testing.T) {
	files := func(pages float64, store bool) int64 {
		o := Options{Disk: DiskOptions{Dirs: []string{"d"}}, Limits: LimitsOptions{RAMBytes: 1 << 30, DiskBytes: 1 << 40},
			Network: NetworkOptions{Connections: 500}, Output: OutputOptions{Store: store}}
		p, err := MakePlan(&o)
		if err != nil {
			t.Fatal(err)
		}
		f, err := p.Forecast(&o, Load{Pages: pages})
		if err != nil {
			t.Fatal(err)
		}
		if want := f.DiskBytes > 0 && (f.OutputBytes > 0) == store; !want {
			t.Errorf("output takes %d of %d bytes", f.OutputBytes, f.DiskBytes)
		}
		return p.Files(&o, &f)
	}
	if small, large, bare := files(1e6, true), files(1e9, true), files(1e9, false); small <= leastFiles || large <= small || large-bare < 3*6000 {
		t.Errorf("got %d, %d and %d files", small, large, bare)
	}
}
