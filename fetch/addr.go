package fetch

import (
	"net/netip"

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
	global6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4  = netip.MustParsePrefix("2002::/16")
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

// allowedAddr reports whether addr is public and not this machine's own, or lies in allow. If allow covers a
// 6to4 or NAT64 address, the embedded IPv4 address must be allowed as well.
func allowedAddr(addr netip.Addr, allow []netip.Prefix, own func(netip.Addr) bool) bool {
	if PublicAddr(addr) && !own(addr.Unmap()) {
		return true
	}
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	if !contains(allow, addr) {
		return false
	}
	b := addr.As16()
	switch {
	case addr.Is4():
		return true
	case nat64.Contains(addr):
		return allowedAddr(netip.AddrFrom4([4]byte(b[12:16])), allow, own)
	case sixTo4.Contains(addr):
		return allowedAddr(netip.AddrFrom4([4]byte(b[2:6])), allow, own)
	}
	return true
}

// AllowedAddr reports whether Do may connect to addr: a public address that is not this machine's own, or an
// address in Options.AllowNets. Do makes the same check, so callers need it only to choose among the
// addresses of a name.
func (c *Client) AllowedAddr(addr netip.Addr) bool {
	return allowedAddr(addr, c.opt.AllowNets, c.own.has)
}

// Ports returns the ports that Do may connect to: 80, 443 and Options.Ports.
func (c *Client) Ports() ports.Set { return c.ports }
