package crawl

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/gate"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/robots"
	"drumbeat/state"
)

// setupMax is the maximum time to make a connection in these tests.
const setupMax = 300 * time.Millisecond

// politeOptions returns options with typical limits, delays that budgets don't shorten, and connections
// that take up to setupMax to make. So the times of grants differ from the times that servers see.
func politeOptions(t *testing.T, web *simweb.Web, fs disk.FS) Options {
	t.Helper()
	opt := simOptions(t, web, fs)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(*seedFlag, 1))
	client := newClient(t, fetch.Options{
		Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			mu.Lock()
			wait := time.Duration(rng.Int64N(int64(setupMax)))
			mu.Unlock()
			account.Sleep(ctx, wait)
			return web.Dial(ctx, addr)
		}, Ports: ports.Of(8080),
		TLS: fetch.TLSOptions{Roots: web.CAPool()},
	})
	t.Cleanup(func() { client.Close() })
	opt.Network.Fetcher, opt.Network.Connections, opt.Limits.Linger, opt.Disk.CheckpointEvery = client, 500,
		time.Second, time.Minute
	opt.Admission.SeedLines = append(slices.Clone(web.Seeds()), web.HostileSeeds()...)
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin =
		2*time.Second, 2*time.Second, time.Second, time.Second
	opt.Politeness.PLDDelay, opt.Politeness.PLDDelayMin, opt.Politeness.NetworkRate, opt.Politeness.NetworkConnections =
		500*time.Millisecond, 500*time.Millisecond, 10, 20
	opt.Politeness.HostDelayFactor, opt.Politeness.MaxCrawlDelay = 10, 5*time.Minute
	return opt
}

// politeRun is what the web's log shows of one crawl.
type politeRun struct {
	web      *simweb.Web
	requests []simweb.Request
	ordinary time.Duration // time of the last answer of an ordinary host
}

// crawlPolitely crawls a small web with scenarios and checks all limits against the web's log.
func crawlPolitely(t *testing.T, scenarios ...string) (run politeRun) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs, o.Hostile = 10, 20, 150, 10, scenarios
		})
		fs := memfs.New(*seedFlag)
		opt := politeOptions(t, web, fs)
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone {
			t.Errorf("stopped by %q, want %q", res.Stop, StopDone)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		snap := web.Log().Snapshot()
		checkDelays(t, snap, &opt, 0)
		run.web, run.requests = web, snap.Requests
		for _, q := range snap.Requests {
			if q.Known {
				run.ordinary = max(run.ordinary, q.End)
			}
		}
		checkGates(t, snap.Requests, &opt)
	})
	return run
}

// of returns the requests to the hosts of a scenario.
func (run *politeRun) of(scenario string) (rs []simweb.Request) {
	for _, q := range run.requests {
		if run.web.HostileScenario(q.Host) == scenario {
			rs = append(rs, q)
		}
	}
	return rs
}

// checkGates checks in a web's log the intervals between request starts at each PLD, address and network,
// and the number of concurrent requests.
func checkGates(t *testing.T, requests []simweb.Request, opt *Options) {
	t.Helper()
	plds, addrs, nets := map[string][]simweb.Request{}, map[string][]simweb.Request{}, map[string][]simweb.Request{}
	for _, q := range requests {
		labels := strings.Split(q.Host, ".")
		pld := strings.Join(labels[max(0, len(labels)-2):], ".")
		net, err := q.IP.Prefix(24)
		must(t, err)
		plds[pld], nets[net.String()] = append(plds[pld], q), append(nets[net.String()], q)
		addrs[q.IP.String()] = append(addrs[q.IP.String()], q)
	}
	for what, groups := range map[string]map[string][]simweb.Request{"PLD": plds, "address": addrs} {
		least := map[string]time.Duration{"PLD": opt.Politeness.PLDDelayMin,
			"address": opt.Politeness.ServerDelayMin}[what]
		for name, rs := range groups {
			if got := closest(rs, 1); got < least {
				t.Errorf("%s %s: two requests within %v, want at least %v", what, name, got, least)
			}
		}
	}
	for name, rs := range nets {
		burst := math.Ceil(opt.Politeness.NetworkRate)
		if got := closest(rs, int(burst)); got.Seconds() < burst/opt.Politeness.NetworkRate {
			t.Errorf("network %s: %v requests and one more within %v, want %v per second", name, burst, got,
				opt.Politeness.NetworkRate)
		}
		if got := crowdOf(rs); got > opt.Politeness.NetworkConnections {
			t.Errorf("network %s: %d concurrent requests, want at most %d", name, got,
				opt.Politeness.NetworkConnections)
		}
	}
}

