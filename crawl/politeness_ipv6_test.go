package crawl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/state"
)

// TestIPv6Owners: an IPv6 /64 must count as one server, whatever the number of its addresses, and a /48 as
// one network, for robots.txt requests too. Addresses that share only a /32 must not limit each other. The
// test measures at the servers.
func TestIPv6Owners(t *testing.T) {
	const hosts, pages = 6, 3
	for _, c := range []struct {
		name  string
		addr  func(i int) string
		apart time.Duration // minimum between two starts
		rate  int           // maximum of starts in a second
	}{
		{"one /64", func(i int) string { return fmt.Sprintf("2001:db8:1:1:%x::%d", i, i+1) }, time.Second, 1},
		{"one /48", func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) }, 0, 2},
		{"one /32", func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i+1) }, 0, hosts},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := &tinyWeb{Serve: pagesOnly}
				at := map[string]string{}
				var seeds []string
				for i := range hosts { // each in its own PLD
					host := fmt.Sprintf("h%d.test", i)
					at[host] = c.addr(i)
					for p := range pages {
						seeds = append(seeds, fmt.Sprintf("http://%s/%d", host, p))
					}
				}
				w.Lookup = func(host string) (string, error) { return at[host], nil }
				opt := tinyOptions(t, w, memfs.New(*seedFlag), seeds...)
				var mu sync.Mutex
				dialled := map[netip.Addr]int{}
				client, err := fetch.New(
					fetch.Options{AllowNets: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")},
						Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
							mu.Lock()
							dialled[addr.Addr()]++
							mu.Unlock()
							return w.Dial(ctx, addr)
						}})
				must(t, err)
				opt.Network.Fetcher, opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = client,
					2*time.Second, 2*time.Second
				opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin, opt.Politeness.NetworkRate,
					opt.Politeness.NetworkConnections = time.Second, time.Second, 2, 20
				if res := mustRun(t, t.Context(), opt); res.Stop != StopDone ||
					res.Snapshot.Place(state.PlaceFetched) != hosts*pages {
					t.Fatalf("stopped by %q, %d of %d URLs fetched", res.Stop,
						res.Snapshot.Place(state.PlaceFetched), hosts*pages)
				}
				if len(dialled) != hosts {
					t.Errorf("%d addresses dialled, want %d: %v", len(dialled), hosts, dialled)
				}
				var starts []time.Time
				for _, r := range w.Got("", "") {
					starts = append(starts, r.At)
				}
				if len(starts) != hosts*(pages+1) {
					t.Fatalf("%d requests, want %d", len(starts), hosts*(pages+1))
				}
				slices.SortFunc(starts, time.Time.Compare)
				most := mostInASecond(t, starts, c.apart)
				if most != c.rate {
					t.Errorf("at most %d requests in a second, want %d", most, c.rate)
				}
			})
		})
	}
}

// mostInASecond returns the largest number of starts in a second. No two may be closer than apart.
func mostInASecond(t *testing.T, starts []time.Time, apart time.Duration) int {
	t.Helper()
	most := 0
	for i, from := range starts {
		if i > 0 && from.Sub(starts[i-1]) < apart {
			t.Errorf("request %d: %v after the previous one, want at least %v", i,
				from.Sub(starts[i-1]), apart)
		}
		n := 0
		for _, s := range starts[i:] {
			if s.Sub(from) < time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
