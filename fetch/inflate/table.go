package inflate

import "math/bits"

// A table is looked up with the next bits of the stream, the first bit lowest. Codes of up to the root's width are found
// at once, each in all places whose low bits are the code; the place of a longer code's beginning leads to a second table
// behind the first, looked up with the bits that follow. An entry is
//
//	bit  31      a literal
//	bits 16..30  the literal, or the least length or distance of the code, or where the second table begins
//	bit  15      neither literal nor match: one of the next two, or else a code that doesn't exist
//	bit  14      a second table
//	bit  13      the end of the block
//	bits 8..12   width of the code (in a second table: less the root's), or width of the second table
//	bits 0..5    the same and the extra bits of length or distance: all there is to take; of a link, the root's width
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

// Sizes of the tables, powers of two so that a mask is all the check an index needs. A second table of 2^w entries has codes
// w bits longer than the root, so w+1 codes at least: with 286 symbols and w <= 5 second tables take at most 286/6*32 = 1525
// entries, with 30 and w <= 7 at most 30/8*128 = 480. 10 bits find all but some percent of HTML's symbols, and are
// filled in half the time of 11.
const (
	literalRoot, literalEntries   = 10, 4096 // 1024 + 1525
	distanceRoot, distanceEntries = 8, 1024  // 256 + 480
	lengthRoot, lengthEntries     = 7, 128   // of the code of code lengths, whose own are at most 7
)

const (
	maxLiterals  = 286 // symbols 286 and 287 have places in the fixed code and mean nothing
	maxDistances = 30  // as have distances 30 and 31
	maxWidth     = 15
)

// tables are those of one block.
type tables struct {
	literals  [literalEntries]uint32 // literals, lengths and the end
	distances [distanceEntries]uint32
}

// What the symbols mean, less the widths of their codes.
var (
	literalSymbols  = newLiteralSymbols()
	distanceSymbols = newDistanceSymbols()
	lengthSymbols   = newLengthSymbols()
)

// newLiteralSymbols: section 3.2.5 of RFC 1951. Lengths come in groups of four with an extra bit more each; 258 has a
// symbol of its own.
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

// build fills a table with the code in which symbol i has lens[i] bits, 0 for none. Each symbol costs a few instructions
// and the table is doubled by copying, so a block of few symbols costs no more than the copying of its tables. It tells
// whether that is a code: complete, of a single symbol with one bit, or empty.
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
	if left > 0 { // the half that no code begins with
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

// buildSecond goes on with the codes of more than root bits, of which the first is code.
func buildSecond(table []uint32, root, code, most int, count [maxWidth + 1]int, next []uint16, symbols []uint32) {
	prefix, begin, end, width := -1, 0, 1<<root, 0
	for n := root + 1; n <= most; n++ {
		for ; count[n] > 0; count[n]-- {
			if code&(1<<root-1) != prefix {
				prefix, begin, width = code&(1<<root-1), end, n-root
				for free := 1<<width - count[n]; free > 0; { // longer codes begin alike
					width++
					free = free<<1 - count[root+width]
				}
				end += 1 << width
				table[prefix] = uint32(begin)<<valueShift | isSpecial | isLink | uint32(width)<<widthShift | uint32(root)
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

// successor returns the code of n bits behind code, both with their first bit lowest: the highest clear bit is set and
// those above it cleared. Behind the last one, which is all ones, it returns 0.
func successor(code, n int) int {
	bit := 1 << bits.Len(uint(code^(1<<n-1))) >> 1
	return code&(bit-1) | bit
}

func fill(table []uint32, e uint32) {
	for i := range table {
		table[i] = e
	}
}
