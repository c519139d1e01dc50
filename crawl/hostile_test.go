package crawl

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/gate"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// hostileLimits are small, so that cuts come soon.
var hostileLimits = fetch.Limits{BodyBytes: 1 << 20, DecodedBytes: 2 << 20}

// hostileRun is the result of one crawl of a web with hostile hosts.
type hostileRun struct {
	web     *simweb.Web
	snap    *simweb.Snapshot
	res     *Result
	done    time.Duration // virtual time of the last answer of an ordinary host
	heap    uint64        // maximum of HeapAlloc
	budget  int64         // RAM for bodies, in bytes
	memory  fetch.MemoryStats
	elapsed time.Duration
}

// crawlHostile crawls a small web with scenarios, in virtual time and RAM. It checks what must hold for
// every scenario: the crawl ends, its ordinary part is the same as without the hostile hosts, the places
// balance, the crawl keeps the body budget, and it reads no response far beyond the limits.
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
		// The back-off after two consecutive answers 500 takes no longer than the rest of the crawl.
		opt.Health.Backoff = time.Second
		limits := hostileLimits
		if *longRuns {
			limits = fetch.Limits{BodyBytes: 16 << 20, DecodedBytes: 16 << 20}
		}
		run.budget = limits.MemoryBytes() + 1<<20
		client := newClient(t, fetch.Options{
			Dial: web.Dial, Ports: ports.Of(8080),
			TLS: fetch.TLSOptions{Roots: web.CAPool()}, Limits: limits, BufferBytes: run.budget, HTTP2: true,
		})
		opt.Network.Fetcher, opt.Network.FetchLimits = client, limits
		opt.Admission.SeedLines = append(slices.Clone(web.Seeds()), web.HostileSeeds()...)
		opt.Observe.SnapshotEvery = time.Second
		opt.Observe.Snapshot = func(*Snapshot) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			run.heap = max(run.heap, m.HeapAlloc-min(m.HeapAlloc, before.HeapAlloc))
		}
		begin := time.Now()
		run.res = mustRun(t, t.Context(), opt)
		run.elapsed = time.Since(begin)
		if run.res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", run.res.Stop, StopDone)
		}
		checkFetched(t, web, &opt)
		checkBalanced(t, fs, opt.Disk.Dirs)
		run.web, run.snap, run.memory = web, web.Log().Snapshot(), client.Memory()
		for _, q := range run.snap.Requests {
			if q.Known {
				run.done = max(run.done, q.End)
			}
		}
		if m := run.memory; m.Bytes != 0 || m.MostBytes > run.budget {
			t.Errorf("bodies took %+v", m)
		}
		// Plus the head, and the size of one write of the server.
		most := int64(limits.BodyBytes + 64<<10 + 128<<10)
		for host, c := range run.snap.Hostile {
			if c.MostBytes > most {
				t.Errorf("%s sent %d bytes in one response, limit %d", host, c.MostBytes, limits.BodyBytes)
			}
		}
	})
	return run
}

// hostileWant is the expected end of a scenario's URLs: the numbers of stored and truncated responses, of
// refused URLs by reason, and of URLs that are deferred when the crawl ends.
type hostileWant struct {
	responses, truncated, undecoded int64
	refused                         map[string]int64
	later                           int64
	never                           []string // "scenario path": prefixes of paths that must not be requested
}

// hostileCases returns all scenarios of HTTP and pages.
func hostileCases() map[string]hostileWant {
	farm := int64(100) // hosts
	if *longRuns {
		farm *= 16
	}
	return map[string]hostileWant{
		"endless-body": {responses: 4, truncated: 3},
		"endless-head": {refused: map[string]int64{"bad-response": 1, "head-too-large": 3}},
		"trickle":      {responses: 3, truncated: 3, refused: map[string]int64{"timeout": 2}},
		"slow-farm":    {responses: 1 + farm, truncated: farm},
		"bombs":        {responses: 7, undecoded: 6},
		"huge-pages":   {responses: 27, truncated: 1},
		"redirects":    {responses: 30, truncated: 1}, // the first 21 URLs of a chain of 30 hops
		"robots-giant": {responses: 15, refused: map[string]int64{"robots": 10},
			never: []string{"robots-giant /no", "robots-giant /late"}},
		"robots-patterns": {responses: 7, refused: map[string]int64{"robots": 6},
			never: []string{"robots-patterns /no/"}},
		"robots-circles": {responses: 15},
		"robots-broken":  {responses: 2, later: 7},
		"desync":         {responses: 68, truncated: 10, never: []string{"desync /forged"}},
		"bad-http2": {responses: 5, truncated: 5,
			refused: map[string]int64{"bad-response": 8, "head-too-large": 2}},
		"resets": {responses: 4, truncated: 4, refused: map[string]int64{"bad-response": 1, "reset": 1}, later: 1},
	}
}

// TestHostileWebAtOnce runs all scenarios together.
func TestHostileWebAtOnce(t *testing.T) {
	notShort(t)
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

// TestHostileWeb: whatever the hostile hosts do, the crawl must end, fetch the same pages of other hosts as
// early, keep its memory bounded, and end each hostile URL with the expected reason.
func TestHostileWeb(t *testing.T) {
	notShort(t)
	plain := crawlHostile(t)
	t.Logf("without: %d URLs, done after %v, ended after %v, heap %d MiB", len(plain.snap.Fetches),
		plain.done, plain.elapsed, plain.heap>>20)
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
	t.Logf("%d responses, %d truncated, refused %v, %d deferred; other hosts done after %v (without hostile hosts "+
		"%v), ended after %v; heap %d MiB, bodies %d KiB"+
		" (%d waits); links: %d dropped, %d too long", more(state.CountResponses), more(state.CountTruncated), refused,
		later, run.done, plain.done, run.elapsed, run.heap>>20, run.memory.MostBytes>>10, run.memory.Waits,
		more(state.CountLinksDropped), more(state.CountLinksTooLong))
	if n := more(state.CountDecodeCut); n != want.undecoded {
		t.Errorf("%d bodies truncated during decoding, want %d", n, want.undecoded)
	}
	if more(state.CountResponses) != want.responses || more(state.CountTruncated) != want.truncated ||
		!maps.Equal(refused, want.refused) || later != want.later {
		t.Errorf("got %d responses, %d truncated, refused %v, %d deferred; want %+v", more(state.CountResponses),
			more(state.CountTruncated), refused, later, want)
	}
	// A batch of URLs that wait for robots.txt waits at most stragglers for the slowest host. Roots and the
	// pages they link to make two batches.
	if limit := plain.done + plain.done/2 + 2*gate.Stragglers; run.done > limit {
		t.Errorf("other hosts were done after %v, without the hostile hosts after %v", run.done, plain.done)
	}
	if run.heap > plain.heap+96<<20+4*uint64(run.budget) {
		t.Errorf("heap of %d MiB, without the hostile hosts %d MiB", run.heap>>20, plain.heap>>20)
	}
	for _, q := range run.snap.Requests {
		for _, never := range want.never {
			scenario, path, _ := strings.Cut(never, " ")
			if run.web.HostileScenario(q.Host) == scenario && strings.Contains(q.URL, ".test"+path) {
				t.Errorf("requested %s", q.URL)
			}
		}
	}
}
