package crawl

import (
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/weburl"
)

// trapRun is the result of a crawl of a small web with some traps.
type trapRun struct {
	res      *Result
	ends     []time.Duration // virtual times of the answers of ordinary URLs, ascending
	robots   int             // requests for robots.txt of hostile hosts
	hostile  int             // requests to hostile hosts, including robots
	hosts    int             // hostile hosts that got a request
	lookups  int
	heap     uint64           // maximum of HeapAlloc
	routines int              // maximum number of goroutines
	pages    map[string]int64 // requests to hostile hosts, without robots
}

// at returns the number of ordinary URLs fetched until d.
func (run *trapRun) at(d time.Duration) int {
	n, _ := slices.BinarySearch(run.ends, d+1)
	return n
}

// trapTime is the maximum duration of a crawl with traps, in virtual time: several times the duration
// without them.
const trapTime = 50 * time.Second

// crawlTraps crawls a small web with scenarios, in virtual time and RAM, for at most trapTime.
func crawlTraps(t *testing.T, tune func(*simweb.Options, *Options), scenarios ...string) (run trapRun) {
	inBubble(t, func(t *testing.T) {
		var opt Options
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs, o.LogRequests = 10, 20, 300, 10, 1<<14
			o.Hostile = scenarios
			if tune != nil {
				tune(o, &opt)
			}
		})
		fs := memfs.New(*seedFlag)
		opt = simOptions(t, web, fs)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = 600*time.Millisecond, 200*time.Millisecond, 40*time.Millisecond,
			10*time.Millisecond
		opt.Limits.MaxTime, opt.Disk.CheckpointEvery, opt.Output.CrawlLog, opt.Output.Store = trapTime, time.Minute,
			state.LogOff, false
		if tune != nil {
			tune(nil, &opt)
		}
		opt.Admission.SeedLines = append(slices.Clone(web.Seeds()), web.HostileSeeds()...)
		opt.Observe.SnapshotEvery = 10 * time.Second
		opt.Observe.Snapshot = func(sn *Snapshot) {
			if *verbose {
				t.Logf("%v: %v waiting for %q deferred %v refused %v robots %d+%d s=%d h=%d", sn.Elapsed, sn.Places,
					sn.Wait.Text, sn.Deferred, sn.Refused, sn.RobotsInFlight, sn.RobotsQueued, sn.Queue, sn.Horizon)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			run.heap, run.routines = max(run.heap, m.HeapAlloc-min(m.HeapAlloc, uint64(fs.HeldBytes()))),
				max(run.routines, runtime.NumGoroutine())
		}
		run.res = mustRun(t, t.Context(), opt)
		checkBalanced(t, fs, opt.Disk.Dirs)
		snap := web.Log().Snapshot()
		if snap.Dropped > 0 {
			t.Errorf("the log dropped %d entries", snap.Dropped)
		}
		want := web.Expected("drumbeat")
		for url, n := range snap.Fetches {
			if ok, _, _ := want.Has(url); !ok || n > 1 {
				t.Errorf("%s fetched %d times, expected %t", url, n, ok)
			}
		}
		checkDelays(t, snap, &opt, 0)
		for _, q := range snap.Requests {
			switch {
			case q.Known && !q.Robots:
				run.ends = append(run.ends, q.End)
			case !q.Known && q.Robots:
				run.robots++
			}
		}
		slices.Sort(run.ends)
		run.pages = map[string]int64{}
		for _, q := range snap.Requests {
			if !q.Known && !q.Robots {
				run.pages[q.Host]++
			}
		}
		for _, c := range snap.Hostile {
			run.hostile, run.hosts = run.hostile+int(c.Requests), run.hosts+1
		}
		for _, n := range snap.Lookups {
			run.lookups += n
		}
	})
	return run
}

// trapCase says how a trap's crawl must end, by itself or by MaxTime, and which reasons it must count.
type trapCase struct {
	ends    bool
	refused map[string]int64 // exact counts of its refused URLs; nil: none
	later   string           // reason for which the rest of its URLs are deferred, if any
	links   state.Counter    // counter that must not be 0; 0: none
	pages   int64            // minimum number of pages from it
}

func trapCases() map[string]trapCase {
	return map[string]trapCase{
		"calendar":          {pages: 50},
		"alike":             {pages: 100},
		"session-ids":       {pages: 50},
		"repeated-segments": {pages: 50},
		"wildcard-dns":      {pages: 50},
		"link-farm":         {pages: 500},
		"endless-farm":      {pages: 500},
		"star-farm":         {pages: 500},
		"chain-farm":        {pages: 400},
		"ring-farm":         {pages: 400},
		"colliding-urls":    {ends: true, pages: 65},
		"dns-slow":          {ends: true, pages: 60},
		"dns-silent":        {later: "await-robots"},
		"dns-inside":        {ends: true, refused: map[string]int64{"forbidden-address": 10}, pages: 10},
		"dns-many":          {ends: true, refused: map[string]int64{"connect-failure": 2}},
		"dns-victim":        {pages: 100},
		"tls-stalls":        {later: "robots-unavailable"},
		"tls-chains":        {later: "robots-unavailable", pages: 7},
	}
}

