package deflate

import "encoding/binary"

// Types of blocks (RFC 1951, 3.2.3).
const (
	typeStored  = 0
	typeFixed   = 1
	typeDynamic = 2
)

// blockSlack is the most that a block takes beyond its input, and the bytes that bitWriter overwrites.
const blockSlack = 32

// bitWriter writes bits, lowest first, into buf, which must have room for them and 8 bytes more.
type bitWriter struct {
	buf []byte
	at  int    // number of bytes written
	acc uint64 // bits of an incomplete byte
	n   uint   // number of these bits, below 8
}

// bits writes the n lowest bits of v, at most 56; the higher bits must be 0.
func (w *bitWriter) bits(v uint64, n uint) {
	w.acc |= v << (w.n & 63)
	w.n += n
	binary.LittleEndian.PutUint64(w.buf[w.at:], w.acc)
	w.at += int(w.n >> 3)
	w.acc >>= w.n & 56
	w.n &= 7
}

// code writes a code: its length is in the low 8 bits, its bits in the order of output are above.
func (w *bitWriter) code(c uint32) { w.bits(uint64(c>>8), uint(c&0xff)) }

// stored writes the content of a stored block.
func (w *bitWriter) stored(src []byte) {
	if w.n > 0 {
		w.bits(0, 8-w.n)
	}
	n := uint64(len(src))
	w.bits(n|(^n&0xffff)<<16, 32)
	w.at += copy(w.buf[w.at:], src)
}

// setHalves sets the codes of all halves of tokens. Of an entry, the low 8 bits are the number of bits to
// write; the next 8 are the number of those before the extra bits of a distance; from bit 32 on there is the
// code, with the extra bits if it is a length.
func (e *Encoder) setHalves() {
	for i, c := range e.literalCodes[:256] {
		e.codes[i] = uint64(c>>8)<<32 | uint64(c&0xff)
	}
	for i, s := range lengthSymbols {
		c := e.literalCodes[firstLength+int(s)]
		n := c & 0xff
		code := c>>8 | uint32(uint8(i)-lengthBase[s])<<n
		e.codes[lengthIndex+i] = uint64(code)<<32 | uint64(n+uint32(lengthExtra[s]))
	}
	for i, c := range e.distanceCodes {
		n := uint64(c & 0xff)
		e.codes[distIndex+i] = uint64(c>>8)<<32 | n<<8 | (n + uint64(distanceExtra[i]))
	}
}

// tokens writes tokens. One has at most maxLiteralCode + 5 + maxDistanceCode + 13 = 47 bits, which fit into
// acc with an incomplete byte. The upper bits of n are not 0 within a round; they have no effect.
func (w *bitWriter) tokens(codes *[1 << indexBits]uint64, halves []uint32) {
	acc, n, at, buf := w.acc, w.n, w.at, w.buf
	for i := 1; i < len(halves); i += 2 {
		x := codes[halves[i-1]&(1<<indexBits-1)]
		acc |= x >> 32 << (n & 63)
		n += uint(x)
		h := uint64(halves[i])
		x = codes[h&(1<<indexBits-1)]
		acc |= (h>>16<<(x>>8&63) | x>>32) << (n & 63)
		n += uint(x)
		binary.LittleEndian.PutUint64(buf[at:at+8:at+8], acc)
		at += int(n >> 3 & 7)
		acc >>= n & 56
		n &= 7
	}
	w.acc, w.n, w.at = acc, n, at
}
