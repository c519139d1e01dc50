package crawl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawllog"
	"drumbeat/fetch"
	"drumbeat/internal/simweb"
)

// trouble is what befalls the machine of a world, its name servers, or some of the servers. It comes at a fixed virtual time, whatever
// is cut when.
type trouble string

const (
	noTrouble     trouble = ""
	noNames       trouble = "no name exists for a minute"
	noWay         trouble = "some addresses can never be connected to from here"
	noDescriptors trouble = "no connection can be made for a while"
	bannedLast    trouble = "the last servers come to drop packets"
	networkResets trouble = "all servers of a /24 come to reset connections"
)

// troubleOf draws the trouble of a world: any numCutWorlds in a row have all kinds.
func troubleOf(seed uint64) trouble {
	switch seed % 12 {
	case 2, 6, 10:
		return noNames
	case 5:
		return noWay
	case 9:
		return noDescriptors
	case 0:
		return bannedLast
	case 4:
		return networkResets
	}
	return noTrouble
}

// When the trouble comes and goes, from the beginning of a bubble.
const (
	troubleBegins    = 3 * time.Second
	namesAreBack     = troubleBegins + time.Minute
	descriptorsAgain = troubleBegins + 40*time.Second
	strangersTurn    = 8 * time.Second
)

// sinceBubble is the virtual time since the beginning of a bubble. A life that goes on in another one keeps its time.
func sinceBubble() time.Duration {
	return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
}

// strangers are the seeds of hosts beside the web whose pages have no links: those that are in trouble for good.
func (w *cutWorld) strangers() (seeds []string) {
	hosts, pages := 0, 0
	switch w.trouble {
	case noWay:
		for i := range 3 {
			seeds = append(seeds, fmt.Sprintf("http://[2606:4700:%x::1]/", i+1))
		}
	case bannedLast:
		hosts, pages = 3, 10
	case networkResets:
		hosts, pages = 5, 6
	}
	for h := range hosts {
		for p := range pages {
			seeds = append(seeds, fmt.Sprintf("http://stranger%d.example/%d", h, p))
		}
	}
	return seeds
}

func isStranger(url string) bool {
	return strings.HasPrefix(url, "http://stranger") || strings.HasPrefix(url, "http://[")
}

// strangersNet is where they are: all in one /24, or each in one of its own.
var strangersNet = netip.MustParsePrefix("127.240.0.0/16")

// lookup says that no name exists, or returns the address of a stranger; none for any other host.
func (w *cutWorld) lookup(host string) (netip.Addr, error) {
	if d := sinceBubble(); w.trouble == noNames && d > troubleBegins && d < namesAreBack {
		return netip.Addr{}, errNoSuchName
	}
	var n byte
	if k, _ := fmt.Sscanf(host, "stranger%d.example", &n); k == 0 {
		return netip.Addr{}, nil
	}
	if w.trouble == networkResets {
		return netip.AddrFrom4([4]byte{127, 240, 1, n + 1}), nil
	}
	return netip.AddrFrom4([4]byte{127, 240, n + 1, 1}), nil
}

// troubledNames is a resolver in a world.
type troubledNames struct {
	Resolver
	w *cutWorld
}

func (r troubledNames) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	addr, err := r.w.lookup(host)
	switch {
	case err != nil:
		return Lookup{}, &LookupError{Host: host, NotFound: true, Err: err}
	case addr.IsValid():
		return Lookup{Addrs: []netip.Addr{addr}, Expires: time.Now().Add(time.Hour)}, nil
	}
	return r.Resolver.LookupHost(ctx, host, pld)
}

// client connects in a world.
func (w *cutWorld) client(t testing.TB, web *simweb.Web) *fetch.Client {
	t.Helper()
	strange := &tinyWeb{serve: pagesOnly}
	client, err := fetch.New(fetch.Options{
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []uint16{8080},
		TLS: fetch.TLSOptions{Roots: web.CAPool()},
		Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			fail := func(err error) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Err: err} }
			d, stranger := sinceBubble(), strangersNet.Contains(a.Addr())
			switch {
			case a.Addr().Is6():
				return fail(syscall.EADDRNOTAVAIL)
			case w.trouble == noDescriptors && d > troubleBegins && d < descriptorsAgain:
				return fail(syscall.EMFILE)
			case stranger && d > strangersTurn && w.trouble == networkResets:
				return fail(syscall.ECONNRESET)
			case stranger && d > strangersTurn:
				<-ctx.Done()
				return fail(syscall.ETIMEDOUT)
			case stranger:
				return strange.dial(ctx, a)
			}
			return web.Dial(ctx, a)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// strangerReasons are why URLs of hosts that are in trouble for good may end without an answer.
var strangerReasons = map[trouble]string{bannedLast: "timeout host-given-up", networkResets: "reset host-given-up"}

// checkStrangers: each URL of a host in permanent trouble was fetched before that, and is in the output once; or has been refused for
// the trouble; or waits for its robots.txt, which wasn't had in time. When a crawl is cut decides which. What a durable checkpoint had is
// in the output. It returns how many were refused, and why.
func (l *life) checkStrangers(stored map[string]int, entries map[string][]crawllog.Entry) (refused map[string]int64, faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	refused = map[string]int64{}
	waiting := int64(0)
	for _, url := range l.world.strangers() {
		switch lines := entries[url]; {
		case len(lines) == 0 && stored[url] == 0:
			waiting++
		case len(lines) != 1:
			fault("%s has %d lines in the crawl log, %d records", url, len(lines), stored[url])
		case stored[url] == 1 && lines[0].Reason == "":
		case stored[url] == 0 && strings.Contains(strangerReasons[l.world.trouble], lines[0].Reason) && lines[0].Reason != "":
			refused[lines[0].Reason]++
		default:
			fault("%s ended because of %q, with %d records", url, lines[0].Reason, stored[url])
		}
	}
	if n := l.result.Snapshot.Later["robots-unavailable"]; n != waiting || len(l.result.Snapshot.Later) > boolInt(waiting > 0) {
		fault("%d URLs of strangers wait, the crawl has %v", waiting, l.result.Snapshot.Later)
	}
	for _, v := range l.wit.all() {
		if isStranger(v.url) && !v.robots && v.covered && v.final && stored[v.url] != 1 {
			fault("%s was in a durable checkpoint and has %d records", v.url, stored[v.url])
		}
	}
	return refused, faults
}
