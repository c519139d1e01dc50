package dnscache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Family selects the address families to look up.
type Family uint8

const (
	// FamilyAuto looks up IPv4 addresses, and IPv6 addresses if a host has no IPv4 address and this machine
	// had a route to the IPv6 Internet when New was called.
	FamilyAuto Family = iota
	// Family4 looks up IPv4 addresses only.
	Family4
	// Family6 looks up IPv6 addresses only.
	Family6
	// FamilyBoth looks up both at once. IPv4 addresses come first in the answer.
	FamilyBoth
)

// ParseFamily parses "auto", "4", "6" or "both".
func ParseFamily(s string) (Family, error) {
	for f, name := range []string{"auto", "4", "6", "both"} {
		if s == name {
			return Family(f), nil
		}
	}
	return 0, fmt.Errorf("dnscache: address family %q: want auto, 4, 6 or both", s)
}

// NoFailureCache as FailureTTL disables the caching of failures.
const NoFailureCache = -1

// Options configure a Resolver. A zero field means the default in its comment.
type Options struct {
	// Servers are recursive resolvers, at least one; port 0 means 53. They share the load.
	Servers []netip.AddrPort
	// Sockets is the number of UDP sockets for each server, each with a port of its own; default 4, at most
	// 64.
	Sockets int
	// Timeouts are the timeouts of the tries of a question, so their number is the number of tries. Each try
	// goes to another server if there is one. A late answer to an earlier try counts. Default 1 s, 2 s, 4 s;
	// at most 8.
	Timeouts []time.Duration
	// Rate bounds the questions a second to all servers together, retries included; 0: no bound.
	Rate float64
	// MaxBytes bounds the cache; default 96 MiB.
	MaxBytes int64
	// MaxInFlight bounds the lookups that run at once; others wait. Default 4096, at most 16384.
	MaxInFlight int
	// MaxPerPLD bounds the lookups of one PLD that run at once; others wait. Default 8.
	MaxPerPLD int
	// MaxWaitingPerPLD bounds the lookups of one PLD that wait. Further lookups fail with KindBusy. Default
	// 1024.
	MaxWaitingPerPLD int
	// FailureTTL is the life of a failure (timeout, SERVFAIL); default 30 s; NoFailureCache: 0.
	FailureTTL time.Duration
	// MaxAddrs bounds the addresses kept of each family; default 16, at most 255.
	MaxAddrs int
	// Family selects the address families to look up.
	Family Family
	// MixCase randomizes the case of letters in questions and requires replies to repeat it, about ten more
	// bits against forged answers. A server that does not repeat the case gets lower case for an hour.
	MixCase bool
	// Dial replaces the dialler of sockets (network "udp") and TCP connections ("tcp"), for tests. A "udp"
	// connection must preserve message boundaries, as net.Pipe does.
	Dial func(ctx context.Context, network string, addr netip.AddrPort) (net.Conn, error)
	// Panicked reports a panic, which is a bug. With a name, parsing a reply for that name panicked; the
	// reply is ignored. With "" for the name, another goroutine of the Resolver panicked, and Panicked must
	// end the process. nil: the former is not reported, and the latter ends the process by itself.
	Panicked func(name string, value any, stack []byte)
	// reading is called before a reply is read, so that tests can make it panic.
	reading func(name string)
}

const (
	maxEntries = 1_000_000 // in the cache
	maxWaiting = 65536     // lookups; further ones fail with KindBusy

	// These clamp the life of an answer.
	ttlMin = time.Minute
	ttlMax = 24 * time.Hour

	// These clamp the life of "no such name" and "no address".
	negativeMin = 5 * time.Minute
	negativeMax = time.Hour

	renewEvery = 5 * time.Minute // the interval at which sockets get new ports
)

// withDefaults returns o with its defaults filled in.
func (o Options) withDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Sockets, 4)
	def(&o.MaxInFlight, 4096)
	def(&o.MaxPerPLD, 8)
	def(&o.MaxWaitingPerPLD, 1024)
	def(&o.MaxAddrs, 16)
	if o.FailureTTL == 0 {
		o.FailureTTL = 30 * time.Second
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 96 << 20
	}
	if len(o.Timeouts) == 0 {
		o.Timeouts = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	}
	servers := make([]netip.AddrPort, len(o.Servers))
	for i, s := range o.Servers {
		if s.Port() == 0 {
			s = netip.AddrPortFrom(s.Addr(), 53)
		}
		servers[i] = s
	}
	o.Servers = servers
	return o
}

// Validate returns all faults of the options, joined. Zero fields are valid.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("dnscache: "+format, args...)) }
	if len(o.Servers) == 0 {
		bad("no servers")
	}
	for _, s := range o.Servers {
		if !s.Addr().IsValid() {
			bad("server %v has no address", s)
		}
	}
	for name, n := range map[string]int{"Sockets": o.Sockets, "MaxInFlight": o.MaxInFlight,
		"MaxPerPLD": o.MaxPerPLD, "MaxWaitingPerPLD": o.MaxWaitingPerPLD, "MaxAddrs": o.MaxAddrs} {
		if n < 0 {
			bad("%s is negative: %d", name, n)
		}
	}
	if o.Sockets > 64 || o.MaxInFlight > 16384 || o.MaxAddrs > 255 || len(o.Timeouts) > maxTries {
		bad("want Sockets <= 64, MaxInFlight <= 16384, MaxAddrs <= 255, at most %d Timeouts", maxTries)
	}
	for _, t := range o.Timeouts {
		if t <= 0 {
			bad("timeout %v is not positive", t)
		}
	}
	if o.Rate < 0 || o.MaxBytes < 0 {
		bad("negative Rate or MaxBytes")
	}
	if o.Family > FamilyBoth {
		bad("unknown address family %d", o.Family)
	}
	return errors.Join(errs...)
}

// ReadResolvConf returns the name servers of a file like /etc/resolv.conf, in order, with port 53, at most
// 16. It skips invalid lines. A file without name servers is an error.
func ReadResolvConf(path string) ([]netip.AddrPort, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dnscache: read servers: %w", err)
	}
	defer f.Close()
	var servers []netip.AddrPort
	for sc := bufio.NewScanner(f); sc.Scan() && len(servers) < 16; {
		fields := strings.Fields(sc.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(a, 53))
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("dnscache: read servers: no name server in %s", path)
	}
	return servers, nil
}
