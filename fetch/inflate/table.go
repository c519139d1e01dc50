package inflate

import "math/bits"

// A table is indexed by the next bits of the stream, first bit lowest. A code no wider than the root is in
// every entry whose low bits equal it. The root entry for the beginning of a longer code points to a second
// table, stored after the first and indexed by the bits that follow. An entry consists of
//
//	bit  31      a literal
//	bits 16..30  the literal, the base length or distance, or the index of the second table
//	bit  15      neither a literal nor a match: one of the next two, or an invalid code
//	bit  14      a second table
//	bit  13      the end of the block
//	bits 8..12   width of the code (in a second table without the root's), or of the second table
//	bits 0..5    bits to consume: that width and the extra bits; in a link, the root's width
const (
	isLiteral  = 1 << 31
	isSpecial  = 1 << 15
	isLink     = 1 << 14
	isEnd      = 1 << 13
	valueShift = 16
	widthShift = 8
	widthMask  = 31
	takeMask   = 63
)

// The sizes of the tables are powers of two, so a mask is the only check that an index needs. A second table
// of 2^w entries has codes up to w bits longer than the root, so at least w+1 codes. With 286 symbols and w
// <= 5, second tables take at most 286/6*32 = 1525 entries; with 30 symbols and w <= 7, at most 30/8*128 =
// 480. 10 bits resolve all but a few percent of HTML's symbols, and such a table is built in half the time
// of one with 11.
const (
	literalRoot, literalEntries   = 10, 4096 // 1024 + 1525
	distanceRoot, distanceEntries = 8, 1024  // 256 + 480
	lengthRoot, lengthEntries     = 7, 128   // of the code length code, whose codes have at most 7 bits
)

const (
	maxLiterals  = 286 // symbols 286 and 287 occur only in the fixed code and are invalid
	maxDistances = 30  // likewise distances 30 and 31
	maxWidth     = 15
)

// tables are the two tables of one block.
type tables struct {
	literals  [literalEntries]uint32 // literals, lengths and the end of the block
	distances [distanceEntries]uint32
}

// The entries of the symbols without the widths of their codes.
var (
	literalSymbols  = newLiteralSymbols()
	distanceSymbols = newDistanceSymbols()
	lengthSymbols   = newLengthSymbols()
)

// newLiteralSymbols follows RFC 1951, 3.2.5. Lengths come in groups of four with one more extra bit each;
// 258 has its own symbol.
func newLiteralSymbols() (s [288]uint32) {
	for i := range 256 {
		s[i] = isLiteral | uint32(i)<<valueShift
	}
	s[256] = isSpecial | isEnd
	length := uint32(3)
	for i := range uint32(28) {
		extra := max(i, 4)/4 - 1
		s[257+i] = length<<valueShift | extra
		length += 1 << extra
	}
	s[285] = 258 << valueShift
	s[286], s[287] = isSpecial, isSpecial
	return s
}

func newDistanceSymbols() (s [32]uint32) {
	distance := uint32(1)
	for i := range uint32(maxDistances) {
		extra := max(i, 2)/2 - 1
		s[i] = distance<<valueShift | extra
		distance += 1 << extra
	}
	s[30], s[31] = isSpecial, isSpecial
	return s
}

func newLengthSymbols() (s [19]uint32) {
	for i := range s {
		s[i] = uint32(i) << valueShift
	}
	return s
}

// build fills a table for the code in which symbol i has lens[i] bits, 0 meaning that it does not occur.
// Each symbol costs a few instructions, and doubling copies the table, so a block with few symbols costs
// little more than the copies. build reports whether the code is valid: complete, or a single symbol with
// one bit, or empty.
func build(table []uint32, root int, lens []uint8, symbols []uint32) bool {
	var count, at [maxWidth + 1]int
	for _, n := range lens {
		count[n&maxWidth]++
	}
	count[0] = 0
	left, least, most := 1, 0, 0
	for n := 1; n <= maxWidth; n++ {
		at[n] = at[n-1] + count[n-1]
		if left = left<<1 - count[n]; left < 0 {
			return false
		}
		if count[n] > 0 {
			if most = n; least == 0 {
				least = n
			}
		}
	}
	if least == 0 {
		fill(table[:1<<root], isSpecial)
		return true
	}
	if left > 0 && (most > 1 || count[1] > 1) {
		return false
	}
	var sorted [320]uint16 // symbols by width
	for i, n := range lens {
		if n != 0 {
			sorted[at[n&maxWidth]] = uint16(i)
			at[n&maxWidth]++
		}
	}
	next := sorted[:]
	least = min(least, root)
	if left > 0 { // no code begins with this bit
		table[1] = isSpecial
	}
	code := 0
	for n := least; n <= root; n++ {
		for _, s := range next[:count[n]] {
			table[code] = symbols[s] + uint32(n)<<widthShift + uint32(n)
			code = successor(code, n)
		}
		next = next[count[n]:]
		if n < root {
			copy(table[1<<n:2<<n], table[:1<<n])
		}
	}
	if most > root {
		buildSecond(table, root, code, most, count, next, symbols)
	}
	return true
}

// buildSecond adds the codes with more than root bits, the first of which is code.
func buildSecond(table []uint32, root, code, most int, count [maxWidth + 1]int, next []uint16, symbols []uint32) {
	prefix, begin, end, width := -1, 0, 1<<root, 0
	for n := root + 1; n <= most; n++ {
		for ; count[n] > 0; count[n]-- {
			if code&(1<<root-1) != prefix {
				prefix, begin, width = code&(1<<root-1), end, n-root
				for free := 1<<width - count[n]; free > 0; { // longer codes share the prefix
					width++
					free = free<<1 - count[root+width]
				}
				end += 1 << width
				table[prefix] = uint32(begin)<<valueShift | isSpecial | isLink |
					uint32(width)<<widthShift | uint32(root)
			}
			e := symbols[next[0]] + uint32(n-root)<<widthShift + uint32(n-root)
			next = next[1:]
			for i := code >> root; i < 1<<width; i += 1 << (n - root) {
				table[begin+i] = e
			}
			code = successor(code, n)
		}
	}
}

// successor returns the code of n bits after code, both with their first bit lowest: it sets the highest
// clear bit and clears those above it. After the last code, all ones, it returns 0.
func successor(code, n int) int {
	bit := 1 << bits.Len(uint(code^(1<<n-1))) >> 1
	return code&(bit-1) | bit
}

func fill(table []uint32, e uint32) {
	for i := range table {
		table[i] = e
	}
}
