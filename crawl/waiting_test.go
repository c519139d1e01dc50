package crawl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/cputime"
	"drumbeat/robots"
	"drumbeat/state"
)

// waitingWeb is a web of hosts that make a crawler wait. The first letters of a host's name say how:
//
//	nx  no such name                  rt  connections are refused
//	sf  SERVFAIL                      to  connections time out
//	ra  every page is 503 with Retry-After, one to six hours by the host's number
//	tm  every page is 429 with Retry-After: 120
//	cd  Crawl-delay: 300              r5  robots.txt is 503
//	ok  pages
//
// It counts requests. It serves requests concurrently.
type waitingWeb struct {
	pages, robots, refusals, lookups atomic.Int64
}

func (w *waitingWeb) LookupHost(ctx context.Context, host, _ string) (Lookup, error) {
	w.lookups.Add(1)
	addr := ownAddr(host).As4()
	switch host[:2] {
	case "nx":
		return Lookup{}, &LookupError{Host: host, NotFound: true, Err: errors.New("no such name")}
	case "sf":
		return Lookup{}, &LookupError{Host: host, Err: errors.New("SERVFAIL")}
	case "rt":
		addr[1] = 1
	case "to":
		addr[1] = 2
	default:
		addr[1] |= 4
	}
	return Lookup{Addrs: []netip.Addr{netip.AddrFrom4(addr)}, Expires: time.Now().Add(6 * time.Hour)}, nil
}

func (w *waitingWeb) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	switch addr.Addr().As4()[1] {
	case 1:
		w.refusals.Add(1)
		return nil, syscall.ECONNREFUSED
	case 2:
		w.refusals.Add(1)
		<-ctx.Done()
		return nil, os.ErrDeadlineExceeded
	}
	client, server := net.Pipe()
	go w.handle(server)
	return client, nil
}

func (w *waitingWeb) handle(c net.Conn) {
	defer func() { _ = c.Close() }()
	req, err := http.ReadRequest(bufio.NewReaderSize(c, 512))
	if err != nil {
		return
	}
	a := w.answer(req.Host, req.URL.Path)
	const form = "HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n%s"
	_, _ = fmt.Fprintf(c, form, a.Status, len(a.Body), a.Header, a.Body)
}

func (w *waitingWeb) answer(host, path string) answer {
	number := 0
	_, _ = fmt.Sscanf(host[2:], "%d", &number)
	if path == "/robots.txt" {
		w.robots.Add(1)
		switch host[:2] {
		case "r5":
			return answer{Status: 503}
		case "cd":
			return answer{200, "", "User-agent: *\nCrawl-delay: 300\n"}
		}
		return noRobots
	}
	w.pages.Add(1)
	switch host[:2] {
	case "ra":
		return answer{Status: 503, Header: fmt.Sprintf("Retry-After: %d\r\n", 3600*(1+number%6))}
	case "tm":
		return answer{Status: 429, Header: "Retry-After: 120\r\n"}
	}
	return answer{200, "", "<html>x"}
}

// options returns the options of a crawl of w with the program's default delays, on fs.
func (w *waitingWeb) options(t testing.TB, fs disk.FS) Options {
	t.Helper()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	client := newClient(t, fetch.Options{Dial: w.dial, AllowNets: loopback})
	return Options{
		Disk:     DiskOptions{FS: fs, Dirs: []string{"d0", "d1"}, CheckpointEvery: time.Minute},
		Identity: IdentityOptions{Agent: "drumbeat", Contact: "test@example.org"},
		Network:  NetworkOptions{Resolver: w, Fetcher: client, Connections: 200},
		Limits: LimitsOptions{RAMBytes: 128 << 20, DiskBytes: 100 << 30, MaxDepth: Unlimited,
			Linger: 1000 * time.Hour},
		Health: HealthOptions{Retries: 3},
		Politeness: PolitenessOptions{HostDelay: 40 * time.Second, HostDelayMin: time.Second, ServerDelay: time.Second,
			ServerDelayMin: 200 * time.Millisecond},
		Output: OutputOptions{Store: true, CrawlLog: state.LogAll},
	}
}