// closest returns the minimum time from the start of a request to the start of the n-th one after it.
func closest(rs []simweb.Request, n int) time.Duration {
	slices.SortFunc(rs, func(a, b simweb.Request) int { return int(a.Start - b.Start) })
	least := time.Duration(1<<63 - 1)
	for i := n; i < len(rs); i++ {
		least = min(least, rs[i].Start-rs[i-n].Start)
	}
	return least
}

// crowdOf returns the maximum number of concurrent requests.
func crowdOf(rs []simweb.Request) (most int) {
	for _, q := range rs {
		n := 0
		for _, p := range rs {
			if p.Start <= q.Start && q.Start < p.End {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// span returns the time from the first start to the last end.
func span(rs []simweb.Request) time.Duration {
	first, last := time.Duration(1<<63-1), time.Duration(0)
	for _, q := range rs {
		first, last = min(first, q.Start), max(last, q.End)
	}
	return last - first
}

// TestManyHostsOfOneOwner: a thousand hosts at one address, a PLD of three hundred hosts at sixty
// addresses, and a network of two hundred servers with slow answers must be visited no faster than the
// delays of the address, PLD or network allow, and not much slower. They must not delay other hosts.
func TestManyHostsOfOneOwner(t *testing.T) {
	notShort(t)
	t.Parallel()
	plain := crawlPolitely(t)
	setup := setupMax / 2 // on average; the address or PLD is busy during this time
	for _, c := range []struct {
		scenario string
		requests int
		apart    time.Duration // mean at the full rate that the limit allows
		slack    time.Duration // allowed excess: the sum divided by slack
	}{
		{"one-address", 3000, time.Second + setup, 2},
		{"one-pld", 900, 500*time.Millisecond + setup, 3},
		// 100 ms and a part of setup: the network limit counts from the grant.
		{"one-network", 800, 125 * time.Millisecond, 1},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			run := crawlPolitely(t, c.scenario)
			rs := run.of(c.scenario)
			if len(rs) != c.requests {
				t.Errorf("%d requests, want %d", len(rs), c.requests)
			}
			took, want := span(rs), time.Duration(c.requests)*c.apart
			t.Logf("%d requests in %v, expected %v; last answer of other hosts after %v, without the scenario after %v",
				len(rs), took, want, run.ordinary, plain.ordinary)
			if took > want+want/c.slack {
				t.Errorf("took %v, want at most %v plus %v", took, want, want/c.slack)
			}
			if run.ordinary > plain.ordinary*5/4+2*gate.Stragglers {
				t.Errorf("the last answer of other hosts came after %v, without the scenario after %v", run.ordinary,
					plain.ordinary)
			}
		})
	}
}

// TestSlowAnswersAndCrawlDelays: the time between requests to a host must be ten times the last response
// time, or the Crawl-delay if it exceeds all other delays, up to --max-crawl-delay.
func TestSlowAnswersAndCrawlDelays(t *testing.T) {
	run := crawlPolitely(t, "slow-server", "crawl-delay")
	for host, want := range map[string]time.Duration{"www.slow-server-0.test": 20 * time.Second,
		"www.crawl-delay-0.test": 7 * time.Second, "www.crawl-delay-1.test": 5 * time.Minute} {
		var rs []simweb.Request
		for _, q := range run.requests {
			if q.Host == host {
				rs = append(rs, q)
			}
		}
		if len(rs) < 4 {
			t.Fatalf("%s: %d requests, want one for each of its pages", host, len(rs))
		}
		slices.SortFunc(rs, func(a, b simweb.Request) int { return int(a.Start - b.Start) })
		for i := 1; i < len(rs); i++ {
			gap := rs[i].Start - rs[i-1].End
			if rs[i-1].Robots && host == "www.slow-server-0.test" {
				continue // the first page has no delay
			}
			if gap < want || gap > want*2 {
				t.Errorf("%s: request %d came %v after the previous answer, want %v", host, i, gap, want)
			}
		}
	}
}

// TestGatesOutliveKills: a crawl that is killed many times and restarted at once must keep all delays. It
// doesn't know the last visits to the second, so after a restart it must treat all hosts as just visited.
func TestGatesOutliveKills(t *testing.T) {
	notShort(t)
	t.Parallel()
	kills := longOr(12, 5)
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.IPs = 10, 20, 150, 10
			o.Hostile = []string{"one-pld", "one-network", "crawl-delay"}
		})
		fs := memfs.New(*seedFlag)
		opt := politeOptions(t, web, fs)
		opt.Disk.CheckpointEvery = 5 * time.Second
		// The delays are much longer than a recovery, so that a forgotten visit shows.
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = 20*time.Second, 20*time.Second, 10*time.Second, 10*time.Second
		opt.Politeness.PLDDelay, opt.Politeness.PLDDelayMin, opt.Politeness.NetworkRate = 5*time.Second,
			5*time.Second, 0.2
		rng := rand.New(rand.NewPCG(*seedFlag, 2))
		killed := 0
		for {
			if killed < kills {
				fs.CrashAfter(100 + rng.IntN(500))
			}
			opt.Disk.FS = fs
			_, err := Run(t.Context(), opt)
			if err == nil || errors.Is(err, state.ErrFinished) { // a kill after the last checkpoint
				break
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatal(err)
			}
			killed++
			fs = fs.Kill()
		}
		if killed < kills/2 {
			t.Errorf("killed %d times, want at least %d", killed, kills/2)
		}
		checkBalanced(t, fs, opt.Disk.Dirs)
		snap := web.Log().Snapshot()
		t.Logf("%d requests, killed %d times", snap.Total, killed)
		checkDelays(t, snap, &opt, 0)
		checkGates(t, snap.Requests, &opt)
		if err := web.Log().CheckCrawlDelay(opt.Politeness.MaxCrawlDelay, 0); err != nil {
			t.Error(err)
		}
		if tr := snap.Hosts["www.crawl-delay-0.test"]; tr.PageToPage < 7*time.Second {
			t.Errorf("Crawl-delay of 7s: two pages within %v", tr.PageToPage)
		}
	})
}

// TestRobotsJobWaits: the encoding of a robots job must keep its tries and its number of deferrals, with
// and without a depth.
func TestRobotsJobWaits(t *testing.T) {
	for _, j := range []robots.Job{
		{Origin: []byte("http://a.test:80")},
		{Origin: []byte("http://a.test:80"), Tries: robots.MaxTries, Waits: 2, AddrsOnly: true},
		{Origin: []byte("http://a.test:80"), Tries: 3, Waits: robots.MaxWaits, Depth: 500, Failing: true},
	} {
		var got robots.Job
		if err := got.Decode(j.Append(nil)); err != nil || got.Tries != j.Tries || got.Waits != j.Waits ||
			got.Depth != j.Depth || got.AddrsOnly != j.AddrsOnly || got.Failing != j.Failing ||
			string(got.Origin) != string(j.Origin) {
			t.Errorf("got %+v, %v, want %+v", got, err, j)
		}
	}
}
