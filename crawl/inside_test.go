package crawl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/state"
)

// insideWeb is a tinyWeb whose names resolve to the addresses that a test chooses. It records every dialled
// address. Its own hosts are in 127.16.0.0/12, which is allowed; every other address that isn't public is
// forbidden.
type insideWeb struct {
	tinyWeb
	names func(host string, nth int) []netip.Addr // addresses at the n-th lookup; nil: ownAddr

	seen   sync.Mutex // guards all below
	asked  map[string]int
	dialed map[netip.AddrPort]int
}

func addrs(list ...string) (as []netip.Addr) {
	for _, s := range list {
		as = append(as, netip.MustParseAddr(s))
	}
	return as
}

var ownNet = netip.MustParsePrefix("127.16.0.0/12")

func (w *insideWeb) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	w.seen.Lock()
	n := w.asked[host]
	w.asked[host]++
	w.seen.Unlock()
	if w.names != nil {
		if as := w.names(host, n); as != nil {
			return Lookup{Addrs: as, Expires: time.Now().Add(time.Minute)}, nil
		}
	}
	got, err := w.tinyWeb.LookupHost(ctx, host, pld)
	if err == nil {
		b := got.Addrs[0].As4()
		b[1] = 16 + b[1]&15
		got.Addrs[0] = netip.AddrFrom4(b)
	}
	return got, err
}

func (w *insideWeb) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w.seen.Lock()
	w.dialed[addr]++
	w.seen.Unlock()
	return w.tinyWeb.Dial(ctx, addr)
}

// options returns the options of a crawl without delays, with the address and port filters of the program.
func (w *insideWeb) options(t *testing.T, seeds ...string) Options {
	t.Helper()
	w.asked, w.dialed = map[string]int{}, map[netip.AddrPort]int{}
	if w.Serve == nil {
		w.Serve = pagesOnly
	}
	client := newClient(t, fetch.Options{Dial: w.dial, AllowNets: []netip.Prefix{ownNet}, Ports: ports.Of(8080)})
	opt := tinyOptions(t, &w.tinyWeb, memfs.New(*seedFlag), seeds...)
	atOnce(&opt)
	opt.Network.Resolver, opt.Network.Fetcher = w, client
	opt.Network.AllowedAddr, opt.Network.Ports = client.AllowedAddr, client.Ports()
	opt.Limits.MaxTime, opt.Limits.Linger, opt.Health.Retries = 2*time.Hour, 10*time.Second, 1
	return opt
}

// check reports each dialled address that is neither public nor in the web's own net, and each forbidden
// port.
func (w *insideWeb) check(t *testing.T) {
	t.Helper()
	for a := range w.dialed {
		if !fetch.PublicAddr(a.Addr()) && !ownNet.Contains(a.Addr().Unmap()) {
			t.Errorf("dialled %v", a)
		}
		if p := a.Port(); p != 80 && p != 443 && p != 8080 {
			t.Errorf("dialled port of %v", a)
		}
	}
}

// insideAddrs returns addresses that no crawl may reach: the edges of each range, and IPv4 in every IPv6
// form.
func insideAddrs() []netip.Addr {
	var as []netip.Addr
	four := addrs("0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255",
		"100.100.100.200", "127.0.0.1", "127.15.255.255", "127.32.0.0", "127.255.255.255", "169.254.0.0",
		"169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.192", "192.0.0.255",
		"192.0.2.1", "192.88.99.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.7",
		"203.0.113.255", "224.0.0.1", "239.255.255.255", "240.0.0.0", "255.255.255.255", "168.63.129.16")
	for _, a := range four {
		b := a.As4()
		as = append(as, a)
		for _, form := range []string{"::ffff:%x:%x", "::%x:%x", "64:ff9b::%x:%x", "64:ff9b:1::%x:%x", "2002:%x:%x::1",
			"2001:0:4136:e378:8000:63bf:%x:%x", "::ffff:0:%x:%x"} {
			hi, lo := uint16(b[0])<<8|uint16(b[1]), uint16(b[2])<<8|uint16(b[3])
			as = append(as, netip.MustParseAddr(fmt.Sprintf(form, hi, lo)))
		}
	}
	return append(as,
		addrs("::", "::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fdff:ffff::1", "fe80::1", "febf::1",
			"fec0::1", "ff02::1", "100::1", "2001:db8::1", "2001:1::1", "2001:20::1", "3fff::1", "5f00::1")...)
}

