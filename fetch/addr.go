package fetch

import (
	"fmt"
	"net/netip"

	"drumbeat/internal/nat64"
	"drumbeat/internal/ports"
)

// forbidden4 and forbidden6 list the addresses that are not public sites: IANA's special-purpose registries,
// the cloud providers' metadata services outside them, and forms that embed an IPv4 address. PublicAddr also
// refuses every IPv6 address outside 2000::/3.
var forbidden4 = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // a cloud provider's virtual host address, reachable only from its own machines
)

var forbidden6 = prefixes(
	"2001::/23",     // protocol assignments: Teredo, benchmarking, ORCHID
	"2001:db8::/32", // documentation
	"2002::/16",     // 6to4
	"3fff::/20",     // documentation
)

var (
	global6    = netip.MustParsePrefix("2000::/3")
	wellKnown  = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215: of any length from 48 on, so of unknown layout
	sixTo4     = netip.MustParsePrefix("2002::/16")
)

func prefixes(ss ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(ss))
	for i, s := range ss {
		ps[i] = netip.MustParsePrefix(s)
	}
	return ps
}

func contains(ps []netip.Prefix, a netip.Addr) bool {
	for _, p := range ps {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// PublicAddr reports whether addr is a public Internet address. It checks an IPv4-mapped address as the IPv4
// address that the kernel would connect to. Addresses with a zone and 6to4, Teredo and NAT64 forms are not
// public.
func PublicAddr(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return !contains(forbidden4, addr)
	}
	return global6.Contains(addr) && !contains(forbidden6, addr)
}

// Refusal says why Do does not connect to an address. The zero value means that it does.
type Refusal struct {
	Why string // in a few words, after "is"
	// Admit is the address that Options.AllowNets lacks; the zero Addr if AllowNets cannot admit it.
	Admit netip.Addr
}

// addrRules decide which addresses may be connected to.
type addrRules struct {
	allow, nat64 []netip.Prefix
	own          func(netip.Addr) bool // of an unmapped address
}

// refusal judges an address. Of one that embeds an IPv4 address, that one must be allowed as well, because a
// translator connects to it.
func (r *addrRules) refusal(addr netip.Addr) Refusal {
	if !addr.IsValid() || addr.Zone() != "" {
		return Refusal{"not public", addr}
	}
	addr = addr.Unmap()
	translated := false
	for _, p := range r.nat64 { // they may overlap; which one the translator uses is not known
		if p.Contains(addr) {
			translated = true
			if no := r.embedded(nat64.IPv4(p, addr)); no.Why != "" {
				return no
			}
		}
	}
	var no Refusal
	switch {
	case translated:
		return no
	case !PublicAddr(addr):
		no = Refusal{"not public", addr}
	case r.own(addr):
		no = Refusal{"on a network of this machine's interfaces", addr}
	}
	if no.Why == "" || !contains(r.allow, addr) {
		return no
	}
	b := addr.As16()
	switch {
	case localNAT64.Contains(addr):
		return Refusal{Why: "a local NAT64 address, which only --nat64-prefix allows"}
	case wellKnown.Contains(addr):
		return r.embedded(netip.AddrFrom4([4]byte(b[12:16])))
	case sixTo4.Contains(addr):
		return r.embedded(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return Refusal{}
}

// embedded judges an embedded IPv4 address; the zero Addr is one that breaks RFC 6052.
func (r *addrRules) embedded(v4 netip.Addr) Refusal {
	if !v4.IsValid() {
		return Refusal{Why: "not a NAT64 address: bits 64 to 71 are set"}
	}
	no := r.refusal(v4)
	if no.Why != "" {
		no.Why = fmt.Sprintf("a form of %v, which is %s", v4, no.Why)
	}
	return no
}

// AllowedAddr reports whether Do may connect to addr: a public address outside the networks of this machine's
// interfaces, or an address in Options.AllowNets. Of an address in Options.NAT64 the embedded IPv4 address
// decides. Do makes the same check, so callers need it only to choose among the addresses of a name.
func (c *Client) AllowedAddr(addr netip.Addr) bool { return c.Refusal(addr).Why == "" }

// Refusal is AllowedAddr with the reason.
func (c *Client) Refusal(addr netip.Addr) Refusal { return c.addrs.refusal(addr) }

// Ports returns the ports that Do may connect to: 80, 443 and Options.Ports.
func (c *Client) Ports() ports.Set { return c.ports }
