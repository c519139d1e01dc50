package drum

import (
	"math"
	"testing"
)

// The paper's values in decimal units: U = 100 M, l = 59, p = 1/9, b = 110, H = 8, P = 4, M = 256 KB.
const (
	linksPerPage = 59
	paperBuffer  = 256e3
	gb           = 1e9
)

func paperLoad(pages float64) Load {
	return Load{
		Known: 1e8, Links: linksPerPage * pages, UniqueFraction: 1. / 9,
		URLBytes: 110, KeyBytes: 8, PointerBytes: 4,
	}
}

// printed compares a value with a cell of a table to within one unit of its last digit, since some cells
// are truncated instead of rounded.
func printed(t *testing.T, what string, got, want, unit float64) {
	t.Helper()
	if math.Abs(got-want) > unit {
		t.Errorf("%s: got %.4g, the paper has %v", what, got, want)
	}
}

var tablePages = []float64{800e6, 8e9, 80e9, 800e9, 8e12}

func TestTableII(t *testing.T) {
	rows := []struct{ mercator, mu, polybot, pu, drum, du float64 }{
		{11.6, .1, 69, 1, 2.26, .01},
		{93, 1, 663, 1, 2.35, .01},
		{917, 1, 6610, 1, 3.3, .1},
		{9156, 1, 66082, 1, 12.5, .1},
		{91541, 1, 660802, 1, 104, 1},
	}
	for i, r := range rows {
		l := paperLoad(tablePages[i])
		printed(t, "Mercator-B", l.MercatorB(gb), r.mercator, r.mu)
		// bq = 5.5 for q = 0.05; the paper's text has 5 bytes.
		printed(t, "Polybot", l.Polybot(gb, 5.5), r.polybot, r.pu)
		printed(t, "DRUM", l.DRUM(gb, 4.39e12, paperBuffer), r.drum, r.du)
	}
}

// scaledDisk returns D(n) = max(pHn, 1 TB).
func scaledDisk(l Load) float64 { return max(l.UniqueFraction*l.KeyBytes*l.Links, 1e12) }

func TestTableIII(t *testing.T) {
	rows := []struct{ m4, u4, d4, v4, m8, u8, d8, v8 float64 }{
		{4.48, .01, 2.30, .01, 3.29, .01, 2.30, .01},
		{25, 1, 2.7, .1, 13.5, .1, 2.7, .1},
		{231, 1, 3.3, .1, 116, 1, 3.3, .1},
		{2290, 1, 3.3, .1, 1146, 1, 3.3, .1},
		{22887, 1, 8.1, .1, 11444, 1, 3.7, .1},
	}
	for i, r := range rows {
		l := paperLoad(tablePages[i])
		printed(t, "Mercator-B 4 GB", l.MercatorB(4*gb), r.m4, r.u4)
		printed(t, "DRUM 4 GB", l.DRUM(4*gb, scaledDisk(l), paperBuffer), r.d4, r.v4)
		printed(t, "Mercator-B 8 GB", l.MercatorB(8*gb), r.m8, r.u8)
		printed(t, "DRUM 8 GB", l.DRUM(8*gb, scaledDisk(l), paperBuffer), r.d8, r.v8)
	}
}

// Table VI: n and D(n) behind a cache with misses π = 0.33 in c = 320 MB; R - c is left for the check.
func TestTableVI(t *testing.T) {
	const misses, cache = 0.33, 0.32 * gb
	rows := []struct{ m4, u4, d4, v4, m8, u8, d8, v8 float64 }{
		{3.02, .01, 2.27, .01, 2.54, .01, 2.27, .01},
		{10.4, .1, 2.4, .1, 6.1, .1, 2.4, .1},
		{84, 1, 3.3, .1, 41, 1, 3.3, .1},
		{823, 1, 3.3, .1, 395, 1, 3.3, .1},
		{8211, 1, 4.5, .1, 3935, 1, 3.3, .1},
	}
	for i, r := range rows {
		l := paperLoad(tablePages[i] * misses)
		printed(t, "Mercator-B 4 GB", l.MercatorB(4*gb-cache), r.m4, r.u4)
		printed(t, "DRUM 4 GB", l.DRUM(4*gb-cache, scaledDisk(l), paperBuffer), r.d4, r.v4)
		printed(t, "Mercator-B 8 GB", l.MercatorB(8*gb-cache), r.m8, r.u8)
		printed(t, "DRUM 8 GB", l.DRUM(8*gb-cache, scaledDisk(l), paperBuffer), r.d8, r.v8)
	}
}