// TestInsideIsClosedToDNS: when names resolve to forbidden addresses of every range, alone or among public
// ones, the crawl must dial public addresses only.
func TestInsideIsClosedToDNS(t *testing.T) {
	inside := insideAddrs()
	public := addrs("93.184.216.34", "2606:2800:220:1::1")
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		w.names = func(host string, _ int) []netip.Addr {
			var i int
			var mixed bool
			if n, _ := fmt.Sscanf(host, "only%d.test", &i); n == 0 {
				if n, _ = fmt.Sscanf(host, "mixed%d.test", &i); n == 0 {
					return nil
				}
				mixed = true
			}
			if mixed {
				return []netip.Addr{inside[i], public[0], inside[(i+1)%len(inside)], public[1]}
			}
			return []netip.Addr{inside[i]}
		}
		n := len(inside)
		opt := w.options(t, append(urls("only", n, 1), urls("mixed", n, 1)...)...)
		res := mustRun(t, t.Context(), opt)
		w.check(t)
		if got := res.Snapshot.Refused["forbidden-address"]; got != int64(n) {
			t.Errorf("refused %d URLs for their address, want %d; refused %v, deferred %v", got, n,
				res.Snapshot.Refused, res.Snapshot.Deferred)
		}
		if got := len(w.Pages("mixed")); got != n {
			t.Errorf("fetched %d pages of hosts with a public address, want %d", got, n)
		}
		if len(w.Pages("only")) > 0 {
			t.Errorf("the crawl fetched pages of hosts with forbidden addresses")
		}
	})
}

// TestInsideIsClosedToURLs: links and redirects, also of robots.txt, to forbidden addresses must be
// refused, in every notation that a browser accepts.
func TestInsideIsClosedToURLs(t *testing.T) {
	var bad []string
	for _, a := range insideAddrs() {
		if a.Is6() {
			bad = append(bad, "http://["+a.String()+"]/")
		} else {
			bad = append(bad, "http://"+a.String()+"/")
		}
	}
	bad = append(bad, "http://0x7f.1/", "http://017700000001/", "http://2130706433/", "http://0x7f000001/",
		"http://127.1/", "http://127.0.1/", "http://0/", "http://0x0/", "http://127.0.0.1./", "http://0177.0.0.01/",
		"http://３２３２２３５７７７/", "http://１２７.0.0.1/", "http://127%2e0%2e0%2e1/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/",
		"http://0xa9fea9fe/latest/meta-data/", "https://[::ffff:169.254.169.254]/", "http://[::]/",
		"http://user:pw@127.0.0.1/", "http:127.0.0.1/", "//10.0.0.1/x", `http:\\10.0.0.1\x`, "http://[fe80::1%25eth0]/",
		"http://[::1%lo]/", "http://127.0.0.1:8080/", "http://[::1]:8080/")
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		w.Serve = func(host, path string) answer {
			var i int
			if n, _ := fmt.Sscanf(host, "robots%d.test", &i); n == 1 && path == "/robots.txt" {
				return answer{302, "Location: " + bad[i] + "\r\n", ""}
			}
			if n, _ := fmt.Sscanf(path, "/to%d", &i); n == 1 {
				return answer{302, "Location: " + bad[i] + "\r\n", ""}
			}
			if host == "links.test" && path == "/" {
				var b strings.Builder
				b.WriteString("<html><meta charset=utf-8>")
				for i := range bad {
					fmt.Fprintf(&b, `<a href="%s">x</a><a href="/to%d">x</a>`, bad[i], i)
				}
				return answer{200, "", b.String()}
			}
			return pagesOnly(host, path)
		}
		opt := w.options(t, append(urls("robots", len(bad), 1), "http://links.test/")...)
		res := mustRun(t, t.Context(), opt)
		w.check(t)
		if got := len(w.Got("links.test", "")); got < len(bad) {
			t.Errorf("%d requests for links.test, want %d, one per redirect", got, len(bad))
		}
		if got, want := len(w.Got("", "/0")), len(bad); got != want {
			t.Errorf("fetched %d hosts whose robots.txt redirects to a forbidden address, want %d, since their own "+
				"addresses are allowed", got, want)
		}
		if res.Snapshot.Refused["forbidden-address"] < 50 {
			t.Errorf("refused %v, want the addresses under forbidden-address", res.Snapshot.Refused)
		}
		for host := range w.asked {
			if !strings.HasSuffix(host, ".test") {
				t.Errorf("the crawl looked up %q", host)
			}
		}
	})
}

