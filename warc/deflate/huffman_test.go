package deflate

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
)

// member returns src as a gzip member.
func member(e *Encoder, src []byte) []byte {
	z := e.Append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}, src)
	z = binary.LittleEndian.AppendUint32(z, crc32.ChecksumIEEE(src))
	return binary.LittleEndian.AppendUint32(z, uint32(len(src)))
}

// TestLengths: codes are complete, within the limit, and without a limit as short as Huffman's.
func TestLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var b builder
	for round := range 3000 {
		freq := make([]uint32, 2+rng.IntN(literalSymbols-1))
		limit := []int{maxRunCode, maxLiteralCode, maxDistanceCode}[rng.IntN(3)]
		if limit == maxRunCode {
			freq = freq[:min(len(freq), runSymbols)]
		}
		sum := uint64(0)
		for i := range freq {
			if rng.IntN(3) > 0 {
				freq[i] = uint32(rng.Uint64N(1 << rng.Uint64N(15)))
				if round%3 == 0 && i < 22 {
					freq[i] = 1 << i % (1 << 17)
				}
			}
			sum += uint64(freq[i])
		}
		lengths := make([]uint8, len(freq))
		used, size := b.lengths(lengths, freq, limit)
		kraft, codes, total, longest := 0, 0, 0, uint8(0)
		for i, l := range lengths {
			if l > 0 {
				kraft += 1 << (limit - int(l))
				codes++
			}
			if l == 0 && freq[i] > 0 || int(l) > limit || l > 0 && i >= used {
				t.Fatalf("symbol %d of frequency %d has length %d, used %d", i, freq[i], l, used)
			}
			total += int(l) * int(freq[i])
			longest = max(longest, l)
		}
		if kraft != 1<<limit || codes < 2 || total != size {
			t.Fatalf("kraft %d/%d, %d codes, size %d, want %d: %v", kraft, 1<<limit, codes, size, total, lengths)
		}
		if want := huffman(freq); int(longest) < limit && codes > 2 && total != want {
			t.Fatalf("size %d, want %d", total, want)
		}
	}
}

// huffman returns the size of the best code: the sum of the weights of all inner nodes.
func huffman(freq []uint32) (size int) {
	var nodes []int
	for _, f := range freq {
		if f > 0 {
			nodes = append(nodes, int(f))
		}
	}
	for len(nodes) > 1 {
		slices.Sort(nodes)
		nodes[1] += nodes[0]
		nodes = nodes[1:]
		size += nodes[0]
	}
	return size
}
