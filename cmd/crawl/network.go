package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cespare/xxhash/v2"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/fetcher"
	"drumbeat/dnscache"
	"drumbeat/fetch"
	"drumbeat/internal/human"
	"drumbeat/internal/pace"
	"drumbeat/internal/ports"
)

// Network is the resolver and the fetcher of a crawl.
type Network struct {
	Limits   fetch.Limits
	bodies   int64 // bytes of RAM for bodies
	Resolver crawl.Resolver
	Fetcher  *fetch.Client
	dns      *dnscache.Resolver
}

// Close closes both.
func (n *Network) Close() error { return errors.Join(n.Fetcher.Close(), n.dns.Close()) }

func (c *Command) network(plan crawl.Plan, limiter *pace.Bandwidth, panicked func(string, any, []byte)) (*Network,
	error) {
	family, err := dnscache.ParseFamily(c.IP)
	if err != nil {
		return nil, term.Usage(err)
	}
	limits := heldLimits(int(c.MaxBody.Most()), plan.BodyBytes/2)
	limits.Connect, limits.TLS, limits.FirstByte = c.Timeout.Connect, c.Timeout.Connect, c.Timeout.FirstByte
	limits.Total = c.Timeout.All
	bodies := max(plan.BodyBytes, limits.MemoryBytes())
	if bodies > plan.HeapBytes/2 {
		return nil,
			term.Usage(fmt.Errorf("--max-body %s is too large for --ram: one page may take %s of a Go heap of %s; "+
				"raise --ram or lower --max-body", human.Bytes(limits.HeldBytes),
				human.Bytes(bodies), human.Bytes(plan.HeapBytes)))
	}
	m, err := term.ThisMachine()
	if err != nil {
		return nil, err
	}
	return OpenNetwork(
		dnscache.Options{Servers: c.nameServers(), Rate: float64(c.DNSRate), MaxBytes: DNSCacheBytes(plan),
			Family: family, MixCase: true, Panicked: panicked},
		fetch.Options{
			Limits: limits, BufferBytes: bodies, IdleConns: c.reserve(m).IdleConnections(c.Connections.Most()),
			UserAgent: c.UserAgent, From: c.FromHeader(), Accept: fetcher.AcceptHeader(c.Accept),
			AcceptEncoding: c.AcceptEncoding.Header, AllowNets: flags.Prefixes(c.AllowNet),
			NAT64: flags.NAT64Prefixes(c.NAT64Prefix), Ports: c.Ports,
			MapPort: flags.PortMap(c.MapPort), Limiter: limiter,
			TLS: fetch.TLSOptions{Require: c.TLS.Bad == "require", Old: c.TLS.Legacy}, HTTP2: c.HTTP2 == "on",
		})
}

// nameServers returns the servers of --resolver.
func (f *netFlags) nameServers() (servers []netip.AddrPort) {
	for _, s := range f.Resolver {
		servers = append(servers, s.AddrPort)
	}
	return servers
}

// leastHeld is the least that RAM holds of a body, in bytes: more than nearly all pages have.
const leastHeld = 2 << 20

// heldLimits returns the limits of bodies of at most most bytes. RAM holds so much of a body that one takes at
// most room bytes; the rest is spooled.
func heldLimits(most int, room int64) fetch.Limits {
	for held := most; ; held = max(leastHeld, held-held/16) {
		l := fetch.Limits{BodyBytes: most, HeldBytes: held, DecodedBytes: 4 * held}
		if held <= leastHeld || l.MemoryBytes() <= room {
			return l
		}
	}
}

// OpenNetwork opens a resolver and a client.
func OpenNetwork(d dnscache.Options, f fetch.Options) (*Network, error) {
	client, err := fetch.New(f)
	if err != nil {
		return nil, term.Usage(err)
	}
	dns, err := dnscache.New(d)
	if err != nil {
		return nil, errors.Join(term.Usage(err), client.Close())
	}
	return &Network{Resolver: ResolverOf(dns), Fetcher: client, dns: dns, Limits: f.Limits, bodies: f.BufferBytes}, nil
}

// DNSCacheBytes returns the size of the DNS cache: a sixteenth of the Go heap, 1 to 96 MiB.
func DNSCacheBytes(plan crawl.Plan) int64 { return max(1<<20, min(96<<20, plan.HeapBytes/16)) }

// ResolverOf adapts a dnscache.Resolver to crawl.Resolver.
func ResolverOf(dns *dnscache.Resolver) crawl.Resolver { return names{dns} }

// names implements crawl.Resolver and outage.FreshResolver.
type names struct{ dns *dnscache.Resolver }

// LookupHost implements crawl.Resolver.
func (n names) LookupHost(ctx context.Context, host, pld string) (crawl.Lookup, error) {
	answer, err := n.dns.Lookup(ctx, host, pld)
	return crawlLookup(host, answer, err)
}

// LookupFresh implements outage.FreshResolver.
func (n names) LookupFresh(ctx context.Context, host, pld string) (crawl.Lookup, error) {
	answer, err := n.dns.LookupFresh(ctx, host, pld)
	return crawlLookup(host, answer, err)
}

// crawlLookup converts an answer or error of dnscache.
func crawlLookup(host string, answer dnscache.Answer, err error) (crawl.Lookup, error) {
	if err == nil {
		return crawl.Lookup{Addrs: answer.Addrs, Expires: answer.Expires, TTL: answer.TTL, Server: answer.Server,
			Cached: answer.Cached}, nil
	}
	var de *dnscache.Error
	if errors.As(err, &de) {
		return crawl.Lookup{}, &crawl.LookupError{Host: host, NotFound: de.Kind.Permanent(),
			NoAnswer: de.Kind == dnscache.KindTimeout, Certain: de.Kind == dnscache.KindBadName, Cached: de.Cached,
			Busy: de.Kind == dnscache.KindBusy, Expires: de.Expires, Err: err}
	}
	return crawl.Lookup{}, err
}

// digest identifies the allowed ports and addresses. If it changes, a crawl retries the URLs that other
// flags held.
func (f *netFlags) digest() string {
	var nets []string
	for _, p := range flags.Prefixes(f.AllowNet) {
		nets = append(nets, p.Masked().String())
	}
	slices.Sort(nets)
	text := fmt.Sprint(ports.New(f.Ports...), slices.Compact(nets))
	var translators []string
	for _, p := range f.NAT64Prefix {
		translators = append(translators, p.String())
	}
	if slices.Sort(translators); len(translators) > 0 { // a crawl without any keeps the digest of earlier releases
		text += fmt.Sprint(slices.Compact(translators))
	}
	return fmt.Sprintf("%016x", xxhash.Sum64String(text))
}
