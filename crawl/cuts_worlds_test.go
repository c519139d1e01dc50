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

	"drumbeat/crawl/outage"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
)

// trouble is a fault of a world's machine, of its name servers, or of some of its servers. It comes at a
// fixed virtual time, independent of the cuts.
type trouble string

const (
	noTrouble     trouble = ""
	noNames       trouble = "no name exists for a minute"
	noWay         trouble = "some addresses are unreachable"
	noDescriptors trouble = "no connection is possible for a while"
	bannedLast    trouble = "the last servers start to drop packets"
	networkResets trouble = "all servers of a /24 start to reset connections"
)

// troubleOf returns the trouble of a world. Any numCutWorlds consecutive seeds include all kinds.
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

// Begin and end of the trouble, from the start of a bubble.
const (
	troubleBegins    = 3 * time.Second
	namesAreBack     = troubleBegins + time.Minute
	descriptorsAgain = troubleBegins + 40*time.Second
	strangersTurn    = 8 * time.Second
)

// sinceBubble is the virtual time since the start of a bubble. A life that continues in another bubble
// keeps its time.
func sinceBubble() time.Duration { return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) }

// strangers are seeds on hosts outside the web whose pages have no links. Permanent trouble affects only
// these hosts.
func (kind trouble) strangers() (seeds []string) {
	hosts, pages := 0, 0
	switch kind {
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

// strangersNet has the strangers' addresses: all in one /24, or each in its own, as the trouble requires.
var strangersNet = netip.MustParsePrefix("127.240.0.0/16")

// address returns the address of a stranger, and the zero Addr for any other host.
func (kind trouble) address(host string) netip.Addr {
	var n byte
	if k, _ := fmt.Sscanf(host, "stranger%d.example", &n); k == 0 {
		return netip.Addr{}
	}
	if kind == networkResets {
		return netip.AddrFrom4([4]byte{127, 240, 1, n + 1})
	}
	return netip.AddrFrom4([4]byte{127, 240, n + 1, 1})
}

// troubledNames is the resolver of a world. It applies the world's trouble with names.
type troubledNames struct {
	outage.Resolver
	trouble
}

func (r troubledNames) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	if d := sinceBubble(); r.trouble == noNames && d > troubleBegins && d < namesAreBack {
		return Lookup{}, &LookupError{Host: host, NotFound: true, Err: errNoSuchName}
	}
	if addr := r.address(host); addr.IsValid() {
		return Lookup{Addrs: []netip.Addr{addr}, Expires: time.Now().Add(time.Hour)}, nil
	}
	return r.Resolver.LookupHost(ctx, host, pld)
}

// client returns a fetch client that applies the world's trouble with connections.
func (w *cutWorld) client(t testing.TB, web *simweb.Web) *fetch.Client {
	t.Helper()
	strange := &tinyWeb{Serve: pagesOnly}
	held := 0
	if w.spools {
		held = 500
	}
	client := newClient(t, fetch.Options{
		Limits: fetch.Limits{HeldBytes: held}, Ports: ports.Of(8080),
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
				return strange.Dial(ctx, a)
			}
			return web.Dial(ctx, a)
		},
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// strangerReasons are the allowed reasons for URLs of hosts in permanent trouble that end without an answer.
var strangerReasons = map[trouble]string{bannedLast: "timeout host-given-up", networkResets: "reset host-given-up"}
