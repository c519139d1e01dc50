package crawl

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/pace"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

func schedule(t testing.TB, text string, unit pace.Unit) pace.Schedule {
	t.Helper()
	s, err := pace.Parse(text, unit)
	must(t, err)
	return s.In(time.UTC)
}

// limitedWeb returns a web with so many hosts that only the limits slow a crawl without delays.
func limitedWeb(t testing.TB, pages, pageBytes int) *simweb.Web {
	return smallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.IPs, o.PageBytes, o.SeedURLs, o.CrawlDelay = 60, 120, pages, 60, pageBytes, 120, 0
	})
}

// limitedOptions returns the options of a crawl without delays. received records the bytes as the crawl
// reads them.
func limitedOptions(t testing.TB, web *simweb.Web, fs disk.FS, bandwidth pace.Schedule, received *spans) Options {
	t.Helper()
	opt := simOptions(t, web, fs)
	atOnce(&opt)
	opt.Network.Bandwidth = pace.NewBandwidth(bandwidth, time.Now())
	client := newClient(t, fetch.Options{
		Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			c, err := web.Dial(ctx, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{c, received}, nil
		}, Ports: ports.Of(8080),
		TLS: fetch.TLSOptions{Roots: web.CAPool()}, Limiter: opt.Network.Bandwidth,
	})
	t.Cleanup(func() { client.Close() })
	opt.Network.Fetcher = client
	return opt
}

// spans records amounts with their times, to compare time windows with limits.
type spans struct {
	mu    sync.Mutex // guards list
	begin time.Time
	list  []instant
}

type instant struct {
	at time.Duration
	n  float64
}

func (s *spans) add(n float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, instant{time.Since(s.begin), n})
}

// countedConn records the number of bytes of each Read.
type countedConn struct {
	net.Conn
	got *spans
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.got.add(float64(n))
	return n, err
}

// check compares every window of 10 s with what was allowed in it: at most 5 % or slack more. Windows
// between from and to must have at least 92 % of it, less one piece at each end. A piece is an indivisible amount, such
// as a request or a page.
func (s *spans) check(t *testing.T, allowed func(from, to time.Duration) float64, slack, piece float64, from,
	to time.Duration) {
	t.Helper()
	slices.SortFunc(s.list, func(a, b instant) int { return int(a.at - b.at) })
	const window = 10 * time.Second
	sum, most, least, j := 0.0, 0.0, 1e9, 0
	for _, first := range s.list {
		for ; j < len(s.list) && s.list[j].at < first.at+window; j++ {
			sum += s.list[j].n
		}
		want := allowed(first.at, first.at+window)
		most = max(most, sum/want)
		if sum > max(1.05*want, want+slack) {
			t.Fatalf("%v in the 10 s from %v on, limit %v", sum, first.at, want)
		}
		if first.at >= from && first.at+window <= to {
			if least = min(least, sum/want); sum < 0.92*want-2*piece {
				t.Fatalf("%v in the 10 s from %v on, want nearly the limit of %v", sum, first.at, want)
			}
		}
		sum -= first.n
	}
	t.Logf("%d events, %.3f to %.3f of the limit in 10 s", len(s.list), least, most)
}

// limitedFor is the duration of the crawls. They start 30 s after midnight, so that a schedule changes in
// the middle.
const limitedFor = time.Minute

// toHalfPast advances the bubble's clock to 30 s after midnight.
func toHalfPast() { time.Sleep(limitedFor / 2) }

// twoRates returns the amount allowed in a window by a rate that changes in the middle of a crawl.
func twoRates(before, after float64) func(from, to time.Duration) float64 {
	return func(from, to time.Duration) float64 {
		early := max(0, min(to, limitedFor/2)-from)
		return before*early.Seconds() + after*(to-from-early).Seconds()
	}
}

// checkGot compares the fetched URLs with those of a correct crawl. Limits change the times, not the URLs.
func checkGot(t *testing.T, web *simweb.Web, opt *Options, fs disk.FS) {
	t.Helper()
	checkFetched(t, web, opt)
	checkBalanced(t, fs, opt.Disk.Dirs)
}