// usage is what a crawl used since its start.
type usage struct {
	at                         time.Time
	read, written, checkpoints int64
	fetched, attempts, robots  int64
	deferrals, merges, scans   int64
	wakeups, changes           int64
	cpu                        time.Duration
	heap                       int64 // bytes in use now, without those of the disk in RAM
	slots                      int
}

func (c *crawler) usage(mem *memfs.FS) usage {
	io, a := c.Meter.Counts(), c.Accounts.Copy()
	u := usage{at: time.Now(), read: io.ReadBytes, written: io.WrittenBytes,
		checkpoints: a.Counters[state.CountCheckpoints], fetched: a.Counters[state.CountResponses],
		attempts: a.Counters[state.CountAttempts], robots: a.Counters[state.CountRobotsAttempts],
		deferrals: a.Counters[state.CountDeferrals], scans: c.budgets.Beast.Stats().Scans, wakeups: c.Wakeups.Load(),
		changes: c.Changes(), slots: c.deferrals.Deferred.Bins()}
	edges, indegree := c.budgets.Star.Stats()
	for _, s := range []drum.Stats{c.seen.URLSeen.Stats(), edges, indegree, c.check.RobotsCache.Stats(),
		c.requests.RobotsRequested.Stats(), c.seen.Names.Stats()} {
		u.merges += s.Passes
	}
	u.cpu = cputime.Process()
	if mem != nil {
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		free, total, _ := mem.Space("")
		u.heap = int64(ms.HeapAlloc) - (total - free)
	}
	return u
}

// since returns the usage between two readings.
func (u usage) since(v usage) usage {
	return usage{u.at, u.read - v.read, u.written - v.written, u.checkpoints - v.checkpoints, u.fetched - v.fetched,
		u.attempts - v.attempts, u.robots - v.robots, u.deferrals - v.deferrals, u.merges - v.merges, u.scans - v.scans,
		u.wakeups - v.wakeups, u.changes - v.changes, u.cpu - v.cpu, u.heap, u.slots}
}

func (u usage) String() string {
	return fmt.Sprintf(
		"%d+%d kB, %d checkpoints, %d fetched, %d attempts, %d robots, %d deferrals, %d merges, %d scans,"+
			" %d wake-ups, %d changes, %v CPU, %d kB heap, %d slots", u.read>>10, u.written>>10, u.checkpoints,
		u.fetched, u.attempts,
		u.robots, u.deferrals, u.merges, u.scans, u.wakeups, u.changes, u.cpu.Round(time.Millisecond),
		u.heap>>10, u.slots)
}

// sampled runs a crawl for n intervals and returns the usage of each.
func sampled(t *testing.T, c *crawler, mem *memfs.FS, every time.Duration, n int) []usage {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		res, err := c.crawl(ctx, 0)
		if err == nil && ctx.Err() == nil {
			err = fmt.Errorf("the crawl ended early: %s", res.Stop)
		}
		done <- errors.Join(err, c.close())
	}()
	var all []usage
	last := c.usage(mem)
	for i := range n {
		account.Sleep(ctx, every)
		now := c.usage(mem)
		all = append(all, now.since(last))
		t.Logf("%d: %v", i+1, all[i])
		last = now
		if i == n-1 || i == n/2 {
			t.Logf("%v deferred %v", c.Accounts.Copy().Places, c.figures.Snapshot().Deferred)
		}
	}
	cancel()
	must(t, <-done)
	return all
}

