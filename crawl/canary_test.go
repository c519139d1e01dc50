package crawl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/weburl"
)

// firewall is a network in which some servers start to drop packets or to reset connections.
type firewall struct {
	mu    sync.Mutex // guards all below
	dead  map[netip.Addr]bool
	reset bool
}

func (f *firewall) ban(reset bool, addrs ...netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reset = reset
	f.dead = map[netip.Addr]bool{}
	for _, a := range addrs {
		f.dead[a] = true
	}
}

// before returns a dial function that goes through the firewall.
func (f *firewall) before(dial simweb.DialFunc) simweb.DialFunc {
	return func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		f.mu.Lock()
		dead, reset := f.dead[a.Addr()], f.reset
		f.mu.Unlock()
		switch {
		case dead && reset:
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNRESET}
		case dead:
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}
		}
		return dial(ctx, a)
	}
}

// client returns a client whose connections go through the firewall.
func (f *firewall) client(t *testing.T, dial simweb.DialFunc, web *simweb.Web) *fetch.Client {
	t.Helper()
	opt := fetch.Options{Dial: f.before(dial), AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if web != nil {
		opt.Ports, opt.TLS.Roots = ports.Of(8080), web.CAPool()
	}
	client, err := fetch.New(opt)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// countOutages returns a function that counts the outages so far.
func countOutages(opt *Options) func() int {
	var mu sync.Mutex
	n := 0
	opt.tests.hook = func(place string) {
		if place == "outage" {
			mu.Lock()
			n++
			mu.Unlock()
		}
	}
	return func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// TestBannedAtTheEnd: a finite crawl must end when its last servers drop all packets for ever. Other
// servers, which have no pages left, serve as canaries.
func TestBannedAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), append(urls("small", 40, 1), urls("large", 6, 60)...)...)
		opt.Politeness.HostDelay = 2 * time.Second
		opt.Health.HostFailures, opt.Health.HostRests, opt.tests.tunePolicy = 5, 2, cutPolicy
		var f firewall
		client := f.client(t, w.Dial, nil)
		opt.Network.Fetcher, opt.Network.AllowedAddr, opt.Network.Ports = client, client.AllowedAddr, client.Ports()
		outages := countOutages(&opt)
		go func() {
			time.Sleep(time.Minute)
			var large []netip.Addr
			for i := range 6 {
				large = append(large, ownAddr(fmt.Sprintf("large%d.test", i)))
			}
			f.ban(false, large...)
		}()
		res := runFor(t, 60*24*time.Hour, opt)
		s := &res.Snapshot
		t.Logf("%v, %d pages, refused %v, deferred %v, unconfirmed %d, %d outages", s.Elapsed,
			s.Count(state.CountPages), s.Refused, s.Deferred, s.Count(state.CountUnconfirmed), outages())
		if res.Stop != StopDone || s.Elapsed > 3*time.Hour {
			t.Errorf("stopped by %q after %v", res.Stop, s.Elapsed)
		}
		ended := s.Count(state.CountPages)
		for _, n := range s.Refused {
			ended += n
		}
		for _, n := range s.Deferred {
			ended += n
		}
		if ended != 400 || len(w.Pages("small")) != 40 {
			t.Errorf("%d of 400 URLs are accounted for, fetched %d of 40 pages of live servers", ended,
				len(w.Pages("small")))
		}
	})
}

