package observe

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestHeavyPLDs: among 10,000 PLDs, those with more than 1/32 of the responses are found with counts that are right to
// within 1/64 of all, and never too large.
func TestHeavyPLDs(t *testing.T) {
	s, rng := NewSketches(), rand.New(rand.NewPCG(1, 2))
	s.CountHeavy()
	counts := map[uint64]int64{}
	const responses = 50_000
	for range responses {
		pld := 100 + uint64(rng.IntN(10_000))
		switch p := rng.Float64(); {
		case p < 0.3:
			pld = 1
		case p < 0.4:
			pld = 2
		case p < 0.42:
			pld = 3
		}
		counts[pld]++
		s.AddAnswer(fmt.Appendf(nil, "www.site%d.test", pld), pld, netip.Addr{})
	}
	list := s.HeavyPLDs()
	if len(list) != 2 || list[0].Key != 1 || list[1].Key != 2 || list[0].Host != "www.site1.test" {
		t.Fatalf("%+v, want PLDs 1 and 2", list)
	}
	for _, p := range list {
		if p.Responses > counts[p.Key] || p.Responses < counts[p.Key]-responses/mostHeavy {
			t.Errorf("PLD %d: %d responses, it has %d", p.Key, p.Responses, counts[p.Key])
		}
	}
	if n := len(s.heavy.plds); n != mostHeavy {
		t.Errorf("%d PLDs are counted, want %d", n, mostHeavy)
	}
}
