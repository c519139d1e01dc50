package drum

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBlockIndex: an index finds each key of a block, and no other.
func TestBlockIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seedFlag), 4))
	for range 200 {
		n := 1 + rng.IntN(3*indexEvery)
		keys := make([]uint64, 0, n)
		for key, spread := rng.Uint64()>>8, uint(rng.IntN(40)); len(keys) < n; {
			keys = append(keys, key)
			step := rng.Uint64() >> (63 - spread)
			if rng.IntN(50) == 0 { // a quotient of hundreds of bits
				step = step<<6 + 1<<(spread+7)
			}
			key += step + 1
		}
		w := riceParameter(keys)
		if w > 57 {
			continue
		}
		coded := appendRice(nil, keys, w)
		coded = slices.Grow(coded, 8)
		b := newBlockIndex(keys, w)
		if want := (n + indexEvery - 1) / indexEvery; len(b.keys) != want || b.last != keys[n-1] {
			t.Fatalf("%d keys, last %x, want %d, %x", len(b.keys), b.last, want, keys[n-1])
		}
		for i, key := range keys {
			if !b.has(key, n, coded, w) {
				t.Fatalf("key %d of %d, %x, is not found; %d bits", i, n, key, w)
			}
			other := key - 1
			if i > 0 {
				other = keys[i-1] + (key-keys[i-1])/2
			}
			if _, is := slices.BinarySearch(keys, other); b.has(other, n, coded, w) != is {
				t.Fatalf("key %x before number %d of %d: found %v; %d bits", other, i, n, !is, w)
			}
		}
	}
}

// TestIndexBytes: the indexes of a drum are bounded, and those of parts that are gone do not count.
func TestIndexBytes(t *testing.T) {
	for _, room := range []int64{0, 300, 3000, maxIndexBytes} {
		d := Drum{opt: Options{BucketBytes: maxIndexBytes * indexShare}}
		d.indexBytes.Store(maxIndexBytes - room)
		keys := make([]uint64, 2*indexEvery)
		for i := range keys {
			keys[i] = uint64(i) * 1000
		}
		var index partIndex
		for gen := range uint64(20) {
			r := partReader{opt: &d.opt, part: part{gen: gen + 1}, keys: keys, head: cacheHeader{codec: Rice, param: 9}}
			r.useIndexes(&index, &d.indexBytes)
			for range 10 {
				r.remember()
			}
			if used := d.indexBytes.Load() - (maxIndexBytes - room); used != index.bytes || used > room ||
				room >= 3000 && len(index.blocks) != 10 || room == 0 && len(index.blocks) != 0 {
				t.Fatalf("room for %d bytes: %d used, %d of the part, %d blocks", room, used, index.bytes,
					len(index.blocks))
			}
		}
	}
}

// BenchmarkProbe asks a block for one of 800 keys, as a small pass does, and decodes all of it for
// comparison.
func BenchmarkProbe(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	keys := make([]uint64, blockKeys)
	for i := range keys {
		keys[i] = rng.Uint64() >> 8
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	w := riceParameter(keys)
	coded := slices.Grow(appendRice(nil, keys, w), 8)
	index := newBlockIndex(keys, w)
	b.Run("index", func(b *testing.B) {
		for i := range b.N {
			if !index.has(keys[i*797%len(keys)], len(keys), coded, w) {
				b.Fatal("not found")
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		got := make([]uint64, len(keys))
		for range b.N {
			got[0] = keys[0]
			if _, err := decodeRice(got, coded, w); err != nil {
				b.Fatal(err)
			}
		}
	})
}