// TestTraps: whatever the names, certificates and URL supplies of a trap, nine tenths of the other pages
// must come as soon as without it, memory must be bounded, delays must hold, and each URL that is not
// fetched must have a reason.
func TestTraps(t *testing.T) {
	notShort(t)
	plain := crawlTraps(t, nil)
	s := &plain.res.Snapshot
	last := plain.ends[len(plain.ends)-1]
	t.Logf("without: %d URLs, the last after %v, ended after %v; refused %v, deferred %v; heap %d MiB, %d goroutines",
		len(plain.ends), last, s.Elapsed, s.Refused, s.Deferred, plain.heap>>20, plain.routines)
	cases := trapCases()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			run := crawlTraps(t, nil, name)
			run.compare(t, &plain, cases[name])
		})
	}
}

func (run *trapRun) compare(t *testing.T, plain *trapRun, c trapCase) {
	t.Helper()
	s, p := &run.res.Snapshot, &plain.res.Snapshot
	last := plain.ends[len(plain.ends)-1]
	soon := last + last/4
	refused := map[string]int64{}
	for why, n := range s.Refused {
		if n -= p.Refused[why]; n != 0 {
			refused[why] = n
			if n < 0 && run.res.Stop == StopTime {
				// Ordinary URLs that were not reached; the test limits their number below.
				delete(refused, why)
			}
		}
	}
	t.Logf("stopped by %q after %v: other URLs %d of %d by %v, %d in total; trap: %d requests to %d hosts, %d for "+
		"robots.txt; lookups %d; refused %v, deferred %v; too long %d; heap %d MiB, %d goroutines",
		run.res.Stop, s.Elapsed, run.at(soon), len(plain.ends), soon, len(run.ends), run.hostile, run.hosts, run.robots,
		run.lookups, refused, s.Deferred, s.Count(state.CountLinksTooLong), run.heap>>20, run.routines)
	if got := run.at(soon); got*10 < len(plain.ends)*9 {
		t.Errorf("%d of %d other URLs fetched after %v, want at least 90 %%", got, len(plain.ends), soon)
	}
	if c.ends != (run.res.Stop == StopDone) && c.later == "" {
		t.Errorf("stopped by %q", run.res.Stop)
	}
	if !maps.Equal(refused, c.refused) {
		t.Errorf("refused %v, want %v", refused, c.refused)
	}
	if c.links != 0 && s.Count(c.links) == 0 {
		t.Errorf("counter %d is 0", c.links)
	}
	if c.later != "" && s.Deferred[c.later] == 0 {
		t.Errorf("deferred %v, want some with reason %s", s.Deferred, c.later)
	}
	if run.heap > plain.heap+64<<20 {
		t.Errorf("heap of %d MiB, %d MiB without the trap", run.heap>>20, plain.heap>>20)
	}
	if got := s.Count(state.CountPages) - p.Count(state.CountPages); got < c.pages {
		t.Errorf("fetched %d pages of the trap, want at least %d", got, c.pages)
	}
}

// TestCollidingURLs: URLs that collide under xxhash64 with any seed must have different keys under any
// secret.
func TestCollidingURLs(t *testing.T) {
	urls := simweb.CollidingURLs("http://www.example.test/", 8)
	for seed := range uint64(100) {
		sum := func(url string) uint64 {
			d := xxhash.NewWithSeed(seed * 0x9e3779b97f4a7c15)
			_, _ = d.WriteString(url)
			return d.Sum64()
		}
		for _, url := range urls {
			if sum(url) != sum(urls[0]) {
				t.Fatalf("%s and %s don't collide under seed %d, as this test requires", url, urls[0], seed)
			}
		}
	}
	for range 16 {
		secret, err := weburl.NewSecret()
		must(t, err)
		h := weburl.NewHasher(secret)
		keys := map[uint64]bool{}
		for _, url := range urls {
			if c, err := weburl.Canonical(url); err != nil || c != url {
				t.Fatalf("%s isn't canonical: %s, %v", url, c, err)
			}
			b := []byte(url)
			for _, key := range []uint64{h.URLKey(b), h.HostKey(b), h.OriginKey(b), h.PLDKey(b), h.ContentKey(b)} {
				keys[key] = true
			}
		}
		if len(urls) != 256 || len(keys) != 5*len(urls) {
			t.Errorf("%d keys of %d URLs, want 5 of each", len(keys), len(urls))
		}
	}
}
