package admit

import (
	"net/netip"
	"testing"

	"drumbeat/internal/scope"
	"drumbeat/weburl"
)

// TestBlockedBehindNAT64: a network of the blacklist is blocked also by way of a translator.
func TestBlockedBehindNAT64(t *testing.T) {
	suffixes := weburl.NewSuffixes(false)
	black, err := scope.Parse(scope.Blacklist, suffixes,
		scope.Source{Name: "b", Text: []byte("- net 198.51.100.0/24\n- net 2001:db8:9::/48")})
	if err != nil {
		t.Fatal(err)
	}
	l := &Lists{Suffixes: suffixes,
		NAT64: []netip.Prefix{netip.MustParsePrefix("2001:db8:64::/96"), netip.MustParsePrefix("2001:db8:5::/48")}}
	l.Blacklist.Store(black)
	for text, want := range map[string]bool{"198.51.100.7": true, "198.51.101.7": false,
		"2001:db8:64::198.51.100.7": true, "2001:db8:64::198.51.101.7": false, "2001:db8:5:c633:64:700::": true,
		"2001:db8:9::1": true, "2001:db8:65::198.51.100.7": false} {
		if got := l.BlockedAddr(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: blocked %v, want %v", text, got, want)
		}
	}
}
