package fetch

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestOwnAddresses: Do does not connect to a public address of this machine unless AllowNets contains it.
// The list is refreshed once a minute, and the old one is kept if that fails.
func TestOwnAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("2600::7")
		list, fault, asked := []netip.Addr{first}, error(nil), 0
		open := func(allow ...netip.Prefix) *Client {
			c, err := New(Options{AllowNets: allow, OwnAddrs: func() ([]netip.Addr, error) { asked++; return list, fault }})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c := open()
		want := func(when string, allowed ...bool) {
			t.Helper()
			for i, a := range []netip.Addr{first, netip.AddrFrom16(first.As16()), second} {
				if got := c.AllowedAddr(a); got != allowed[i] {
					t.Errorf("%s: %v allowed: %v, want %v", when, a, got, allowed[i])
				}
			}
		}
		want("at first", false, false, true)
		list = []netip.Addr{second}
		time.Sleep(ownFor - 1)
		want("a minute less", false, false, true)
		if asked != 1 {
			t.Errorf("asked %d times in a minute, want once", asked)
		}
		time.Sleep(time.Nanosecond)
		want("a minute later", true, true, false)
		list, fault = nil, errors.New("made up")
		time.Sleep(ownFor)
		want("when the list can't be had", true, true, false)
		if asked != 3 {
			t.Errorf("asked %d times in two minutes, want 3", asked)
		}
		if _, err := New(Options{OwnAddrs: func() ([]netip.Addr, error) { return nil, fault }}); !errors.Is(err, fault) {
			t.Errorf("got %v, want %v", err, fault)
		}
		fault, list = nil, []netip.Addr{first, netip.MustParseAddr("2600::7")}
		c = open(netip.MustParsePrefix("8.8.4.0/24"))
		want("with an exception", true, true, false)
		c = open(netip.MustParsePrefix("64:ff9b::/96"))
		if c.AllowedAddr(netip.MustParseAddr("64:ff9b::8.8.4.4")) {
			t.Error("an own address may be reached by NAT64")
		}
		err := c.Do(t.Context(), &Request{Scheme: "http", Host: "own.test", Addr: netip.AddrPortFrom(first, 80)}, new(Response))
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindForbiddenAddress {
			t.Errorf("Do: got %v, want a forbidden address", err)
		}
	})
}

// TestInterfaceAddrs: this machine has at least one address.
func TestInterfaceAddrs(t *testing.T) {
	if addrs, err := interfaceAddrs(); err != nil || len(addrs) == 0 {
		t.Errorf("got %v, %v", addrs, err)
	}
}
