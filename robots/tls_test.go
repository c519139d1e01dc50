package robots

import (
	"strings"
	"testing"
	"time"
)

// TestTLSText: the reason of a failed handshake is kept, cut, until another failure or an answer.
func TestTLSText(t *testing.T) {
	now := time.Unix(2e9, 0)
	h := Outcome(&HostData{}, &Fetched{Kind: NetworkFailure, TLS: "self-signed" + strings.Repeat("x", 100)}, "me", now)
	var back HostData
	if err := back.Decode(h.Append(nil)); err != nil || !strings.HasPrefix(back.TLS, "self-signedx") ||
		len(back.TLS) != MaxTLSText {
		t.Errorf("%v, TLS %q", err, back.TLS)
	}
	for _, f := range []Fetched{{Kind: NetworkFailure}, {Kind: Answered, Status: 404, TLS: "self-signed"}} {
		if next := Outcome(&back, &f, "me", now.Add(time.Hour)); next.TLS != "" {
			t.Errorf("%+v: TLS %q", f, next.TLS)
		}
	}
}