// TestInsideIsClosedToRebinding: a name that resolves to a public address first and to a forbidden one at
// later lookups must not lead to a forbidden connection.
func TestInsideIsClosedToRebinding(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		w.names = func(host string, nth int) []netip.Addr {
			if nth == 0 {
				return addrs("93.184.216.34")
			}
			return addrs("127.0.0.1", "169.254.169.254", "::1")
		}
		opt := w.options(t, urls("a", 3, 40)...)
		// 40 minutes of fetches, so that addresses expire.
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Minute, time.Minute
		// Confirmation takes hours for a name that had a public address.
		opt.Limits.MaxTime, opt.Limits.Linger = 24*time.Hour, 10*time.Hour
		res := mustRun(t, t.Context(), opt)
		w.check(t)
		for host, n := range w.asked {
			if n < 2 {
				t.Errorf("%s was looked up %d times, want more, so that it is rebound", host, n)
			}
		}
		if res.Snapshot.Refused["forbidden-address"] == 0 {
			t.Errorf("refused %v: want refused URLs after the rebinding", res.Snapshot.Refused)
		}
		if got := len(w.Pages("a")) + int(res.Snapshot.Refused["forbidden-address"]); got != 120 {
			t.Errorf("fetched or refused %d URLs, want 120", got)
		}
	})
}

// TestForbiddenPorts: the crawl must drop and count links, seeds and redirects to other ports before any
// request or lookup for their host. URLs that an earlier run with more ports queued must end as
// forbidden-port.
func TestForbiddenPorts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		w.Serve = func(host, path string) answer {
			switch {
			case host == "moved.test" && path == "/robots.txt":
				return answer{302, "Location: http://moved.test:22/robots.txt\r\n", ""}
			case path == "/redirect":
				return answer{302, "Location: http://b.test:25/\r\n", ""}
			case host == "a.test" && path == "/":
				return answer{200, "",
					`<html><a href="http://b.test:6379/"><a href="http://c.test:0/"><a href="http://d.test:8080/">` +
						`<a href="https://e.test:22/"><a href="http://f.test:65535/x"><a href="/redirect"><a ` +
						`href="http://a.test:80/2">`}
			}
			return pagesOnly(host, path)
		}
		opt := w.options(t, "http://a.test/", "http://seed.test:11211/", "http://moved.test/")
		res := mustRun(t, t.Context(), opt)
		w.check(t)
		for _, host := range []string{"b.test", "c.test", "e.test", "f.test", "seed.test"} {
			if w.asked[host] > 0 {
				t.Errorf("%s was looked up", host)
			}
		}
		if n := len(w.Got("d.test:8080", "/")); n != 1 {
			t.Errorf("fetched d.test:8080 %d times, want 1", n)
		}
		if n := len(w.Got("a.test", "/2")); n != 1 {
			t.Errorf("fetched a.test:80 %d times, want 1", n)
		}
		if n := res.Snapshot.Count(state.CountLinksPort); n != 6 {
			t.Errorf("counted %d links to other ports, want 6", n)
		}
		if !slices.ContainsFunc(res.Seeds,
			func(s string) bool { return s == "http://seed.test:11211/: forbidden-port" }) {
			t.Errorf("seeds without yield %q: want the seed with another port among them", res.Seeds)
		}
		if len(w.Pages("moved.test")) != 1 {
			t.Errorf("did not fetch the host whose robots.txt redirects to port 22")
		}
	})
}

