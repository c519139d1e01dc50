package options

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"drumbeat/crawl/resolve"
	"drumbeat/fetch"
	"drumbeat/internal/pace"
	"drumbeat/internal/ports"
	"drumbeat/state"
)

// Resolver resolves a host name to addresses. dnscache.Resolver is the implementation. pld groups names for
// the limit on concurrent lookups. Errors are *resolve.Error.
type Resolver interface {
	LookupHost(ctx context.Context, host, pld string) (resolve.Lookup, error)
}

// FreshResolver is a Resolver with a cache that can also look up a name without it.
type FreshResolver interface {
	LookupFresh(ctx context.Context, host, pld string) (resolve.Lookup, error)
}

// Fetcher does one HTTP exchange. fetch.Client is the implementation.
type Fetcher interface {
	Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error
}

// BodyCap limits the size of bodies of some types, as received.
type BodyCap struct {
	Type  string // "application/pdf", "image/*" or "*/*"
	Bytes int64
}

// Network are the means of a crawl to reach sites, and the load that it puts on the network.
type Network struct {
	// Resolver and Fetcher are required.
	Resolver Resolver
	Fetcher  Fetcher
	// CloseIdle closes the idle connections of Fetcher (fetch.Client.CloseIdle). A crawl with several nodes calls it
	// when hosts move to other nodes: a host has one connection. nil: nothing is closed.
	CloseIdle func()
	// FetchLimits are the limits of Fetcher. Requests for robots.txt use them too, except for the body size.
	FetchLimits fetch.Limits
	// SetAcceptEncoding replaces the Accept-Encoding of Fetcher's requests (fetch.Client.SetAcceptEncoding). If
	// set, the crawl chooses the codings by its load (codings.go). nil: they stay as Fetcher has them.
	SetAcceptEncoding func(header string) error

	// Connections is the limit of concurrent exchanges. Default: 2000.
	Connections int
	// ConnectionSchedule limits the connections in use by time of day; zero means no limit.
	ConnectionSchedule pace.Schedule
	// RobotsInFlight is the limit of concurrent requests for robots.txt. Default: Connections, at least 64.
	RobotsInFlight int
	// KeepAlive is the longest time that a connection stays open for the next page of its host; 0 closes it
	// after each exchange.
	KeepAlive time.Duration
	// Rate limits the requests per second, for pages and robots.txt together; zero means no limit.
	Rate pace.Schedule
	// Bandwidth limits the bytes per second that Fetcher receives. Fetcher must use the same limiter. nil
	// means no limit.
	Bandwidth *pace.Bandwidth

	// AllowedAddr reports whether Fetcher connects to an address; nil means to all. It only avoids futile
	// attempts.
	AllowedAddr func(netip.Addr) bool
	// NAT64 are the Fetcher's prefixes of translators. The blacklist applies to IPv4 addresses in theirs, too.
	NAT64 []netip.Prefix
	// Ports are those that Fetcher connects to. Links to other ports are counted and dropped before any
	// request to their host.
	Ports ports.Set
	// AllowNets are the Fetcher's, NameServers those of the Resolver that the operator chose, for the manifest.
	AllowNets   []netip.Prefix
	NameServers []netip.AddrPort
	// Flags identifies the settings behind AllowedAddr and Ports, in any encoding. The first run with other
	// settings tries the URLs again that they held back.
	Flags string

	// Accept are the types of bodies that are read: "text/html", "text/*", "*/*", crawl.AcceptHTML. Of other
	// responses only the head is read, or up to two KiB to check whether the body is a page. Empty reads
	// all types. Links.Assets adds the types of the parts of pages.
	Accept []string
	// BodyCaps limit the bodies of some types, below FetchLimits.BodyBytes. The most specific match counts.
	BodyCaps []BodyCap
}

// Defaults sets the zero fields.
func (o *Network) Defaults() {
	setDefault(&o.Connections, 2000)
	setDefault(&o.RobotsInFlight, max(64, o.Connections))
}

// Validate returns all errors in the group, joined.
func (o *Network) Validate() error {
	faults := negatives(named{"keep-alive", o.KeepAlive})
	if o.Resolver == nil || o.Fetcher == nil {
		faults = append(faults, errors.New("crawl: no resolver or no fetcher given"))
	}
	return errors.Join(faults...)
}

// Keep writes the group into what the manifest keeps of a run.
func (o *Network) Keep(run *state.LastRun) {
	run.Ports = o.Ports
	for _, net := range o.AllowNets {
		run.AllowNets = append(run.AllowNets, net.String())
	}
	for _, server := range o.NameServers {
		run.NameServers = append(run.NameServers, server.String())
	}
}
