package star

import (
	"bytes"
	"testing"
)

// FuzzRanking checks that a decoded ranking encodes to the same bytes, that decoding takes no more memory
// than they do, and that the ranking keeps the top.
func FuzzRanking(f *testing.F) {
	f.Add(appendRanking(nil, []Ranked{{1, 9}, {2, 7}}, []uint32{3, 2, 1}))
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		ranked, degrees, err := decodeRanking(b)
		if err != nil {
			return
		}
		if again := appendRanking(nil, ranked, degrees); !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x", b, again)
		}
		r := newRanking(3)
		highest := map[uint64]uint64{}
		for _, p := range ranked {
			if p.Value < highest[p.PLD] {
				return // values never fall
			}
			highest[p.PLD] = p.Value
			r.set(p.PLD, p.Value)
		}
		top := r.sorted()
		if len(top) != min(3, len(highest)) {
			t.Fatalf("%d of %d PLDs kept", len(top), len(highest))
		}
		for i, p := range top {
			if p.Value != highest[p.PLD] {
				t.Fatalf("PLD %d has %d, want %d", p.PLD, p.Value, highest[p.PLD])
			}
			delete(highest, p.PLD)
			if i == len(top)-1 {
				for _, d := range highest {
					if d > p.Value {
						t.Fatalf("%d is not in the top, %d is", d, p.Value)
					}
				}
			}
		}
	})
}
