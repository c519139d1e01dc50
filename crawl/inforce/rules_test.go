package inforce

import (
	"context"
	"net/netip"
	"testing"

	"drumbeat/admit"
	"drumbeat/internal/scope"
	"drumbeat/weburl"
)

// TestReloadWhileExchangesBegin: an exchange that begins before or during a reload of the blacklist must either be
// refused or be cut off.
func TestReloadWhileExchangesBegin(t *testing.T) {
	suffixes := weburl.NewSuffixes(false)
	black, err := scope.Parse(scope.Blacklist, suffixes,
		scope.Source{Name: "b", Text: []byte("- host a.test\n- net 192.0.2.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 200 {
		f := &Rules{Lists: admit.Lists{Suffixes: suffixes}}
		f.Guard(true)
		host, addr := []byte("a.test"), netip.MustParseAddr("198.51.100.1")
		if round%2 == 1 {
			host, addr = []byte("b.test"), netip.MustParseAddr("192.0.2.1")
		}
		start, results := make(chan struct{}), make(chan context.Context, 8)
		early, _, err := f.Enter(t.Context(), host, addr)
		if err != nil {
			t.Fatal(err)
		}
		results <- early
		for range cap(results) - 1 {
			go func() {
				<-start
				ctx, _, err := f.Enter(context.Background(), host, addr)
				if err != nil {
					ctx = nil
				}
				results <- ctx
			}()
		}
		close(start)
		f.Blacklist.Store(black)
		f.CutOff()
		for range cap(results) {
			if ctx := <-results; ctx != nil && context.Cause(ctx) != ErrBlocked {
				t.Fatal("an exchange with a listed host continues")
			}
		}
		if _, _, err := f.Enter(t.Context(), host, addr); err != ErrBlocked {
			t.Fatalf("got %v", err)
		}
	}
}