// TestFewerPortsThanBefore: when a crawl resumes with fewer ports, queued URLs of the other ports must end
// with a reason, wherever they wait.
func TestFewerPortsThanBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		w.Serve = func(host, path string) answer {
			if strings.HasPrefix(host, "busy") && path != "/robots.txt" {
				return answer{503, "Retry-After: 600\r\n", ""}
			}
			return pagesOnly(host, path)
		}
		var seeds []string
		for i := range 30 {
			seeds = append(seeds, fmt.Sprintf("http://a%d.test:8080/%d", i%3, i),
				fmt.Sprintf("http://busy%d.test:8080/%d", i%3, i))
		}
		opt := w.options(t, seeds...)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 30*time.Second, 30*time.Second
		runFor(t, 100*time.Second, opt)
		before := len(w.Pages(""))
		client := newClient(t, fetch.Options{Dial: w.dial, AllowNets: []netip.Prefix{ownNet}})
		opt.Network.Fetcher, opt.Network.Ports = client, client.Ports()
		res := mustRun(t, t.Context(), opt)
		if n := len(w.Pages("")); n != before || before == 0 {
			t.Errorf("fetched %d pages after the port was disallowed, %d before", n-before, before)
		}
		s := &res.Snapshot
		if got, want := s.Place(state.PlaceFetched)+s.Refused["forbidden-port"], int64(60); got != want ||
			res.Stop != StopDone {
			t.Errorf("%q: %d fetched, refused %v, deferred %v: want %d in total", res.Stop, s.Place(state.PlaceFetched),
				s.Refused, s.Deferred, want)
		}
		for reason, n := range s.Deferred {
			if n != 0 {
				t.Errorf("deferred %s %d, want 0", reason, n)
			}
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	})
}

// TestSamePlaceByTwoNotations: an IPv4-mapped IPv6 address must be the same server as the IPv4 address,
// with one delay.
func TestSamePlaceByTwoNotations(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		w.names = func(host string, _ int) []netip.Addr {
			if host < "b" {
				return addrs("93.184.216.34")
			}
			return addrs("::ffff:93.184.216.34", "93.184.216.34")
		}
		opt := w.options(t, append(urls("a", 5, 2), urls("b", 5, 2)...)...)
		opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin = 10*time.Second, 10*time.Second
		mustRun(t, t.Context(), opt)
		w.check(t)
		all := w.Got("", "")
		for i := 1; i < len(all); i++ {
			if gap := all[i].At.Sub(all[i-1].At); gap < 10*time.Second {
				t.Errorf("%s%s came %v after %s%s at the same server", all[i].Host, all[i].Path, gap,
					all[i-1].Host, all[i-1].Path)
			}
		}
		if len(w.dialed) != 1 {
			t.Errorf("dialled %v, want one address", w.dialed)
		}
	})
}

// TestFetcherIsTheLastGate: the fetcher alone must refuse forbidden addresses, without the crawler's own
// filter.
func TestFetcherIsTheLastGate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		inside := insideAddrs()
		w.names = func(host string, _ int) []netip.Addr {
			var i int
			fmt.Sscanf(host, "a%d.test", &i)
			return []netip.Addr{inside[i]}
		}
		opt := w.options(t, urls("a", len(inside), 1)...)
		opt.Network.AllowedAddr, opt.Network.Ports = nil, ports.Set{}
		res := mustRun(t, t.Context(), opt)
		w.check(t)
		if len(w.dialed) > 0 || res.Snapshot.Refused["forbidden-address"] != int64(len(inside)) {
			t.Errorf("dialled %v, refused %v, deferred %v, %v, %v; want all %d refused", w.dialed, res.Snapshot.Refused,
				res.Snapshot.Deferred, res.Snapshot.Elapsed, res.Stop, len(inside))
		}
	})
}
