package flags

import (
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"drumbeat/internal/nat64"
)

// Fraction is a number, or a quotient such as 1/9.
type Fraction float64

// UnmarshalText reads "0.15" or "1/9".
func (f *Fraction) UnmarshalText(text []byte) error {
	a, b, ok := strings.Cut(string(text), "/")
	if !ok {
		b = "1"
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if q := x / y; err1 == nil && err2 == nil && q >= 0 && q <= 1e18 {
		*f = Fraction(q)
		return nil
	}
	return fmt.Errorf("%q is not a number such as 0.15 or 1/9", text)
}

// Size is a number of bytes: 2MB is 2,000,000 and 2MiB is 2,097,152.
type Size int64

// UnmarshalText reads a number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is not a size such as 512MiB, 64GB or 4096", text)
	}
	*s = Size(n)
	return nil
}

// String returns the exact size, so UnmarshalText reads the same value.
func (s Size) String() string {
	units := [...]struct {
		name string
		n    Size
	}{{"B", 1}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9},
		{"MB", 1e6}, {"kB", 1e3}}
	best := units[0]
	for _, u := range units {
		if s >= u.n && s%u.n == 0 && u.n > best.n {
			best = u
		}
	}
	return strconv.FormatInt(int64(s/best.n), 10) + best.name
}

// Count is a whole number from 0 on; large ones may be written 1e6 or 20_000.
type Count int64

// UnmarshalText reads a number.
func (c *Count) UnmarshalText(text []byte) error {
	t := strings.ReplaceAll(string(text), "_", "")
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(t, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return fmt.Errorf("%q is not a whole number", text)
		}
		n = int64(f)
	}
	if n < 0 {
		return fmt.Errorf("%s is negative", text)
	}
	*c = Count(n)
	return nil
}

// String returns text that UnmarshalText reads.
func (c Count) String() string { return strconv.FormatInt(int64(c), 10) }

// ServerAddr is a DNS server; the default port is 53.
type ServerAddr struct{ netip.AddrPort }

// UnmarshalText reads an address with or without a port.
func (s *ServerAddr) UnmarshalText(text []byte) error {
	t := string(text)
	ap, err := netip.ParseAddrPort(t) // before ParseAddr, which would take "]:53" for part of a zone
	if err != nil {
		var a netip.Addr
		a, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(t, "["), "]"))
		ap = netip.AddrPortFrom(a, 53)
	}
	if err != nil || ap.Port() == 0 || strings.ContainsAny(ap.Addr().Zone(), "[]") {
		return fmt.Errorf("%q is not an address such as 192.0.2.1, 192.0.2.1:53 or [2001:db8::1]:53", text)
	}
	s.AddrPort = ap
	return nil
}

// NetPrefix is a range of addresses; a single address is a range of one.
type NetPrefix struct{ netip.Prefix }

// UnmarshalText reads CIDR notation or an address.
func (p *NetPrefix) UnmarshalText(text []byte) error {
	if a, err := netip.ParseAddr(string(text)); err == nil && a.Zone() == "" {
		p.Prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	pre, err := netip.ParsePrefix(string(text))
	if err != nil {
		return fmt.Errorf("%q is not an address or a range of addresses, such as 127.0.0.1 or 127.0.0.0/8", text)
	}
	if pre != pre.Masked() {
		return fmt.Errorf("%q has bits set beyond its length; did you mean %s?", text, pre.Masked())
	}
	p.Prefix = pre
	return nil
}

// NAT64 is a prefix of a NAT64 translator (RFC 6052).
type NAT64 struct{ netip.Prefix }

// UnmarshalText reads CIDR notation.
func (p *NAT64) UnmarshalText(text []byte) error {
	pre, err := netip.ParsePrefix(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a prefix such as 2001:db8:64::/96", text)
	}
	if err := nat64.Check(pre); err != nil {
		return err
	}
	p.Prefix = pre
	return nil
}

// PortPair is "A=B": connect to B where a URL says A.
type PortPair struct{ from, to uint16 }

// UnmarshalText reads "A=B".
func (p *PortPair) UnmarshalText(text []byte) error {
	a, b, ok := strings.Cut(string(text), "=")
	from, err1 := strconv.ParseUint(a, 10, 16)
	to, err2 := strconv.ParseUint(b, 10, 16)
	if !ok || err1 != nil || err2 != nil || from == 0 || to == 0 {
		return fmt.Errorf("%q is not a pair of ports such as 80=18080", text)
	}
	*p = PortPair{uint16(from), uint16(to)}
	return nil
}

// String returns text that UnmarshalText reads.
func (p PortPair) String() string { return fmt.Sprintf("%d=%d", p.from, p.to) }

// OutMode are the permissions of finished output, in octal.
type OutMode fs.FileMode

// UnmarshalText reads octal permissions. The owner must be able to read and write; nobody may execute, and
// others may not write.
func (m *OutMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 16)
	if err != nil || n&0o600 != 0o600 || n&^0o664 != 0 {
		return fmt.Errorf("%q is not a mode such as 0600, 0640 or 0644", text)
	}
	*m = OutMode(n)
	return nil
}

// String returns text that UnmarshalText reads.
func (m OutMode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// Wide returns the mode, or 0 for 0600, which all files have anyway.
func (m OutMode) Wide() fs.FileMode {
	if m == 0o600 {
		return 0
	}
	return fs.FileMode(m)
}

// PortMap returns the function of --map-port; nil without pairs.
func PortMap(pairs []PortPair) func(uint16) uint16 {
	if len(pairs) == 0 {
		return nil
	}
	to := make(map[uint16]uint16, len(pairs))
	for _, p := range pairs {
		to[p.from] = p.to
	}
	return func(port uint16) uint16 {
		if p, ok := to[port]; ok {
			return p
		}
		return port
	}
}

// OrZero returns *p, or the zero value if p is nil.
func OrZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Prefixes returns the ranges of --allow-net.
func Prefixes(nets []NetPrefix) (out []netip.Prefix) {
	for _, n := range nets {
		out = append(out, n.Prefix)
	}
	return out
}

// NAT64Prefixes returns the prefixes of --nat64-prefix.
func NAT64Prefixes(list []NAT64) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, p.Prefix)
	}
	return out
}
