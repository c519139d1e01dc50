package cluster

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// someLoads returns loads of some slots, of a size each.
func someLoads(rng *rand.Rand, slots int, most int64) *Loads {
	l := &Loads{Since: rng.Int64N(2) * 1_790_000_000}
	for range slots {
		l.Slots[rng.IntN(Slots)] = Load{Pages: rng.Int64N(most), Known: rng.Int64N(most),
			Waiting: rng.Int64N(most) - most/9, Bytes: rng.Int64N(most)}
	}
	return l
}

// TestLoadsForm: loads survive their form in a tail file; any other bytes are an error, or loads that survive it.
func TestLoadsForm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, slots := range []int{0, 1, 100, 3 * Slots} {
		l := someLoads(rng, slots, 1<<62)
		data := l.Append(nil)
		got, err := DecodeLoads(data)
		if err != nil || *got != *l {
			t.Fatalf("%d slots: %v", slots, err)
		}
		for range 300 {
			bad := slices.Clone(data[:1+rng.IntN(len(data))])
			bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
			if got, err := DecodeLoads(bad); err == nil {
				if again, err := DecodeLoads(got.Append(nil)); err != nil || *again != *got {
					t.Fatalf("% x: %v", bad, err)
				}
			} else if !errors.Is(err, ErrLoads) {
				t.Fatal(err)
			}
		}
	}
	for _, bad := range []string{"", "\x02\x00", "\x01", "\x01\x00\x80", "\x01\x00\x80\x20\x02\x02\x02\x02",
		"\x01\x00\xff\x1f\x02\x02\x02"} {
		if _, err := DecodeLoads([]byte(bad)); !errors.Is(err, ErrLoads) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