// TestRateIsHeld: by the server's log the rate of requests, including robots.txt, must not exceed --rate in
// any 10 s, from the first request on and across a change of the schedule, and must not be much lower.
func TestRateIsHeld(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, c := range []struct {
		text          string
		before, after float64
		pages         int
	}{
		{"00:00-00:01 20; else 60", 20, 60, 4500}, {"00:00-00:01 60; else 7", 60, 7, 4500}, {"0.5", 0.5, 0.5, 60},
		{"00:00-00:01 pause; else 50", 0, 50, 3000},
	} {
		t.Run(c.text, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				toHalfPast()
				web, fs := limitedWeb(t, c.pages, 4000), memfs.New(*seedFlag)
				opt := limitedOptions(t, web, fs, pace.Schedule{}, &spans{begin: time.Now()})
				opt.Network.Rate = schedule(t, c.text, pace.Pages)
				opt.Observe.SnapshotEvery = time.Second
				waits, limits := map[string]int{}, map[string]int{}
				opt.Observe.Snapshot = func(s *Snapshot) { waits[s.Wait.Text]++; limits[s.Limits]++ }
				begin := time.Now()
				res := runFor(t, limitedFor, opt)
				log := web.Log().Snapshot()
				var got spans
				for _, q := range log.Requests {
					got.list = append(got.list, instant{log.Epoch.Sub(begin) + q.Start, 1})
				}
				full := max(15*time.Second, time.Duration(10/max(c.before, 1))*time.Second)
				if c.before == 0 {
					full = 45 * time.Second
				}
				got.check(t, twoRates(c.before, c.after), 1.01, 1.01, full, limitedFor-time.Second)
				if waits["rate limit"] < 45 {
					t.Errorf("waited for %v", waits)
				}
				for text := range limits {
					if c.before != c.after && !strings.Contains(text, "until 00:0") ||
						!strings.Contains(text, "pages") {
						t.Errorf("the description of the limits is %q", text)
					}
				}
				if s := res.Snapshot.Slots; s.Use[snapshot.SlotLimit] < s.Samples*int64(opt.Network.Connections)*3/4 {
					t.Errorf("slots: %v", s)
				}
			})
		})
	}
}

// TestBandwidthIsHeld: the received bytes, of pages of all sizes, TLS and robots.txt, must not exceed
// --bandwidth in any 10 s, and must not be much fewer.
func TestBandwidthIsHeld(t *testing.T) {
	notShort(t)
	t.Parallel()
	for _, c := range []struct {
		text             string
		before, after    float64
		pages, pageBytes int
	}{
		{"00:00-00:01 4Mbit; else 10Mbit", 500e3, 1250e3, 5000, 20e3},
		{"00:00-00:01 10Mbit; else 1Mbit", 1250e3, 125e3, 5000, 20e3}, {"100kbit", 12500, 12500, 200, 10e3},
		{"30Mbit", 3.75e6, 3.75e6, 8500, 60e3},
	} {
		if c.before > 2e6 && !*longRuns {
			continue // receives half a gigabyte
		}
		t.Run(c.text, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				toHalfPast()
				web, fs := limitedWeb(t, c.pages, c.pageBytes), memfs.New(*seedFlag)
				got := &spans{begin: time.Now()}
				opt := limitedOptions(t, web, fs, schedule(t, c.text, pace.Bits), got)
				opt.Observe.SnapshotEvery, opt.Output.Store = time.Second, false
				waits := map[string]int{}
				opt.Observe.Snapshot = func(s *Snapshot) { waits[s.Wait.Text]++ }
				res := runFor(t, limitedFor, opt)
				got.check(t, twoRates(c.before, c.after), 3000, float64(c.pageBytes), 15*time.Second,
					res.Snapshot.Elapsed-time.Second)
				t.Logf("%d pages in %v; waits %v; slots %v", res.Snapshot.Count(state.CountPages), res.Snapshot.Elapsed,
					waits, res.Snapshot.Slots)
			})
		})
	}
}

// TestLimitsChangeNoOutcome: a crawl under all limits, stopped and resumed under others, must fetch exactly
// what a crawl without limits fetches.
func TestLimitsChangeNoOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, fs := smallWeb(t, nil), memfs.New(*seedFlag)
		got := &spans{begin: time.Now()}
		opt := limitedOptions(t, web, fs, schedule(t, "300kbit", pace.Bits), got)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = 200*time.Millisecond, 50*time.Millisecond, 20*time.Millisecond,
			5*time.Millisecond
		opt.Network.Rate, opt.Network.ConnectionSchedule = schedule(t, "20", pace.Pages),
			schedule(t, "mon-fri 9; else 11", pace.Connections)
		res := runFor(t, 30*time.Second, opt)
		opt.Network.Fetcher.(*fetch.Client).Close()
		if res.Stop != StopCancelled {
			t.Fatalf("stopped by %q", res.Stop)
		}
		opt = limitedOptions(t, web, fs, schedule(t, "2Mbit", pace.Bits), got)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Politeness.ServerDelay,
			opt.Politeness.ServerDelayMin = 200*time.Millisecond, 50*time.Millisecond, 20*time.Millisecond,
			5*time.Millisecond
		opt.Network.Rate = schedule(t, "500", pace.Pages)
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone {
			t.Fatalf("stopped by %q", res.Stop)
		}
		checkGot(t, web, &opt, fs)
	})
}
