// Package nat64 finds the IPv4 address in an IPv6 address of a NAT64 translator (RFC 6052).
//
// Such a translator connects to the embedded IPv4 address. Whoever judges addresses must therefore judge that
// one: the client of package fetch, so that no link leads into a private network, and the blacklist.
//
//	p := netip.MustParsePrefix("2001:db8:64::/96")
//	nat64.IPv4(p, netip.MustParseAddr("2001:db8:64::10.0.0.1")) // 10.0.0.1
//
// # Layout
//
// The IPv4 address follows the prefix, but no part of it is in byte 8 (bits 64 to 71), which is zero:
//
//	/32  bytes 4 to 7          /56  bytes 7, 9 to 11
//	/40  bytes 5 to 7, 9       /64  bytes 9 to 12
//	/48  bytes 6, 7, 9, 10     /96  bytes 12 to 15
//
// What follows it is reserved, and not looked at. So the prefix alone tells where the IPv4 address is; an
// address alone does not.
package nat64

import (
	"fmt"
	"net/netip"
)

// reserved is the byte of an address that RFC 6052, 2.2 keeps zero: bits 64 to 71.
const reserved = 8

// Check returns an error if a prefix is not one that RFC 6052, 2.2 allows: IPv6, of 32, 40, 48, 56, 64 or 96
// bits, with bits 64 to 71 zero.
func Check(p netip.Prefix) error {
	switch {
	case !p.IsValid() || !p.Addr().Is6() || p.Addr().Is4In6():
		return fmt.Errorf("%v is not an IPv6 prefix", p)
	case p != p.Masked():
		return fmt.Errorf("%v has bits set beyond its length; did you mean %v?", p, p.Masked())
	case p.Addr().IsMulticast():
		return fmt.Errorf("%v is a prefix of multicast addresses", p)
	}
	switch p.Bits() {
	case 32, 40, 48, 56, 64:
	case 96:
		if p.Addr().As16()[reserved] != 0 {
			return fmt.Errorf("%v has bits 64 to 71 set, which RFC 6052 keeps zero", p)
		}
	default:
		return fmt.Errorf("%v is %d bits long; a NAT64 prefix has 32, 40, 48, 56, 64 or 96 (RFC 6052)", p, p.Bits())
	}
	return nil
}

// IPv4 returns the IPv4 address that an address of a prefix embeds, or the zero Addr if bits 64 to 71 are
// not zero. The prefix must pass Check and contain the address.
func IPv4(p netip.Prefix, a netip.Addr) netip.Addr {
	b := a.As16()
	if b[reserved] != 0 {
		return netip.Addr{}
	}
	var four [4]byte
	at := p.Bits() / 8
	for i := range four {
		if at == reserved {
			at++
		}
		four[i] = b[at]
		at++
	}
	return netip.AddrFrom4(four)
}
