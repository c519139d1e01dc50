package drum

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// ascending returns n distinct keys in order.
func ascending(rng *rand.Rand, n int, shift uint) []uint64 {
	keys := make([]uint64, 0, n)
	for len(keys) < n {
		for len(keys) < n {
			keys = append(keys, rng.Uint64()>>shift)
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	return keys
}

func TestCodecs(t *testing.T) {
	rng := newRand(t)
	for _, n := range []int{1, 2, 3, 5, 17, 1000, blockKeys} {
		for _, shift := range []uint{0, 1, 13, 30, 48} {
			keys := ascending(rng, n, shift)
			got := make([]uint64, n)
			b := appendRaw(nil, keys)
			if rest, err := decodeRaw(got, append(b, 7)); err != nil || !slices.Equal(got, keys) || len(rest) != 1 {
				t.Fatalf("raw, %d keys >> %d: rest %d, %v", n, shift, len(rest), err)
			}
			for _, w := range []uint8{0, 5, 30, 57, 58, 63, riceParameter(keys)} {
				if n > 1 && (keys[n-1]-keys[0])>>w > 1<<20 {
					continue
				}
				clear(got)
				got[0] = keys[0]
				b := append(appendRice(nil, keys, w), 1, 2, 3, 4, 5, 6, 7, 8, 9)
				rest, err := decodeRice(got, b[:len(b)-8], w)
				if err != nil || !slices.Equal(got, keys) || len(rest) != 1 {
					t.Fatalf("rice %d, %d keys >> %d: rest %d, %v", w, n, shift, len(rest), err)
				}
			}
		}
	}
}

// The blocks of a cache of n keys take at most 1 % more than the information-theoretic bound.
func TestRiceSize(t *testing.T) {
	rng := newRand(t)
	for _, log := range []float64{17, 30, 35.3} {
		bound := 64 - log + 1/math.Ln2
		var bits, keys float64
		block := make([]uint64, blockKeys)
		for range 40 {
			for i := range block {
				gap := rng.ExpFloat64() * math.Exp2(64-log)
				block[i] = uint64(gap) + 1
				if i > 0 {
					block[i] += block[i-1]
				}
				if log == 17 {
					block[i] &= math.MaxUint64 >> 1
				}
			}
			slices.Sort(block)
			b := appendRice(nil, block, riceParameter(block))
			bits += float64(8 * (cacheFrameBytes + len(b)))
			keys += float64(len(block))
		}
		if got := bits / keys; got > 1.01*bound || got < 0.97*bound {
			t.Errorf("n = 2^%v: got %.2f bits a key, bound %.2f", log, got, bound)
		}
	}
}

func FuzzDecodeRice(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5}, uint8(3), uint16(4))
	f.Add([]byte{0, 0, 0, 128}, uint8(60), uint16(2))
	f.Fuzz(func(t *testing.T, b []byte, w uint8, n uint16) {
		keys := make([]uint64, int(n)%blockKeys+1)
		padded := append(slices.Clone(b), make([]byte, 8)...)
		rest, err := decodeRice(keys, padded[:len(b)], w%64)
		if err == nil && (!slices.IsSorted(keys) || len(rest) > len(b)) {
			t.Fatal("keys out of order")
		}
	})
}

func BenchmarkRice(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	keys := ascending(rng, blockKeys, 30)
	w := riceParameter(keys)
	buf := appendRice(nil, keys, w)
	b.Run("op=encode", func(b *testing.B) {
		for b.Loop() {
			buf = appendRice(buf[:0], keys, riceParameter(keys))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/blockKeys, "ns/key")
	})
	b.Run("op=decode", func(b *testing.B) {
		got := make([]uint64, blockKeys)
		got[0] = keys[0]
		n := len(buf)
		buf = append(buf, make([]byte, 8)...)[:n]
		for b.Loop() {
			if _, err := decodeRice(got, buf, w); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/blockKeys, "ns/key")
	})
}