// fillRobotsCache adds n origins, so that merges of RobotsCache cost what they cost after weeks.
func fillRobotsCache(t *testing.T, c *crawler, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(*seedFlag, 6))
	now := time.Now()
	body := "User-agent: *\n" + strings.Repeat("Disallow: /some/path/or/other\n", 1) + "Disallow: /cgi-bin/\n"
	h := robots.Outcome(&robots.HostData{}, &robots.Fetched{Kind: robots.Answered, Status: 200, Body: []byte(body),
		Addrs: []netip.Addr{netip.MustParseAddr("127.9.9.9")}, AddrExpires: now.Add(time.Hour)},
		c.opt.Identity.Agent, now)
	value := robots.AppendUpdate(nil, robots.UpdateOutcome, now, &h)
	for range n {
		if err := c.check.RobotsCache.Add(
			[]drum.Tuple{{Key: drum.Key(rng.Uint64()), Op: drum.Update, Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.check.RobotsCache.Pass(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}

func openCrawler(t *testing.T, opt Options) *crawler {
	t.Helper()
	opt.defaults()
	c, err := open(opt)
	must(t, err)
	return c
}

// TestOneSlowHostLeft: at the end of a crawl that knows very many origins, with one slow host left, the crawl
// must fetch that host's pages at the rate that its delay allows, and must not keep disks or processors busy.
func TestOneSlowHostLeft(t *testing.T) {
	notShort(t)
	t.Parallel()
	notShort(t)
	origins, hostURLs, days, period := 10_000, 4000, 2, 8*time.Hour
	if *longRuns {
		origins, hostURLs, days, period = 2_000_000, 20_000, 14, 24*time.Hour
	}
	for _, test := range []struct {
		prefix string
		delay  time.Duration
	}{{"cd", 300 * time.Second}, {"ok", 40 * time.Second}} {
		inBubble(t, func(t *testing.T) {
			w := &waitingWeb{}
			opt := w.options(t, memfs.New(*seedFlag))
			opt.Admission.SeedLines = urls(test.prefix, 1, hostURLs)
			c := openCrawler(t, opt)
			fillRobotsCache(t, c, origins)
			all := sampled(t, c, nil, period, days)
			for day, u := range all[1:] {
				if turns := float64(period / test.delay); float64(u.fetched) < 0.9*turns {
					t.Errorf("%s, period %d: fetched %d pages, the host's delay allows %.0f", test.prefix, day+2,
						u.fetched, turns)
				}
				// A batch of URLs takes one merge, which reads half a bucket of RobotsCache.
				if u.merges > 2*u.fetched {
					t.Errorf("%s, period %d: %d merges for %d pages, want at most 2 per page", test.prefix, day+2,
						u.merges, u.fetched)
				}
				if u.deferrals > 8*u.fetched {
					t.Errorf("%s, period %d: %d deferrals for %d pages, want at most 8 per page", test.prefix, day+2,
						u.deferrals, u.fetched)
				}
				// Each stage wakes up at least once a minute. A page makes about five changes; a pulse
				// follows each.
				if most := 60*int64(period/time.Minute) + 150*u.fetched; u.wakeups > most {
					t.Errorf("%s, period %d: stages woke up %d times, want at most %d", test.prefix, day+2,
						u.wakeups, most)
				}
				if u.checkpoints > u.changes {
					t.Errorf("%s, period %d: %d checkpoints for %d changes", test.prefix, day+2,
						u.checkpoints, u.changes)
				}
				if most := 4 << 20 * u.checkpoints; u.written > most {
					t.Errorf("%s, period %d: %d bytes written, want at most %d", test.prefix, day+2, u.written, most)
				}
			}
		})
	}
}

// waitingSeeds returns n URLs of hosts that make a crawler wait, one per line.
func waitingSeeds(n int) []byte {
	var b []byte
	add := func(percent int, prefix string, perHost int) {
		for i := range n * percent / 100 {
			b = fmt.Appendf(b, "http://%s%d.test/%s/%07d\n", prefix, i/perHost, strings.Repeat("directory-", 8), i)
		}
	}
	add(5, "nx", 10)
	add(10, "sf", 10)
	add(15, "rt", 10)
	add(10, "to", 10)
	add(15, "r5", 10)
	add(15, "ra", 20)
	add(5, "tm", 20)
	add(15, "cd", n) // one host
	add(5, "cd1", 10)
	add(5, "ok", 10)
	return b
}

// TestWaitingStaysFlat: when nearly all URLs of a crawl wait for weeks, for hosts that are dead, back off
// or require long delays, the disk I/O, CPU time and RAM of a day must not grow.
func TestWaitingStaysFlat(t *testing.T) {
	notShort(t)
	n, days := 800, 6
	if *longRuns {
		n, days = 1_000_000, 21
	}
	inBubble(t, func(t *testing.T) {
		mem := memfs.New(*seedFlag)
		must(t, disk.WriteFileAtomic(mem, "seeds", waitingSeeds(n)))
		w := &waitingWeb{}
		opt := w.options(t, mem)
		opt.Admission.Seeds = "seeds"
		c := openCrawler(t, opt)
		all := sampled(t, c, mem, 24*time.Hour, days)
		third := days / 3
		early, late := sum(all[third:2*third]), sum(all[2*third:])
		flat := func(what string, early, late, more int64) {
			if late > early+early/4+more {
				t.Errorf("%s: %d in the last %d days, %d in the same number of days before", what, late, third, early)
			}
		}
		flat("disk bytes", early.read+early.written, late.read+late.written, 1<<20)
		flat("deferrals", early.deferrals, late.deferrals, int64(n))
		flat("merges", early.merges, late.merges, 100)
		flat("wake-ups", early.wakeups, late.wakeups, 1000)
		flat("CPU, ms", early.cpu.Milliseconds(), late.cpu.Milliseconds(), early.cpu.Milliseconds()+2000)
		flat("heap bytes", early.heap, late.heap, 4<<20)
		// In the first third the crawl sends hosts their first requests. Merges then read and write growing
		// stores, independent of the deferrals.
		for day, u := range all[third:] {
			day += third - 1
			exchanges := u.attempts + u.robots
			if most := 4*int64(n) + 16*exchanges; u.deferrals > most {
				t.Errorf("day %d: %d deferrals of %d URLs with %d exchanges, want at most %d", day+2, u.deferrals, n,
					exchanges, most)
			}
			if most := 60*24*60 + 100*u.changes; u.wakeups > most {
				t.Errorf("day %d: stages woke up %d times, want at most %d", day+2, u.wakeups, most)
			}
			// A checkpoint writes new data and parts of buffers. Each deferral takes a few reads and writes.
			if most := 2<<20*u.checkpoints + 4<<10*u.deferrals; u.read+u.written > most {
				t.Errorf("day %d: %d bytes read and written, want at most %d", day+2, u.read+u.written, most)
			}
		}
	})
}

func sum(all []usage) (s usage) {
	for _, u := range all {
		s = u.since(usage{read: -s.read, written: -s.written, checkpoints: -s.checkpoints, fetched: -s.fetched,
			attempts: -s.attempts, robots: -s.robots, deferrals: -s.deferrals, merges: -s.merges, scans: -s.scans,
			wakeups: -s.wakeups, changes: -s.changes, cpu: -s.cpu})
	}
	return s
}

// TestIdleInRealTime: with one slow host left, as in TestOneSlowHostLeft, a crawl must stay within its
// limits of CPU time and disk I/O by the real clock.
func TestIdleInRealTime(t *testing.T) {
	if !*longRuns {
		t.Skip("takes minutes; -long runs it")
	}
	w := &waitingWeb{}
	opt := w.options(t, disk.OS())
	opt.Disk.Dirs = []string{t.TempDir()}
	opt.Admission.SeedLines = urls("ok", 1, 5000)
	c := openCrawler(t, opt)
	fillRobotsCache(t, c, 1_000_000)
	all := sampled(t, c, nil, time.Minute, 5)
	for minute, u := range all[1:] {
		if most := time.Minute / 100; u.cpu > most {
			t.Errorf("minute %d: %v of CPU time, want at most %v", minute+2, u.cpu, most)
		}
	}
}
