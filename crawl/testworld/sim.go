package testworld

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/resolve"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/simweb"
	"drumbeat/state/audit"
	"drumbeat/state/explain"
)

// Flags of the test binaries that import this package.
var (
	Verbose = flag.Bool("crawl.v", false, "log the snapshots of the crawls under test")
	Long    = flag.Bool("long", false, "run the long form of each test")
	Seed    = flag.Uint64("seed", 1, "seed of the synthetic web and of the crashes")
)

// LongOr returns long with -long, otherwise short.
func LongOr[T any](long, short T) T {
	if *Long {
		return long
	}
	return short
}

// NotShort leaves a test out with -short. It takes long, and the tests that stay run most of its code.
func NotShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}

// SimResolver looks up the names of a synthetic web in the process.
type SimResolver struct{ Web *simweb.Web }

// LookupHost returns the IPv4 addresses of a host.
func (s SimResolver) LookupHost(ctx context.Context, host, _ string) (resolve.Lookup, error) {
	addrs, err := s.Web.LookupHost(host)
	if err != nil {
		le := &resolve.Error{Host: host, Err: err}
		var de *simweb.DNSError
		if errors.As(err, &de) && (de.Kind == simweb.NXDomain || de.Kind == simweb.NoData) {
			le.NotFound = true
		}
		le.NoAnswer = de != nil && de.Kind == simweb.DNSTimeout
		return resolve.Lookup{}, le
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !a.Is4() })
	return resolve.Lookup{Addrs: addrs, Expires: time.Now().Add(time.Hour)}, nil
}

// Client returns a client for the addresses of opt.AllowNets, or for loopback addresses.
func Client(t testing.TB, opt fetch.Options) *fetch.Client {
	t.Helper()
	if opt.AllowNets == nil {
		opt.AllowNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	client, err := fetch.New(opt)
	must(t, err)
	return client
}

// Explainer explains the crawl in dirs.
func Explainer(t testing.TB, fsys disk.FS, dirs []string) *explain.Explainer {
	t.Helper()
	x, err := explain.NewExplainer(explain.Options{FS: fsys, Dirs: dirs})
	must(t, err)
	return x
}

// CheckBalanced audits a stopped crawl.
func CheckBalanced(t *testing.T, fsys disk.FS, dirs []string) {
	t.Helper()
	if rep, err := audit.Run(fsys, dirs); err != nil || !rep.Balanced() {
		t.Errorf("audit: %v, %+v", err, rep)
	}
}

// Delays are the least times between requests: to a host, from the end of a response; to a server, from start to start.
type Delays struct{ Host, Server time.Duration }

// CheckFetched compares the web's own log with what a correct crawl fetches.
func CheckFetched(t *testing.T, web *simweb.Web, least Delays) {
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
		t.Errorf("%d of %d URLs missing, %d fetched twice, %d fetched that must not be", missing,
			want.Fetched, twice, extra)
	}
	CheckDelays(t, snap, least, 0)
}

// CheckDelays checks politeness by the web's clock: the host delay from the end of a response to the start
// of the next request, and the server delay from start to start.
func CheckDelays(t *testing.T, snap *simweb.Snapshot, least Delays, slack time.Duration) {
	t.Helper()
	for host, tr := range snap.Hosts {
		if tr.MaxBusy > 1 || tr.MaxConns > 1 {
			t.Errorf("%s: %d concurrent requests on %d connections", host, tr.MaxBusy, tr.MaxConns)
		}
		if tr.EndToStart >= 0 && tr.EndToStart < least.Host {
			t.Errorf("%s: a request came %v after the previous response", host, tr.EndToStart)
		}
	}
	for ip, tr := range snap.Servers {
		if tr.StartToStart >= 0 && tr.StartToStart < least.Server-slack {
			t.Errorf("server %s: two requests within %v", ip, tr.StartToStart)
		}
	}
}

// SmallWeb returns a web of 800 pages on 60 hosts, 400 with -short, by Seed, after change, if that is not nil.
func SmallWeb(t testing.TB, change func(*simweb.Options)) *simweb.Web {
	t.Helper()
	o := simweb.Defaults(*Seed)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.LogRequests = 20, 60, 800, 20, 100_000
	o.CrawlDelay = 100 * time.Millisecond
	if testing.Short() {
		o.Pages = 400
	}
	if change != nil {
		change(&o)
	}
	web, err := simweb.New(o)
	must(t, err)
	return web
}

// InBubble runs f with virtual time.
func InBubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }
