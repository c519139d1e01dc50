package inflate

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// bitWriter writes deflate streams by hand.
type bitWriter struct {
	out  []byte
	word uint64
	n    uint
}

// put writes n bits, lowest first.
func (w *bitWriter) put(v uint64, n uint) {
	w.word |= v << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.word))
		w.word >>= 8
	}
}

// code writes a Huffman code of n bits, highest first.
func (w *bitWriter) code(v uint64, n uint) { w.put(bits.Reverse64(v)>>(64-n), n) }

func (w *bitWriter) bytes() []byte {
	out := w.out
	if w.n > 0 {
		out = append(out, byte(w.word))
	}
	return out
}

// dynamic writes the header of a dynamic block with the given code widths, without repeats: the code length
// code has 16 symbols of 4 bits.
func (w *bitWriter) dynamic(final bool, literals, distances []uint8) {
	last := uint64(0)
	if final {
		last = 1
	}
	w.put(last, 1)
	w.put(2, 2)
	w.put(uint64(len(literals)-257), 5)
	w.put(uint64(len(distances)-1), 5)
	w.put(15, 4)
	for _, s := range lengthOrder {
		if s < 16 {
			w.put(4, 3)
		} else {
			w.put(0, 3)
		}
	}
	for _, n := range literals {
		w.code(uint64(n), 4)
	}
	for _, n := range distances {
		w.code(uint64(n), 4)
	}
}

// widths returns n widths, zero except for those in set.
func widths(n int, set map[int]uint8) []uint8 {
	list := make([]uint8, n)
	for i, v := range set {
		list[i] = v
	}
	return list
}

// TestCodes: complete codes, codes of one symbol, empty codes and invalid codes are treated as in other
// decoders.
func TestCodes(t *testing.T) {
	all15 := map[int]uint8{'a': 1, 256: 15, 257: 15} // every width
	for n := 2; n < 15; n++ {
		all15['a'+n] = uint8(n)
	}
	for _, tt := range []struct {
		name                string
		literals, distances map[int]uint8
		follows             byte // the data of the block
		err                 error
		n                   int // its length in bytes
	}{
		{"two", map[int]uint8{'a': 1, 256: 1}, nil, 0, ErrTruncated, 800},
		{"the end alone", map[int]uint8{256: 1}, nil, 0, nil, 0},
		{"one of two bits", map[int]uint8{256: 2}, nil, 0, ErrCorrupt, 0},
		{"none", nil, nil, 0, ErrCorrupt, 0},
		{"no end", map[int]uint8{'a': 1, 'b': 1}, nil, 0, ErrTruncated, 800},
		{"incomplete", map[int]uint8{'a': 1, 256: 2}, nil, 0, ErrCorrupt, 0},
		{"too many", map[int]uint8{'a': 1, 'b': 1, 256: 2}, nil, 0, ErrCorrupt, 0},
		{"up to 15 bits", all15, nil, 0, ErrTruncated, 800},
		{"matches without distances", map[int]uint8{257: 1, 256: 1}, nil, 0x55, ErrCorrupt, 0},
		{"distance too far", map[int]uint8{257: 1, 256: 1}, map[int]uint8{0: 1}, 0x55, ErrCorrupt, 0},
		{"one distance", map[int]uint8{'a': 2, 257: 2, 256: 2, 258: 2}, map[int]uint8{0: 1}, 0, ErrTruncated, 400},
		{"distances incomplete", map[int]uint8{'a': 1, 256: 1}, map[int]uint8{0: 2}, 0, ErrCorrupt, 0},
		{"distances too many", map[int]uint8{'a': 1, 256: 1}, map[int]uint8{0: 1, 1: 1, 2: 1}, 0, ErrCorrupt, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w bitWriter
			w.dynamic(true, widths(286, tt.literals), widths(30, tt.distances))
			for range 100 {
				w.put(uint64(tt.follows), 8)
			}
			z := w.bytes()
			got, err := decode(Raw, z)
			if err != tt.err || len(got) < tt.n || len(got) > tt.n+8 {
				t.Errorf("got %d bytes, %v; want %d, %v", len(got), err, tt.n, tt.err)
			}
			compare(t, Raw, z)
			for i := range z {
				compare(t, Raw, z[:i])
			}
		})
	}
}

