package crawl

import (
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/simweb"
)

// hostileLimits are small, so that what is cut is cut soon.
var hostileLimits = fetch.Limits{BodyBytes: 1 << 20, DecodedBytes: 2 << 20}

// hostileRun is what one crawl of a web with hostile hosts brought.
type hostileRun struct {
	web     *simweb.Web
	snap    *simweb.Snapshot
	res     *Result
	done    time.Duration // virtual time until the last request to an ordinary host was answered
	heap    uint64        // the most that HeapAlloc was
	budget  int64         // of bodies
	memory  fetch.MemoryStats
	elapsed time.Duration
}

// crawlHostile crawls a small web with scenarios on, in virtual time and RAM, and checks what holds for any of them: the
// crawl ends, its ordinary part is as it would be without, the places balance, the budget of bodies is kept, and no
// response was read much further than its limits.
func crawlHostile(t *testing.T, scenarios ...string) (run hostileRun) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs = 10, 20, 150, 10
			o.Hostile = scenarios
			if *longRuns {
				o.HostileScale = 16
			}
		})
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		fs := memfs.New(*seedFlag)
		opt := simOptions(t, web, fs)
		opt.Backoff = time.Second // two pages that answer 500 one after the other take no longer than all the rest
		limits := hostileLimits
		if *longRuns {
			limits = fetch.Limits{BodyBytes: 16 << 20, DecodedBytes: 16 << 20}
		}
		run.budget = limits.MemoryBytes() + 1<<20
		client, err := fetch.New(fetch.Options{
			Dial: web.Dial, AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []uint16{8080},
			TLS: fetch.TLSOptions{Roots: web.CAPool()}, Limits: limits, BufferBytes: run.budget,
		})
		if err != nil {
			t.Fatal(err)
		}
		opt.Fetcher, opt.FetchLimits = client, limits
		opt.SeedLines = append(slices.Clone(web.Seeds()), web.HostileSeeds()...)
		opt.SnapshotEvery = time.Second
		opt.Snapshot = func(*Snapshot) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			run.heap = max(run.heap, m.HeapAlloc-min(m.HeapAlloc, before.HeapAlloc))
		}
		begin := time.Now()
		run.res, err = Run(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		run.elapsed = time.Since(begin)
		if run.res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", run.res.Stop, StopDone)
		}
		checkFetched(t, web, &opt)
		checkBalanced(t, fs, opt.Dirs)
		run.web, run.snap, run.memory = web, web.Log().Snapshot(), client.Memory()
		for _, q := range run.snap.Requests {
			if q.Known {
				run.done = max(run.done, q.End)
			}
		}
		if m := run.memory; m.Bytes != 0 || m.MostBytes > run.budget {
			t.Errorf("bodies took %+v", m)
		}
		most := int64(limits.BodyBytes + 64<<10 + 128<<10) // head, and what the server writes at once
		for host, c := range run.snap.Hostile {
			if c.MostBytes > most {
				t.Errorf("%s sent %d bytes in one response, limit %d", host, c.MostBytes, limits.BodyBytes)
			}
		}
	})
	return run
}

// hostileWant is what becomes of a scenario's URLs: how many responses were stored, how many of them cut, how many of
// the URLs refused and why, and how many wait on when the crawl ends.
type hostileWant struct {
	responses, truncated, undecoded int64
	refused                         map[string]int64
	later                           int64
	never                           []string // "scenario path": beginnings of what must not have been asked for
}

// hostileCases are all scenarios of HTTP and of pages.
func hostileCases() map[string]hostileWant {
	farm := int64(100) // hosts
	if *longRuns {
		farm *= 16
	}
	return map[string]hostileWant{
		"endless-body":    {responses: 4, truncated: 3},
		"endless-head":    {refused: map[string]int64{"bad-response": 4}},
		"trickle":         {responses: 3, truncated: 3, refused: map[string]int64{"timeout": 2}},
		"slow-farm":       {responses: 1 + farm, truncated: farm},
		"bombs":           {responses: 7, undecoded: 6},
		"huge-pages":      {responses: 27, truncated: 1},
		"redirects":       {responses: 30, truncated: 1}, // of a chain of 30 hops the first 21 URLs
		"robots-giant":    {responses: 15, refused: map[string]int64{"robots": 10}, never: []string{"robots-giant /no", "robots-giant /late"}},
		"robots-patterns": {responses: 7, refused: map[string]int64{"robots": 6}, never: []string{"robots-patterns /no/"}},
		"robots-circles":  {responses: 15},
		"robots-broken":   {responses: 2, later: 7},
		"desync":          {responses: 68, truncated: 10, never: []string{"desync /forged"}},
		"resets":          {responses: 4, truncated: 4, refused: map[string]int64{"bad-response": 1, "reset": 1}, later: 1},
	}
}

