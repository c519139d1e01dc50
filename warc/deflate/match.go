package deflate

import (
	"encoding/binary"
	"math/bits"
)

const (
	hashBits = 13 // heads then fill less than the first-level cache
	window   = 1 << 15
	maxMatch = 258
	// leastMatch is the shortest match that the search takes. The format's shortest is minLength. The hash
	// covers 6 bytes, so few matches are shorter: they take a match's time and save little.
	leastMatch = 4
	minLength  = 3
	// margin is the distance in bytes from the end of a block where the search stops, so that its loads stay
	// in the block.
	margin = 24
	// skipLog is how the search speeds up in text without matches: after each 1<<skipLog bytes it skips one
	// more.
	skipLog = 7
)

// A token is two halves of 32 bits: a length and a distance, two literals, or one literal and nothing. The
// low bits of a half are an index in Encoder.codes, and the upper 16 are the extra bits of a distance. With
// pairs of literals, the loop that writes tokens needs no branches.
const (
	indexBits   = 10
	lengthIndex = 256 // of lengths - minLength, after the literals
	distIndex   = 512 // of distance symbols
	nothing     = 544
	loneLiteral = nothing << 32
	extraShift  = 32 + 16
)

// hash returns the hash of the low 6 bytes of v.
func hash(v uint64) uint64 { return v * 0x79b185ebca870000 >> (64 - hashBits) }

// load and load32 read bytes at i. A slice whose length and capacity are constant, and an index that cannot
// overflow, leave one bounds check.
func load(b []byte, i uint32) uint64 {
	at := uint64(i)
	return binary.LittleEndian.Uint64(b[at : at+8 : at+8])
}

func load32(b []byte, i uint32) uint32 {
	at := uint64(i)
	return binary.LittleEndian.Uint32(b[at : at+4 : at+4])
}

// xor compares 8 bytes.
func xor(b []byte, i, j uint32) uint64 { return load(b, i) ^ load(b, j) }

// put sets two halves.
func (e *Encoder) put(n uint32, v uint64) {
	at := uint64(n)
	t := e.tokens[at : at+2 : at+2]
	t[0], t[1] = uint32(v), uint32(v>>32)
}

// literal sets a half to a literal, and the next to nothing, which another literal may replace.
func (e *Encoder) literal(n uint32, b uint8) {
	e.literals[b]++
	e.put(n, uint64(b)|loneLiteral)
}

// probe returns the most recent position with the hash of v, and takes down s in its place.
func (e *Encoder) probe(v uint64, s uint32) uint32 {
	at := &e.heads[hash(v)]
	c := *at
	*at = s
	return c
}

// copies adds the tokens of a match of l bytes at distance d.
func (e *Encoder) copies(n, l, d uint32) uint32 {
	symbol := distanceSymbol(d-1) & 31
	extra := (d - 1) & (1<<(distanceExtra[symbol]&31) - 1)
	copies := uint64(symbol+distIndex)<<32 | uint64(extra)<<extraShift | lengthIndex
	n = (n + 1) &^ 1
	for {
		part := l
		if l > maxMatch {
			part = min(maxMatch, l-leastMatch)
		}
		e.put(n, copies|uint64(part-minLength))
		n += 2
		e.lengths[uint8(part-minLength)]++
		e.distances[symbol]++
		if l -= part; l == 0 {
			break
		}
	}
	return n
}

// finish adds literals and the end of the block.
func (e *Encoder) finish(rest []byte, n uint32) {
	for _, b := range rest {
		e.literal(n, b)
		n++
	}
	e.count = int(n+1) &^ 1
	e.literals[endOfBlock]++
	for i, f := range e.lengths[:] {
		e.literals[firstLength+int(lengthSymbols[i])] += f
	}
}

// match divides src[from:to] into tokens and counts their symbols. At each position it tries the most recent
// text with the same hash, and takes the match if there is one.
//
// Its time is mostly latency: the next position depends on the length of a match, which depends on a chain of
// three loads. Therefore heads has positions and not differences, the first 16 bytes of a match are compared
// without a branch, and the additional entries in heads cost nothing.
func (e *Encoder) match(src []byte, from, to int) {
	clear(e.literals[:])
	clear(e.lengths[:])
	clear(e.distances[:])
	src = src[:to]
	n, s, end := uint32(0), uint32(from), uint32(to)
search:
	for start := s; s+margin <= end; start = s {
		var c uint32
		for {
			// One load serves three positions.
			v := load(src, s)
			c = e.probe(v, s)
			if uint32(v) == load32(src, c) && s-c-1 < window {
				break
			}
			e.literal(n, uint8(v))
			n++
			s++
			v >>= 8
			c = e.probe(v, s)
			if uint32(v) == load32(src, c) && s-c-1 < window {
				break
			}
			e.literal(n, uint8(v))
			n++
			s++
			v >>= 8
			c = e.probe(v, s)
			if uint32(v) == load32(src, c) && s-c-1 < window {
				break
			}
			e.literal(n, uint8(v))
			n++
			s++
			for range (s - start) >> skipLog {
				if s+margin > end {
					break
				}
				e.literal(n, src[s])
				n++
				s++
			}
			if s+margin > end {
				break search
			}
		}
		d := s - c
		// Adding 64 to a length of 64 bits without a branch: (x-1)&^x is negative only if x is 0.
		x, y := xor(src, s+4, c+4), xor(src, s+12, c+12)
		k := bits.TrailingZeros64(x) + bits.TrailingZeros64(y)&int(int64((x-1)&^x)>>63)
		l := leastMatch + uint32(k)>>3
		if k == 128 {
			l = extend(src, s, c, l)
		}
		v := load(src, s+1)
		e.heads[hash(v)] = s + 1
		e.heads[hash(v>>8)] = s + 2
		s += l
		n = e.copies(n, l, d)
		if s+margin <= end {
			v = load(src, s-2)
			e.heads[hash(v)] = s - 2
			e.heads[hash(v>>8)] = s - 1
		}
	}
	e.finish(src[s:], n)
}

// extend returns the length of the match of src[s:] with src[c:], of which l bytes are known to match.
func extend(src []byte, s, c, l uint32) uint32 {
	end := uint32(len(src))
	for s+l+8 <= end {
		if x := xor(src, s+l, c+l); x != 0 {
			return l + uint32(bits.TrailingZeros64(x))>>3
		}
		l += 8
	}
	for s+l < end && src[s+l] == src[c+l] {
		l++
	}
	return l
}

// distanceSymbol returns the symbol of a distance, given minus 1 (RFC 1951, 3.2.5).
func distanceSymbol(d uint32) uint32 {
	if d < 4 {
		return d
	}
	n := uint32(bits.Len32(d))
	return 2*n - 2 + d>>((n-2)&31)&1
}

// lengthExtra and distanceExtra are the numbers of extra bits of the symbols. lengthSymbols has the symbols
// by length - minLength, and lengthBase the least of those of each symbol. Distances need no bases: minus 1
// they are multiples of a power of two, so the extra bits are the lowest bits of the distance.
var (
	lengthExtra   = [29]uint8{8: 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	distanceExtra = [32]uint8{4: 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}

	lengthSymbols, lengthBase = func() (symbols [256]uint8, base [29]uint8) {
		at := 0
		for i, extra := range lengthExtra[:28] {
			base[i] = uint8(at)
			for range 1 << extra {
				symbols[at] = uint8(i)
				at++
			}
		}
		symbols[255], base[28] = 28, 255 // the longest match has a symbol of its own
		return symbols, base
	}()
)
