package fetch

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestOwnNetworks: Do does not connect to a public address on a network of this machine unless AllowNets
// contains it. The list is refreshed once a minute, and the old one is kept if that fails.
func TestOwnNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []netip.Addr
		for _, s := range []string{"8.8.4.4", "::ffff:8.8.4.255", "8.8.5.0", "2600:0:0:7::99", "2600:0:0:8::"} {
			at = append(at, netip.MustParseAddr(s))
		}
		first := prefixes("8.8.4.4/24", "127.0.0.1/8", "192.168.0.9/16", "fe80::1/64")
		second := prefixes("2600:0:0:7::1/64", "::ffff:8.8.5.1/120", "10.0.0.1/8")
		list, fault, asked := first, error(nil), 0
		open := func(allow ...netip.Prefix) *Client {
			c, err := New(Options{AllowNets: allow, OwnNets: func() ([]netip.Prefix, error) {
				asked++
				return list, fault
			}})
			must(t, err)
			return c
		}
		c := open()
		want := func(when string, allowed ...bool) {
			t.Helper()
			for i, a := range at {
				if got := c.AllowedAddr(a); got != allowed[i] {
					t.Errorf("%s: %v allowed: %v, want %v (%q)", when, a, got, allowed[i], c.Refusal(a).Why)
				}
			}
		}
		want("at first", false, false, true, true, true)
		if got := c.OwnPublicNets(); !slices.Equal(got, prefixes("8.8.4.0/24")) {
			t.Errorf("public networks %v, want 8.8.4.0/24", got)
		}
		list = second
		time.Sleep(ownFor - 1)
		want("a minute less", false, false, true, true, true)
		if asked != 1 {
			t.Errorf("asked %d times in a minute, want once", asked)
		}
		time.Sleep(time.Nanosecond)
		want("a minute later", true, true, false, false, true)
		list, fault = nil, errors.New("made up")
		time.Sleep(ownFor)
		want("when the list can't be had", true, true, false, false, true)
		if asked != 3 {
			t.Errorf("asked %d times in two minutes, want 3", asked)
		}
		if _, err := New(Options{OwnNets: func() ([]netip.Prefix, error) { return nil, fault }}); !errors.Is(err,
			fault) {
			t.Errorf("got %v, want %v", err, fault)
		}
		fault, list = nil, append(slices.Clone(first), second...)
		c = open(prefixes("8.8.4.0/24", "2600:0:0:7::99/128")...)
		want("with exceptions", true, true, false, true, true)
		if got := c.OwnPublicNets(); !slices.Equal(got, prefixes("8.8.5.0/24", "2600:0:0:7::/64")) {
			t.Errorf("public networks %v, want 8.8.5.0/24 and 2600:0:0:7::/64", got)
		}
		c = open(prefixes("64:ff9b::/96")...)
		if c.AllowedAddr(netip.MustParseAddr("64:ff9b::8.8.4.9")) {
			t.Error("a neighbour may be reached by NAT64")
		}
		req := &Request{Scheme: "http", Host: "own.test", Addr: netip.AddrPortFrom(at[0], 80)}
		err := c.Do(t.Context(), req, new(Response))
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindForbiddenAddress {
			t.Errorf("Do: got %v, want a forbidden address", err)
		}
	})
}

// TestOwnNetworksBound: addresses of one network take one entry. More than maxOwn networks are an error.
func TestOwnNetworksBound(t *testing.T) {
	var list []netip.Prefix
	a := netip.MustParseAddr("8.0.0.0")
	for range maxOwn + 1 {
		list = append(list, netip.PrefixFrom(a, 8))
		a = a.Next()
	}
	client := func() error {
		_, err := New(Options{OwnNets: func() ([]netip.Prefix, error) { return list, nil }})
		return err
	}
	if err := client(); err != nil {
		t.Error(err)
	}
	for i, p := range list {
		list[i] = netip.PrefixFrom(p.Addr(), 32)
	}
	if client() == nil {
		t.Errorf("%d networks are no error", len(list))
	}
}

// TestInterfaceNets: this machine has at least one network.
func TestInterfaceNets(t *testing.T) {
	if nets, err := interfaceNets(); err != nil || len(nets) == 0 {
		t.Errorf("got %v, %v", nets, err)
	}
}

