package nat64

import (
	"net/netip"
	"testing"
)

// TestIPv4: the examples of RFC 6052, 2.4, each prefix with 192.0.2.33, and bits 64 to 71 set.
func TestIPv4(t *testing.T) {
	for prefix, text := range map[string]string{
		"2001:db8::/32":             "2001:db8:c000:221::",
		"2001:db8:100::/40":         "2001:db8:1c0:2:21::",
		"2001:db8:122::/48":         "2001:db8:122:c000:2:2100::",
		"2001:db8:122:300::/56":     "2001:db8:122:3c0:0:221::",
		"2001:db8:122:344::/64":     "2001:db8:122:344:c0:2:2100::",
		"2001:db8:122:344::/96":     "2001:db8:122:344::192.0.2.33",
		"64:ff9b::/96":              "64:ff9b::192.0.2.33",
		"2001:db8:1:2:ab::/96":      "2001:db8:1:2:ab:0:c000:221",
		"2001:db8:1:2:ab:cdef::/96": "2001:db8:1:2:ab:cdef:c000:221",
	} {
		p, a := netip.MustParsePrefix(prefix), netip.MustParseAddr(text)
		if err := Check(p); err != nil || !p.Contains(a) {
			t.Errorf("%v: %v, contains %v: %v", p, err, a, p.Contains(a))
		}
		if got := IPv4(p, a); got != netip.AddrFrom4([4]byte{192, 0, 2, 33}) {
			t.Errorf("%v in %v: got %v, want 192.0.2.33", a, p, got)
		}
		b := a.As16()
		b[reserved] |= 0x10
		if got := IPv4(p, netip.AddrFrom16(b)); got.IsValid() {
			t.Errorf("%v in %v: got %v, want none", netip.AddrFrom16(b), p, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, s := range []string{"64:ff9b::/95", "64:ff9b::/128", "2001:db8::/24", "2001:db8::/33", "::ffff:0:0/96",
		"10.0.0.0/32", "2001:db8:1:2:1000::/96", "2001:db8::1/64", "ff05::/64", "::/0"} {
		if Check(netip.MustParsePrefix(s)) == nil {
			t.Errorf("%s is taken for a NAT64 prefix", s)
		}
	}
	if Check(netip.Prefix{}) == nil {
		t.Error("the zero prefix is taken for a NAT64 prefix")
	}
}