func TestTableV(t *testing.T) {
	for speed, want := range map[float64]float64{113e3: 1295, 185e3: 1757, 416e3: 2552, 2e6: 3577} {
		printed(t, "S_cache", CacheRate(speed, 4000, linksPerPage), want, 1)
	}
}

func TestDiskRate(t *testing.T) {
	// 15 % of 675 MB/s; R = 8 GB, N = 8T of Table III.
	const bandwidth = .15 * 675e6
	l := paperLoad(8e12)
	drum, mercator := l.DRUM(8*gb, scaledDisk(l), paperBuffer), l.MercatorB(8*gb)
	printed(t, "S_disk", DiskRate(bandwidth, drum, 110, linksPerPage), 4192, 1)
	printed(t, "Mercator-B is slower by", mercator/drum, 3075, 1)
	printed(t, "S_disk of Mercator-B", DiskRate(bandwidth, mercator, 110, linksPerPage), 1.4, .1)
}

// Equation (17) gives 4.80e12 bytes for R = 1 GB, not the printed 4.39 TB.
func TestOptimalDisk(t *testing.T) {
	l := paperLoad(1)
	printed(t, "D_opt", l.OptimalDisk(gb, paperBuffer), 4.80e12, .005e12)
	printed(t, "D_opt in binary units", l.OptimalDisk(1<<30, 256<<10), 5.41e12, .005e12)
	if got := l.OptimalDisk(2*gb, paperBuffer) / l.OptimalDisk(gb, paperBuffer); got != 4 {
		t.Errorf("D_opt grows by %v when R doubles, want 4", got)
	}
}

// If the miss rate does not depend on the rate, Theorem 5 is equation (18) with misses.
func TestHybridRate(t *testing.T) {
	l := paperLoad(.33 * 80e9)
	alpha := l.DRUM(4*gb-.32*gb, scaledDisk(l), paperBuffer)
	constant := func(v float64) func(float64) float64 { return func(float64) float64 { return v } }
	got := HybridRate(101.25e6, 110, linksPerPage, constant(.33), constant(alpha))
	want := DiskRate(101.25e6, alpha, 110, linksPerPage) / .33
	if math.Abs(got-want) > 1e-6*want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPlan(t *testing.T) {
	in := PlanInput{Load: paperLoad(80e9), RAMBytes: gb, BufferBytes: paperBuffer, ReadChunkBytes: 32e6}
	p, err := in.Plan()
	must(t, err)
	if p.Buckets != 1024 || math.Abs(p.ExactBuckets-976.5625) > 1e-9 {
		t.Errorf("got k = %d, exactly %v; want 1024 and R/4M = 976.6", p.Buckets, p.ExactBuckets)
	}
	// r is near 0.33 R. Table II has 3.3; for the larger D_opt it is slightly less.
	printed(t, "r", p.BucketBytes, .33*gb, .02*gb)
	printed(t, "alpha", p.Alpha, in.Load.DRUM(gb, 4.80e12, paperBuffer), .02)
	in.DiskBytes = 1e12
	p, err = in.Plan()
	must(t, err)
	if p.DiskBytes > 1e12 || p.DiskBytes < .5e12 || p.BucketBytes < 32e6 {
		t.Errorf("got D = %v, r = %v", p.DiskBytes, p.BucketBytes)
	}
	for _, ram := range []float64{8 * paperBuffer, 20e6, 1e8, 1e11} {
		in.RAMBytes, in.DiskBytes = ram, 0
		p, err := in.Plan()
		must(t, err)
		used := 2*paperBuffer*float64(p.Buckets) + p.RoundBytes
		if used > ram+1 || p.BucketBytes < p.ReadChunkBytes-1 {
			t.Errorf("R = %v: uses %v: %v", ram, used, p)
		}
	}
	in.RAMBytes = 1e6
	if _, err := in.Plan(); err == nil {
		t.Error("1 MB accepted")
	}
}