// addrMessage is an RTM_NEWADDR message.
func addrMessage(bits byte, attrs map[uint16]string) []byte {
	data := []byte{syscall.AF_INET, bits, 0, 0, 1, 0, 0, 0}
	for _, kind := range []uint16{syscall.IFA_ADDRESS, syscall.IFA_LOCAL, syscall.IFA_BROADCAST} {
		if text, ok := attrs[kind]; ok {
			value := netip.MustParseAddr(text).AsSlice()
			data = binary.NativeEndian.AppendUint16(data, uint16(4+len(value)))
			data = append(binary.NativeEndian.AppendUint16(data, kind), value...)
		}
	}
	m := binary.NativeEndian.AppendUint32(nil, uint32(syscall.NLMSG_HDRLEN+len(data)))
	m = binary.NativeEndian.AppendUint16(m, syscall.RTM_NEWADDR)
	return append(append(m, make([]byte, 10)...), data...)
}

// TestAddrNets: of a broadcast network the prefix is kept; of a point-to-point link the far end and our address.
func TestAddrNets(t *testing.T) {
	table := slices.Concat(
		addrMessage(24, map[uint16]string{
			syscall.IFA_ADDRESS: "8.8.4.4", syscall.IFA_LOCAL: "8.8.4.4", syscall.IFA_BROADCAST: "8.8.4.255"}),
		addrMessage(32, map[uint16]string{syscall.IFA_ADDRESS: "9.9.9.1", syscall.IFA_LOCAL: "8.8.4.4"}),
		addrMessage(64, map[uint16]string{syscall.IFA_ADDRESS: "2600::7"}))
	got, err := addrNets(table)
	if want := prefixes("8.8.4.0/24", "9.9.9.1/32", "8.8.4.4/32", "2600::/64"); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := addrNets(addrMessage(33, map[uint16]string{syscall.IFA_ADDRESS: "8.8.4.4"})); err == nil {
		t.Error("a length of 33 bits is no error")
	}
}

// TestNAT64: of an address in a translator's prefix, the embedded IPv4 address decides, for each length of RFC
// 6052. Without the prefix, an address of one in 2000::/3 is public, and others are refused.
func TestNAT64(t *testing.T) {
	own := func() ([]netip.Prefix, error) { return prefixes("9.9.9.9/24", "2a00:1:2:3::1/64"), nil }
	list := prefixes("2a00:1::/32", "2a00:2:300::/40", "2a00:3:4::/48", "2a00:3:5:600::/56", "2a00:3:5:7::/64",
		"2a00:3:5:8::/96", "fd00:64::/96", "64:ff9b:1:fffe::/96")
	allow := prefixes("10.1.0.0/16", "64:ff9b:1::/48", "64:ff9b::/96")
	with, err := New(Options{OwnNets: own, AllowNets: allow, NAT64: list})
	must(t, err)
	without, err := New(Options{OwnNets: own, AllowNets: allow})
	must(t, err)
	for v4, want := range map[string]bool{"8.8.8.8": true, "10.0.0.1": false, "10.1.0.1": true, "127.0.0.1": false,
		"169.254.169.254": false, "9.9.9.1": false, "168.63.129.16": false, "0.0.0.0": false} {
		for _, p := range append(list, wellKnown) {
			four, b := netip.MustParseAddr(v4).As4(), p.Addr().As16()
			for i, at := 0, p.Bits()/8; i < 4; i++ {
				if at == 8 {
					at++
				}
				b[at] = four[i]
				at++
			}
			a := netip.AddrFrom16(b)
			if got := with.Refusal(a); want != (got.Why == "") || !want && got.Admit != netip.MustParseAddr(v4) {
				t.Errorf("%v, %s in %v: got %+v, want allowed: %v", a, v4, p, got, want)
			}
			if got, want := without.AllowedAddr(a), global6.Contains(a) || p == wellKnown && want; got != want {
				t.Errorf("%v without the flag: allowed %v, want %v", a, got, want)
			}
			if b[8] = 1; p.Bits() < 96 && with.Refusal(netip.AddrFrom16(b)).Why == "" {
				t.Errorf("%v in %v is allowed in spite of bits 64 to 71", netip.AddrFrom16(b), p)
			}
		}
	}
	if _, err := New(Options{OwnNets: own, NAT64: prefixes("2a00::/33")}); err == nil {
		t.Error("a prefix of 33 bits is no error")
	}
}