// TestSymbolsWithoutMeaning: symbols that exist only in the fixed code are rejected.
func TestSymbolsWithoutMeaning(t *testing.T) {
	for symbol := range uint64(2) {
		var w bitWriter
		w.put(1, 1)
		w.put(1, 2)
		w.code(0x30+'x', 8)
		w.code(0xc6+symbol, 8) // 286, 287
		z := append(w.bytes(), make([]byte, 40)...)
		if got, err := decode(Raw, z); string(got) != "x" || err != ErrCorrupt {
			t.Errorf("length %d: got %q, %v", 286+symbol, got, err)
		}
		compare(t, Raw, z)
		w = bitWriter{}
		w.put(1, 1)
		w.put(1, 2)
		w.code(0x30+'x', 8)
		w.code(1, 7)
		w.code(30+symbol, 5)
		z = append(w.bytes(), make([]byte, 40)...)
		if got, err := decode(Raw, z); string(got) != "x" || err != ErrCorrupt {
			t.Errorf("distance %d: got %q, %v", 30+symbol, got, err)
		}
		compare(t, Raw, z)
	}
	for _, head := range []uint64{30, 31} { // HLIT, HDIST
		var w bitWriter
		w.put(5, 3)
		w.put(head, 5)
		w.put(head, 5)
		z := append(w.bytes(), make([]byte, 40)...)
		if _, err := decode(Raw, z); err != ErrCorrupt {
			t.Errorf("%d symbols more: %v", head, err)
		}
		compare(t, Raw, z)
	}
	for _, z := range []string{"\x07", "\x01\x05\x00\xfb\xff", "\x01\x05\x00\xfa\xffhello", "\x01\x05\x00\xfa\xffhell",
		"\x01\x05\x00\xfb\xffhello"} {
		compare(t, Raw, []byte(z))
	}
}

// randomCode returns the widths of a complete code of up to n symbols. It splits leaves until there are
// enough.
func randomCode(rng *rand.Rand, symbols, n int, skew float64) []uint8 {
	leaves := []uint8{1, 1}
	for range 20 * n {
		if len(leaves) == n {
			break
		}
		i := int(float64(len(leaves)) * min(1, rng.Float64()*skew))
		if i = min(i, len(leaves)-1); leaves[i] < maxWidth {
			leaves[i]++
			leaves = append(leaves, leaves[i])
		}
	}
	list := make([]uint8, symbols)
	for i, at := range rng.Perm(symbols)[:len(leaves)] {
		list[at] = leaves[i]
	}
	return list
}

// TestRandomBlocks: blocks of random codes followed by random bits, decoded at once and in pieces.
func TestRandomBlocks(t *testing.T) {
	rng := newRand(t)
	for range 400 {
		var w bitWriter
		for range 200 {
			w.put(0, 3) // some history: stored blocks
			w.put(0, (8-w.n)%8)
			w.put(0xfffe0001, 32)
			w.put(rng.Uint64()&0xff, 8)
			if rng.IntN(50) == 0 {
				break
			}
		}
		literals := randomCode(rng, 257+rng.IntN(30), 2+rng.IntN(255), rng.Float64()*2)
		distances := randomCode(rng, 2+rng.IntN(29), 2, rng.Float64()*2)
		if n := len(distances); n > 2 {
			distances = randomCode(rng, n, 2+rng.IntN(n-1), rng.Float64()*2)
		}
		w.dynamic(true, literals, distances)
		for range rng.IntN(500) {
			w.put(rng.Uint64()&0xff, 8)
		}
		z := w.bytes()
		got := compare(t, Raw, z)
		_, err := decode(Raw, z)
		step := 1 + rng.IntN(500)
		again, err2 := decodeBy(t, Raw, z, step)
		if !bytes.Equal(got, again) || err != err2 {
			t.Fatalf("%x: at once %d bytes, %v; by %d: %d, %v", z, len(got), err, step, len(again), err2)
		}
	}
}
