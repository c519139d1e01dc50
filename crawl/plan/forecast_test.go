package plan

import (
	"math"
	"testing"
	"time"

	"drumbeat/state"
)

// defaults returns the options of a crawl of one node that stores pages.
func defaults(ram, disk int64) Options {
	return Options{RAMBytes: ram, DiskBytes: disk, Dirs: []string{"d"}, AllDirs: 1, Connections: 500, Nodes: 1,
		Lanes: 1, QueuesMax: 1024, QueueBlockBytes: 128 << 10, LeastStock: 8000, ContentSeen: state.ContentRecord,
		CrawlLog: state.LogAll, Store: true, DrumWorkers: 3, CheckpointEvery: time.Minute}
}

// TestForecast: more pages must need more disk and time and collide more, and a load must fit up to
// MostPages.
func TestForecast(t *testing.T) {
	o := defaults(4<<30, 1<<40)
	p, err := Make(o)
	if err != nil {
		t.Fatal(err)
	}
	var last Forecast
	for _, pages := range []float64{1, 1e3, 1e6, 1e8, 1e9, 1e10, 1e12} {
		f, err := p.Forecast(Load{Pages: pages, MaxRate: 1e9})
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
		if f.DiskBytes <= last.DiskBytes || f.Seconds <= last.Seconds || f.Collisions <= last.Collisions ||
			f.Unique <= last.Unique {
			t.Errorf("%g pages: %+v after %+v", pages, f, last)
		}
		if most := p.MostPages(Load{}); f.Fits != (pages <= most) {
			t.Errorf("%g pages: fits %v, MostPages %g", pages, f.Fits, most)
		}
		last = f
	}
	// The paper predicts 47 collisions among 41.5e9 URLs.
	f, err := p.Forecast(Load{Pages: 1e9, LinksPerPage: 83, UniqueFraction: 0.5})
	if err != nil || math.Abs(f.Collisions-46.7) > 0.1 {
		t.Errorf("41.5e9 URLs: %v collisions, %v", f.Collisions, err)
	}
	for _, bad := range []Load{{UniqueFraction: 2}, {TextRatio: 0.5}, {Pages: -1}, {DiskRate: math.NaN()}} {
		if _, err := p.Forecast(bad); err == nil {
			t.Errorf("%+v: accepted", bad)
		}
	}
}

// TestForecastParts: links to hosts take disk for each host, and links to directories for each PLD edge, too.
func TestForecastParts(t *testing.T) {
	size := func(parts state.BudgetParts) (bytes int64) {
		o := defaults(4<<30, 1<<40)
		o.Parts = parts
		p, err := Make(o)
		if err != nil {
			t.Fatal(err)
		}
		f, err := p.Forecast(Load{Pages: 1e8, HostsPerPage: 0.1, EdgesPerPage: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Disk {
			if d.Name == "links to hosts" {
				bytes += d.Bytes
			}
		}
		return bytes
	}
	pld, host, dir := size(state.ByPLDs), size(state.ByHosts), size(state.ByDirectories)
	// A host takes 17 to 22 bytes, once and once more during a pass; 40 million keys are a bit shorter than 10 million.
	if pld != 0 || host < 34*1e7 || host > 44*1e7 || dir < 7*host/2 || dir > 4*host {
		t.Errorf("%d bytes by PLDs, %d by hosts, %d by directories", pld, host, dir)
	}
}

// TestFiles: more pages need more inodes, and so does output: three for each GB.
func TestFiles(t *testing.T) {
	files := func(pages float64, store bool) int64 {
		o := defaults(1<<30, 1<<40)
		if o.Store = store; !store {
			o.ContentSeen = state.ContentOff
		}
		p, err := Make(o)
		if err != nil {
			t.Fatal(err)
		}
		f, err := p.Forecast(Load{Pages: pages})
		if err != nil {
			t.Fatal(err)
		}
		if want := f.DiskBytes > 0 && (f.OutputBytes > 0) == store; !want {
			t.Errorf("output takes %d of %d bytes", f.OutputBytes, f.DiskBytes)
		}
		return p.Files(&f)
	}
	if small, large, bare := files(1e6, true), files(1e9, true), files(1e9, false); small <= LeastFiles ||
		large <= small || large-bare < 3*6100 {
		t.Errorf("got %d, %d and %d files", small, large, bare)
	}
}
