package robots

import (
	"testing"
	"time"

	"drumbeat/internal/health"
)

// TestRetriesSpread: origins that fail at the same moment are requested again at different times, none before its time,
// and a replay of the updates gives the same times.
func TestRetriesSpread(t *testing.T) {
	p := health.Defaults()
	first := Outcome(&HostData{}, &Fetched{Kind: DNSFailure}, "me", day)
	value := AppendUpdate(nil, UpdateOutcome, day, &first)
	after := func(seed uint64, n int) time.Duration {
		var h HostData
		for range n {
			u, err := DecodeUpdate(value)
			if err != nil {
				t.Fatal(err)
			}
			h = u.Apply(seed, &h, &p, "me", day)
		}
		return h.RetryAt.Sub(day)
	}
	for n, least := range map[int]time.Duration{1: time.Minute, 5: 16 * time.Minute, 20: MaxRetry} {
		times := map[time.Duration]bool{}
		for seed := range uint64(100) {
			got := after(seed+1, n)
			if got < least || got > least+least/10 || after(seed+1, n) != got {
				t.Fatalf("failure %d of origin %d: next request after %v, want %v and up to a tenth more",
					n, seed+1, got, least)
			}
			times[got] = true
		}
		if len(times) < 50 {
			t.Errorf("failure %d: 100 origins are requested at %d different times", n, len(times))
		}
	}
}

// TestStaleCopyWithLongRetryAfter: a stale copy decides until the Retry-After ends, though that is days away.
func TestStaleCopyWithLongRetryAfter(t *testing.T) {
	fresh := Outcome(&HostData{}, &Fetched{Status: 200, Body: []byte("User-agent: *\nDisallow: /x\n"),
		Addrs: addrs("192.0.2.1"), AddrExpires: day.Add(160 * time.Hour)}, "me", day)
	stale := Outcome(&fresh, &Fetched{Status: 503, RetryAfter: 240 * time.Hour}, "me", day.Add(25*time.Hour))
	for _, c := range []struct {
		path  string
		after time.Duration
		want  Decision
	}{{"/", 150 * time.Hour, Allow}, {"/x", 150 * time.Hour, Disallow}, {"/", 265 * time.Hour, Request}} {
		if d, _ := stale.Decide([]byte(c.path), day.Add(c.after)); d != c.want {
			t.Errorf("%s after %v: %v, want %v", c.path, c.after, d, c.want)
		}
	}
}