// TestHostileWebAtOnce: all scenarios together.
func TestHostileWebAtOnce(t *testing.T) {
	var all hostileWant
	all.refused = map[string]int64{}
	cases := hostileCases()
	for _, w := range cases {
		all.responses += w.responses
		all.truncated += w.truncated
		all.undecoded += w.undecoded
		all.later += w.later
		for why, n := range w.refused {
			all.refused[why] += n
		}
		all.never = append(all.never, w.never...)
	}
	plain := crawlHostile(t)
	run := crawlHostile(t, slices.Sorted(maps.Keys(cases))...)
	run.compare(t, &plain, all)
}

// TestHostileWeb: whatever some hosts do, the crawl ends, the others' pages are the same and come as soon, memory is
// bounded, and each hostile URL ends with its reason.
func TestHostileWeb(t *testing.T) {
	plain := crawlHostile(t)
	t.Logf("without: %d URLs, done after %v, ended after %v, heap %d MiB", len(plain.snap.Fetches), plain.done, plain.elapsed,
		plain.heap>>20)
	cases := hostileCases()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			run := crawlHostile(t, name)
			run.compare(t, &plain, cases[name])
		})
	}
}

func (run *hostileRun) compare(t *testing.T, plain *hostileRun, want hostileWant) {
	t.Helper()
	s, p := &run.res.Snapshot, &plain.res.Snapshot
	refused := map[string]int64{}
	for why, n := range s.Refused {
		if n -= p.Refused[why]; n != 0 {
			refused[why] = n
		}
	}
	more := func(c state.Counter) int64 { return s.Count(c) - p.Count(c) }
	later := s.Place(state.PlaceDeferred) - p.Place(state.PlaceDeferred)
	t.Logf("%d responses, %d cut, refused %v, %d later; others done after %v (without %v), ended after %v; heap %d MiB, bodies %d KiB"+
		" (%d waits); links: %d dropped, %d too long", more(state.CountResponses), more(state.CountTruncated), refused, later, run.done, plain.done,
		run.elapsed, run.heap>>20, run.memory.MostBytes>>10, run.memory.Waits, more(state.CountLinksDropped), more(state.CountLinksTooLong))
	if n := more(state.CountDecodeCut); n != want.undecoded {
		t.Errorf("%d bodies cut while being decoded, want %d", n, want.undecoded)
	}
	if more(state.CountResponses) != want.responses || more(state.CountTruncated) != want.truncated || !maps.Equal(refused, want.refused) ||
		later != want.later {
		t.Errorf("got %d responses, %d cut, refused %v, %d later; want %+v", more(state.CountResponses), more(state.CountTruncated), refused,
			later, want)
	}
	// A batch of URLs that wait for robots.txt is held up by the slowest for at most stragglers; roots and what they lead to
	// make two batches.
	if limit := plain.done + plain.done/2 + 2*stragglers; run.done > limit {
		t.Errorf("others were done after %v, without the hostile hosts after %v", run.done, plain.done)
	}
	if run.heap > plain.heap+96<<20+4*uint64(run.budget) {
		t.Errorf("heap of %d MiB, without the hostile hosts %d", run.heap>>20, plain.heap>>20)
	}
	for _, q := range run.snap.Requests {
		for _, never := range want.never {
			scenario, path, _ := strings.Cut(never, " ")
			if run.web.HostileScenario(q.Host) == scenario && strings.Contains(q.URL, ".test"+path) {
				t.Errorf("asked for %s", q.URL)
			}
		}
	}
}
