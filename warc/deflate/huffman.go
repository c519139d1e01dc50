package deflate

import "math/bits"

const (
	symbolBits = 9 // of a key; the rest is the frequency
	symbolMask = 1<<symbolBits - 1
	maxCode    = 15 // longest code of the format, in bits
)

// builder makes Huffman codes of limited length.
type builder struct {
	keys, spare [literalSymbols]uint32 // frequency<<symbolBits | symbol
	nodes       [literalSymbols]uint32
	counts      [256]uint32
}

// lengths sets the code length of each symbol from its frequency: at most limit bits, and 0 for symbols that
// don't occur. There are at least two codes, of which one may not be used, because some decoders reject an
// incomplete code. It returns the number of symbols up to the last with a code, and the size in bits of all
// occurrences. The sum of the frequencies must be below 2^23.
func (b *builder) lengths(lengths []uint8, frequencies []uint32, limit int) (used, size int) {
	n := 0
	clear(lengths)
	for i, f := range frequencies {
		if f > 0 {
			b.keys[n] = f<<symbolBits | uint32(i)
			n++
			used = i + 1
		}
	}
	if n < 2 {
		used = max(used, 2)
		lengths[used-1], lengths[0] = 1, 1
		return used, int(frequencies[0] + frequencies[used-1]) // one of them is 0
	}
	b.sort(n)
	counts := b.depths(n, limit)
	keys := b.keys[:n]
	for l := limit; l > 0; l-- {
		sum := uint32(0)
		for _, k := range keys[:counts[l]] {
			lengths[k&symbolMask] = uint8(l)
			sum += k >> symbolBits
		}
		keys = keys[counts[l]:]
		size += int(sum) * l
	}
	return used, size
}

// sort sorts the n keys by frequency, a byte at a time. Symbols of the same frequency keep their order.
func (b *builder) sort(n int) {
	keys, spare := b.keys[:n], b.spare[:n]
	all := uint32(0)
	for _, k := range keys {
		all |= k
	}
	for shift := symbolBits; all>>shift > 0; shift += 8 {
		clear(b.counts[:])
		for _, k := range keys {
			b.counts[uint8(k>>shift)]++
		}
		sum := uint32(0)
		for i, c := range b.counts[:] {
			b.counts[i] = sum
			sum += c
		}
		for _, k := range keys {
			at := &b.counts[uint8(k>>shift)]
			spare[*at] = k
			*at++
		}
		keys, spare = spare, keys
	}
	copy(b.keys[:n], keys)
}

// depths returns the number of codes of each length for the n sorted keys. It builds the tree in place
// (Moffat and Katajainen, In-place calculation of minimum-redundancy codes, 1995). An inner node that is too
// deep is put in place of the deepest leaf that may have children. So the code stays complete, and is close
// to the best one.
func (b *builder) depths(n, limit int) (counts [maxCode + 1]uint32) {
	// Up to next, nodes has inner nodes: the index of the parent before root, the weight after it.
	nodes, leaves := b.nodes[:n-1], b.keys[:n]
	leaf, root := 0, 0
	for next := range nodes {
		sum := uint32(0)
		for range 2 {
			if root >= next || leaf < n && leaves[leaf]>>symbolBits <= nodes[root] {
				sum += leaves[leaf] >> symbolBits
				leaf++
			} else {
				sum += nodes[root]
				nodes[root] = uint32(next)
				root++
			}
		}
		nodes[next] = sum
	}
	nodes[n-2] = 0 // from here on the depth
	counts[1] = 2
	for i := n - 3; i >= 0; i-- {
		nodes[i] = nodes[nodes[i]] + 1
		d := min(int(nodes[i]), limit-1)
		for counts[d] == 0 {
			d--
		}
		counts[d]--
		counts[d+1] += 2
	}
	return counts
}

// setCodes sets the codes that belong to code lengths (RFC 1951, 3.2.2), in the form of bitWriter.code.
func setCodes(codes []uint32, lengths []uint8) {
	var next [maxCode + 2]uint32
	for _, l := range lengths {
		next[l+1]++
	}
	next[0], next[1] = 0, 0
	for l := 2; l < len(next); l++ {
		next[l] = (next[l] + next[l-1]) << 1
	}
	codes = codes[:len(lengths)]
	for i, l := range lengths {
		codes[i] = uint32(bits.Reverse16(uint16(next[l]))>>(16-l))<<8 | uint32(l)
		next[l]++
	}
}
