package drum

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/bench/baselines"
	"drumbeat/bench/links"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
)

// slowFS is a disk that reads and writes rate bytes per second, one request at a time, in the time of a bubble.
type slowFS struct {
	disk.FS
	rate float64
	turn chan struct{} // taken while a request lasts; a mutex would stop the bubble's time
}

func (s *slowFS) wrap(f disk.File, err error) (disk.File, error) { return slowFile{f, s}, err }

func (s *slowFS) Create(name string) (disk.File, error)   { return s.wrap(s.FS.Create(name)) }
func (s *slowFS) Open(name string) (disk.File, error)     { return s.wrap(s.FS.Open(name)) }
func (s *slowFS) OpenRead(name string) (disk.File, error) { return s.wrap(s.FS.OpenRead(name)) }

func (s *slowFS) take(n int) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	time.Sleep(time.Duration(float64(n) / s.rate * float64(time.Second)))
}

type slowFile struct {
	disk.File
	fs *slowFS
}

func (f slowFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.fs.take(n)
	return n, err
}

func (f slowFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.take(len(p))
	return f.File.WriteAt(p, off)
}

// slowRun runs a job on a disk of the given rate in a bubble, where the CPU takes no time.
func slowRun(t *testing.T, method string, rate float64, cache int64, stream links.Options) (run *Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := memfs.New(1)
		must(t, mem.MkdirAll("d"))
		job := &drumJob{Method: method, Dirs: []string{"d"}, RAMBytes: 4<<20 + cache, CacheBytes: cache,
			BufferBytes: 8 << 10, Adders: 1, Workers: 1, Links: 600_000, Stream: stream,
			fs: &slowFS{FS: mem, rate: rate, turn: make(chan struct{}, 1)}}
		if method == formPlain || method == formHybrid {
			job.DiskBytes = 3e6
		}
		var err error
		if run, err = runDrumJob(t.Context(), job, func(string) {}); err != nil {
			t.Fatal(err)
		}
	})
	return run
}

// perPage is l.
const perPage = 59

// TestTheorem3: a disk of W bytes per second allows the W/(alpha b l) pages per second of Theorem 3, with alpha by
// Theorems 1 and 2. All time is the disk's, so nothing but its bytes counts.
func TestTheorem3(t *testing.T) {
	for _, method := range []string{formPlain, baselines.MercatorB, baselines.Polybot} {
		for _, known := range []int64{0, 200_000} {
			if testing.Short() && (known == 0 || method == baselines.Polybot) {
				continue
			}
			const rate = 20e6
			run := slowRun(t, method, rate, 0,
				links.Options{Known: known, UniqueShare: 1. / 9, Recent: links.NoRecent, Seed: 1})
			b := float64(run.TextBytes) / float64(run.Links)
			alpha := run.predicted(3e6) / b
			want := drum.DiskRate(rate, alpha, b, perPage)
			got := float64(run.Links) / perPage / run.measured().Seconds()
			t.Logf("%s, U %d: alpha %.3f, %.0f pages/s; Theorem 3 has %.0f (%+.1f %%)", method, known, alpha, got, want,
				100*(got/want-1))
			if math.Abs(got/want-1) > 0.1 {
				t.Errorf("%s, U %d: %.0f pages/s, Theorem 3 has %.0f", method, known, got, want)
			}
		}
	}
}

// siteLinks returns a stream whose links come back after at most as many links as the crawl finds between two visits
// to a site, so their distance grows with the rate: tau_h l S.
func siteLinks(rate float64) links.Options {
	return links.Options{Known: 100_000, UniqueShare: 1. / 9, Recent: 0.8, Window: max(1, int(4*rate)), Seed: 1}
}

// missesAt returns pi(c, S): the share of links that miss a cache of c bytes in a crawl of S pages/s.
func missesAt(t *testing.T, cache int64, rate float64) float64 {
	t.Helper()
	s, err := links.New(siteLinks(rate))
	must(t, err)
	c := drum.NewRAMCache(cache)
	defer c.Close()
	var b links.Batch
	const half = 300_000
	misses := 0
	for n := 0; n < 2*half; n += len(b.Keys) {
		s.Next(&b, 1000)
		for _, key := range b.Keys {
			if !c.TestAndSet(drum.Key(key)) {
				misses++
			}
		}
	}
	return float64(misses) / (2 * half)
}

// TestTheorem5: disk and RAM cache together allow the rate of Theorem 5. A crawl at that rate spends all time on the
// disk; the cache's misses, measured alone at several rates, predict it as the root of equation (23).
func TestTheorem5(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	const disk, cache = 20e6, 8 << 10
	var rates, shares []float64
	for s := 250.0; s <= 16_000; s *= 2 {
		rates, shares = append(rates, s), append(shares, missesAt(t, cache, s))
	}
	misses := func(s float64) float64 { // between the measured rates, linear in their logarithms
		x := math.Log2(s / rates[0])
		i := min(max(int(x), 0), len(rates)-2)
		return shares[i] + (x-float64(i))*(shares[i+1]-shares[i])
	}
	if shares[len(shares)-1] < 1.3*shares[0] {
		t.Fatalf("the misses %.3f hardly rise with the rate", shares)
	}
	rate := 1000.0 // of the crawl whose links the stream has; its own disk must allow it
	var run *Result
	for range 6 {
		run = slowRun(t, formHybrid, disk, cache, siteLinks(rate))
		rate = float64(run.Links) / perPage / run.measured().Seconds()
	}
	b, n := float64(run.TextBytes)/float64(run.Links), float64(run.Links)
	alpha := func(pi float64) float64 {
		c := batchCost{known: float64(run.Known), links: pi * n, unique: float64(run.Found) / (pi * n), key: 8,
			batch: min(run.Batch, 3e6/(8+b)), perLink: 2*b + 16, url: b}
		return c.bytes() / b
	}
	want := drum.HybridRate(disk, b, perPage, misses, alpha)
	t.Logf("misses %.3f at %v pages/s; %.0f pages/s with %.3f misses; Theorem 5 has %.0f (%+.1f %%)",
		shares, rates, rate, float64(run.Misses)/n, want, 100*(rate/want-1))
	if math.Abs(rate/want-1) > 0.1 {
		t.Errorf("%.0f pages/s, Theorem 5 has %.0f", rate, want)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
