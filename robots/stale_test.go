package robots

import (
	"net/netip"
	"testing"
	"time"
)

// TestStaleCopyLooksUpAddresses: while an old copy of robots.txt applies, expired addresses are looked up.
// If that fails, URLs wait for the next request.
func TestStaleCopyLooksUpAddresses(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	h := Outcome(&HostData{}, &Fetched{Status: 200, Addrs: at, AddrExpires: now.Add(time.Hour)}, "x", now)
	now = now.Add(25 * time.Hour)
	h = Outcome(&h, &Fetched{Status: 503, RetryAfter: 12 * time.Hour, Addrs: at, AddrExpires: now.Add(time.Hour)}, "x",
		now)
	if d, _ := h.Decide([]byte("/"), now.Add(time.Minute)); d != Allow || !h.Stale {
		t.Errorf("with addresses: %v, stale %v", d, h.Stale)
	}
	now = now.Add(2 * time.Hour)
	if d, _ := h.Decide([]byte("/"), now); d != Resolve {
		t.Errorf("with addresses that are too old: %v", d)
	}
	h = Outcome(&h, &Fetched{Kind: DNSFailure}, "x", now)
	if d, until := h.Decide([]byte("/"), now.Add(time.Second)); d != Wait || !until.Equal(h.RetryAt) || !h.Stale {
		t.Errorf("after a lookup that failed: %v until %v", d, until)
	}
	if d, _ := h.Decide([]byte("/"), h.RetryAt); d != Request {
		t.Errorf("when it is time: %v", d)
	}
}

// TestOutcomesOfAClockThatWasAhead: times written while the clock was a year ahead do not make a copy apply
// for longer than MaxStale, a count of failures begin in the future, or a name be looked up for ever without
// confirmation that it does not exist.
func TestOutcomesOfAClockThatWasAhead(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	ahead := now.Add(365 * 24 * time.Hour)
	h := Outcome(&HostData{}, &Fetched{Status: 404}, "x", ahead)
	h = Outcome(&h, &Fetched{Kind: NetworkFailure}, "x", ahead)
	h = Outcome(&h, &Fetched{Kind: NetworkFailure}, "x", now)
	if h.FailingSince.After(now) || h.Fetched.After(now) || h.Expires.After(now.Add(MaxStale)) {
		t.Errorf("failing since %v, fetched %v, expires %v", h.FailingSince, h.Fetched, h.Expires)
	}
	if d, until := h.Decide([]byte("/"), now.Add(time.Second)); d != Wait || until.After(now.Add(time.Hour)) {
		t.Errorf("%v until %v, want a wait for the next try", d, until)
	}
	h = Outcome(&HostData{}, &Fetched{Kind: NoSuchHost}, "x", ahead)
	h = Outcome(&h, &Fetched{Kind: NoSuchHost}, "x", now)
	if d, until := h.Decide([]byte("/"), now.Add(time.Second)); d != Wait || !until.Equal(now.Add(MissingLeast)) {
		t.Errorf("a name said to be missing: %v until %v", d, until)
	}
	now = now.Add(MissingLeast)
	h = Outcome(&h, &Fetched{Kind: NoSuchHost}, "x", now)
	if d, _ := h.Decide([]byte("/"), now); d != NoHost {
		t.Errorf("said so again: %v", d)
	}
}