// TestFarmIsNoOutage: fifty servers of one /24 that answer and then all reset their connections must not
// slow down other hosts. In 3 of 1,600 crawls they counted as an outage for some seconds.
func TestFarmIsNoOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		farm := netip.MustParsePrefix("127.200.1.0/24")
		w.Lookup = func(host string) (string, error) {
			var i int
			if n, _ := fmt.Sscanf(host, "farm%d.test", &i); n == 1 {
				return fmt.Sprintf("127.200.1.%d", i+1), nil
			}
			return "", nil
		}
		opt := tinyOptions(t, w, memfs.New(*seedFlag), append(urls("good", 40, 10), urls("farm", 50, 10)...)...)
		opt.Politeness.HostDelay = 2 * time.Second
		opt.Health.HostFailures, opt.Health.HostRests, opt.tests.tunePolicy = 5, 2, cutPolicy
		var f firewall
		client := f.client(t, w.Dial, nil)
		opt.Network.Fetcher, opt.Network.AllowedAddr, opt.Network.Ports = client, client.AllowedAddr, client.Ports()
		outages := countOutages(&opt)
		go func() {
			time.Sleep(12 * time.Second)
			var all []netip.Addr
			for a := farm.Addr(); farm.Contains(a); a = a.Next() {
				all = append(all, a)
			}
			f.ban(true, all...)
		}()
		res := mustRun(t, t.Context(), opt)
		pages := w.Pages("good")
		last := pages[len(pages)-1].At.Sub(w.Requests[0].At)
		t.Logf("%v, last good page after %v, %d outages, refused %v, deferred %v", res.Snapshot.Elapsed,
			last, outages(), res.Snapshot.Refused, res.Snapshot.Deferred)
		if res.Stop != StopDone || outages() > 1 || len(pages) != 400 || last > 2*time.Minute {
			t.Errorf("stopped by %q, %d outages, fetched %d of 400 pages of other hosts, the last after %v", res.Stop,
				outages(), len(pages), last)
		}
	})
}

// TestBanned: when servers ban the crawler, the crawl must end and fetch all pages of the other servers.
// Servers ban it in the middle of the crawl (one in 2, 4 and 8, with -long), or late (all that have pages
// left).
func TestBanned(t *testing.T) {
	parts := []int{2, 4, 8}
	if !*longRuns {
		parts = nil
	}
	for _, part := range parts {
		t.Run(fmt.Sprintf("one in %d", part), func(t *testing.T) {
			bannedCrawl(t, 20*time.Second, func(i int, _ string, _ *simweb.Snapshot) bool { return i%part == 0 })
		})
	}
	t.Run("late", func(t *testing.T) {
		bannedCrawl(t, 2*time.Minute, func(_ int, host string, snap *simweb.Snapshot) bool { return snap == nil })
	})
}

func bannedCrawl(t *testing.T, at time.Duration, which func(i int, host string, snap *simweb.Snapshot) bool) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.Pages, o.IPs = o.Pages*5/2, 60 })
		opt := simOptions(t, web, memfs.New(*seedFlag))
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 2*time.Second, time.Second
		opt.Health.HostFailures, opt.Health.HostRests, opt.tests.tunePolicy = 5, 2, cutPolicy
		var f firewall
		opt.Network.Fetcher = f.client(t, web.Dial, web)
		outages := countOutages(&opt)
		dead := map[netip.Addr]bool{}
		go func() {
			time.Sleep(at)
			snap := web.Log().Snapshot()
			left := map[string]bool{}
			for url := range web.Expected("drumbeat").FetchedURLs() {
				if snap.Fetches[url] == 0 {
					left[string(weburl.Split([]byte(url)).Host)] = true
				}
			}
			var list []netip.Addr
			for i, h := range web.Hosts() {
				s := snap
				if left[h] {
					s = nil
				}
				if which(i, h, s) {
					as, _ := web.LookupHost(h)
					for _, a := range as {
						dead[a] = true
					}
					list = append(list, as...)
				}
			}
			f.ban(false, list...)
		}()
		res := runFor(t, 60*24*time.Hour, opt)
		s := &res.Snapshot
		t.Logf("%d dead servers: %v, refused %v, deferred %v, unconfirmed %d, %d outages", len(dead), s.Elapsed,
			s.Refused, s.Deferred, s.Count(state.CountUnconfirmed), outages())
		if res.Stop != StopDone {
			t.Errorf("stopped by %q after %v", res.Stop, s.Elapsed)
		}
		snap := web.Log().Snapshot()
		missing := int64(0)
		for url := range web.Expected("drumbeat").FetchedURLs() {
			if snap.Fetches[url] > 0 {
				continue
			}
			missing++
			as, _ := web.LookupHost(string(weburl.Split([]byte(url)).Host))
			alive := true
			for _, a := range as {
				alive = alive && !dead[a]
			}
			if alive {
				t.Errorf("not fetched, although its server answers: %s", url)
			}
		}
		if missing > 0 && len(s.Refused) == 1 && len(s.Deferred) == 0 {
			t.Errorf("%d pages missing without a reason: refused %v", missing, s.Refused)
		}
	})
}
