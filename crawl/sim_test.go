package crawl

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
)

var (
	verbose  = flag.Bool("crawl.v", false, "log the snapshots of the crawls under test")
	longRuns = flag.Bool("long", false, "run the long form of each test")
	seedFlag = flag.Uint64("seed", 1, "seed of the synthetic web and of the crashes")
)

// longOr returns long with -long, otherwise short.
func longOr[T any](long, short T) T {
	if *longRuns {
		return long
	}
	return short
}

// notShort leaves a test out with -short. It takes long, and the tests that stay run most of its code.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}

// simResolver looks up the names of a synthetic web in the process.
type simResolver struct{ web *simweb.Web }

func (s simResolver) LookupHost(ctx context.Context, host, _ string) (Lookup, error) {
	addrs, err := s.web.LookupHost(host)
	if err != nil {
		le := &LookupError{Host: host, Err: err}
		var de *simweb.DNSError
		if errors.As(err, &de) && (de.Kind == simweb.NXDomain || de.Kind == simweb.NoData) {
			le.NotFound = true
		}
		le.NoAnswer = de != nil && de.Kind == simweb.DNSTimeout
		return Lookup{}, le
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !a.Is4() })
	return Lookup{Addrs: addrs, Expires: time.Now().Add(time.Hour)}, nil
}

// simOptions returns the options of a small crawl of web over a virtual network, on fs.
func simOptions(t testing.TB, web *simweb.Web, fs disk.FS) Options {
	t.Helper()
	client, err := fetch.New(fetch.Options{
		Dial: web.Dial, AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: ports.Of(8080),
		TLS: fetch.TLSOptions{Roots: web.CAPool()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	opt := Options{
		FS: fs, Dirs: []string{"d0", "d1"}, SeedLines: web.Seeds(), Agent: "drumbeat", Contact: "test@example.org",
		Resolver: simResolver{web}, Fetcher: client, AllowedAddr: client.AllowedAddr, Ports: client.Ports(), RAMBytes: 128 << 20, DiskBytes: 10 << 30, Connections: 64, Retries: 2,
		KeepAlive: 10 * time.Second, HostDelay: 200 * time.Millisecond, HostDelayMin: 50 * time.Millisecond, ServerDelay: 20 * time.Millisecond,
		ServerDelayMin: 5 * time.Millisecond, Linger: 5 * time.Second, CheckpointEvery: 5 * time.Second, Store: true,
		CrawlLog: state.LogAll, StockTarget: 2000, MaxDepth: Unlimited,
	}
	if *verbose {
		opt.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		opt.Snapshot = func(s *Snapshot) {
			t.Logf("%v: %v fetched %d pages %d waiting for %q deferred %v refused %v robots %d+%d s=%d h=%d", s.Elapsed, s.Places,
				s.Counters[state.CountResponses], s.Counters[state.CountPages], s.Waiting, s.Deferred, s.Refused, s.RobotsInFlight, s.RobotsQueued,
				s.Queue, s.Horizon)
		}
		opt.SnapshotEvery = 10 * time.Second
	}
	return opt
}

// checkBalanced audits a stopped crawl.
func checkBalanced(t *testing.T, fsys disk.FS, dirs []string) {
	t.Helper()
	if rep, err := audit.Run(fsys, dirs); err != nil || !rep.Balanced() {
		t.Errorf("audit: %v, %+v", err, rep)
	}
}

// checkFetched compares the web's own log with what a correct crawl fetches.
func checkFetched(t *testing.T, web *simweb.Web, opt *Options) {
	t.Helper()
	snap := web.Log().Snapshot()
	if snap.Dropped > 0 {
		t.Fatalf("the web's log dropped %d entries", snap.Dropped)
	}
	want := web.Expected("drumbeat")
	missing, twice := 0, 0
	for url := range want.FetchedURLs() {
		switch n := snap.Fetches[url]; {
		case n == 0:
			if missing++; missing <= 10 {
				t.Errorf("not fetched: %s", url)
			}
		case n > 1:
			if twice++; twice <= 10 {
				t.Errorf("fetched %d times: %s", n, url)
			}
		}
	}
	extra := 0
	for url := range snap.Fetches {
		if fetched, _, _ := want.Has(url); !fetched {
			if extra++; extra <= 10 {
				t.Errorf("fetched, but must not be: %s", url)
			}
		}
	}
	for url, n := range snap.Wrong {
		t.Errorf("requested %d times, but no link leads there: %s", n, url)
	}
	if missing+twice+extra > 0 {
		t.Errorf("%d of %d URLs missing, %d fetched twice, %d fetched that must not be", missing, want.Fetched, twice, extra)
	}
	checkDelays(t, snap, opt, 0)
}

// checkDelays checks politeness by the web's clock: the host delay from the end of a response to the start
// of the next request, and the server delay from start to start.
func checkDelays(t *testing.T, snap *simweb.Snapshot, opt *Options, slack time.Duration) {
	t.Helper()
	for host, tr := range snap.Hosts {
		if tr.MaxBusy > 1 || tr.MaxConns > 1 {
			t.Errorf("%s: %d concurrent requests on %d connections", host, tr.MaxBusy, tr.MaxConns)
		}
		if tr.EndToStart >= 0 && tr.EndToStart < opt.HostDelayMin {
			t.Errorf("%s: a request came %v after the previous response", host, tr.EndToStart)
		}
	}
	for ip, tr := range snap.Servers {
		if tr.StartToStart >= 0 && tr.StartToStart < opt.ServerDelayMin-slack {
			t.Errorf("server %s: two requests within %v", ip, tr.StartToStart)
		}
	}
}

func smallWeb(t testing.TB, change func(*simweb.Options)) *simweb.Web {
	t.Helper()
	o := simweb.Defaults(*seedFlag)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.LogRequests = 20, 60, 800, 20, 100_000
	o.CrawlDelay = 100 * time.Millisecond
	if change != nil {
		change(&o)
	}
	web, err := simweb.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return web
}

// inBubble runs f with virtual time.
func inBubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// TestClosedWebIsCrawledExactly: a crawl of a closed web fetches each URL that it must fetch once, ends by
// itself with a balanced audit, and refuses to run again.
func TestClosedWebIsCrawledExactly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		fs := memfs.New(*seedFlag)
		opt := simOptions(t, web, fs)
		res, err := Run(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		if res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
		}
		checkFetched(t, web, &opt)
		rep, err := audit.Run(fs, opt.Dirs)
		if err != nil {
			t.Fatal(err)
		}
		if !rep.Balanced() {
			t.Errorf("audit: %v", rep.Bad)
		}
		if res, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) {
			t.Errorf("running a finished crawl again: got %v, %v, want ErrFinished", res, err)
		}
	})
}
