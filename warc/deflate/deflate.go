package deflate

import "slices"

const (
	// maxBlock is the largest block in bytes of input: what one stored block can hold.
	maxBlock = 1<<16 - 1
	// maxPiece is the number of bytes after which positions begin at 0 again: they have 32 bits. Matches don't
	// cross pieces. It is a multiple of maxBlock, and 16 MiB, so that a test can cross it.
	maxPiece = 256 * maxBlock

	literalSymbols  = 286 // literals, the end of the block, lengths
	fixedSymbols    = 288 // of fixed blocks, which have two symbols without a meaning
	distanceSymbols = 30
	endOfBlock      = 256
	firstLength     = 257

	// maxLiteralCode limits the code lengths of literals and lengths, in bits. It is one less than the format
	// allows.
	maxLiteralCode  = 14
	maxDistanceCode = 15
)

// Encoder compresses buffers. The zero value is ready. It holds 305 KiB and allocates nothing besides the
// output. The output depends only on the input. An Encoder belongs to one goroutine at a time.
type Encoder struct {
	heads [1 << hashBits]uint32 // by hash: position of the last text with this hash

	// Of the current block: its tokens as halves, and how often each symbol occurs. lengths counts by
	// length - minLength; match adds it to literals.
	tokens    [maxBlock + 2]uint32
	count     int
	literals  [literalSymbols]uint32
	lengths   [256]uint32
	distances [distanceSymbols + 2]uint32

	build         builder
	literalBits   [fixedSymbols]uint8
	distanceBits  [distanceSymbols]uint8
	literalCodes  [fixedSymbols]uint32
	distanceCodes [distanceSymbols]uint32
	table         table
	codes         [1 << indexBits]uint64
}

// Append appends src to dst as one deflate stream.
func (e *Encoder) Append(dst, src []byte) []byte {
	dst, _ = e.Blocks(dst, 0, src, true)
	return dst
}

// Blocks appends src to dst as deflate blocks. With final, the last of them ends the stream. used is the
// number of bits of dst's last byte that belong to earlier blocks: 1 to 7, or 0 if the byte is complete.
// Blocks returns the new dst and used.
func (e *Encoder) Blocks(dst []byte, used uint, src []byte, final bool) ([]byte, uint) {
	w := bitWriter{buf: dst[:cap(dst)], at: len(dst)}
	if used > 0 {
		w.at--
		w.acc, w.n = uint64(dst[w.at]), used
	}
	for {
		piece := src[:min(len(src), maxPiece)]
		src = src[len(piece):]
		e.piece(&w, piece, final && len(src) == 0)
		if len(src) == 0 {
			break
		}
	}
	if w.n > 0 {
		w.at++ // bits has already written it
	}
	return w.buf[:w.at], w.n
}

// piece writes the blocks of src.
func (e *Encoder) piece(w *bitWriter, src []byte, final bool) {
	clear(e.heads[:])
	for from := 0; ; from += maxBlock {
		to := min(from+maxBlock, len(src))
		e.match(src, from, to)
		w.buf = slices.Grow(w.buf[:w.at], to-from+blockSlack)
		w.buf = w.buf[:cap(w.buf)]
		e.block(w, src[from:to], final && to == len(src))
		if to == len(src) {
			return
		}
	}
}

// fixedBelow is the number of halves of tokens below which fixed codes may be the smaller ones.
const fixedBelow = 1 << 10

// block writes the current block, whose text is src, in the smallest form.
func (e *Encoder) block(w *bitWriter, src []byte, final bool) {
	literals, literalSize := e.build.lengths(e.literalBits[:literalSymbols], e.literals[:], maxLiteralCode)
	distances, distanceSize := e.build.lengths(e.distanceBits[:], e.distances[:distanceSymbols], maxDistanceCode)
	literals = max(literals, firstLength)
	extra := e.extraBits()
	dynamic := extra + literalSize + distanceSize +
		e.table.plan(&e.build, e.literalBits[:literals], e.distanceBits[:distances])
	fixed := dynamic + 1
	if e.count < fixedBelow {
		fixed = extra + e.fixedSize()
	}
	kind := typeDynamic
	if fixed < dynamic {
		kind = typeFixed
	}
	const storedHeader = 7 + 32 // with the bits to fill a byte
	if storedHeader+8*len(src) <= min(fixed, dynamic) {
		kind = typeStored
	}
	head := uint64(kind) << 1
	if final {
		head |= 1
	}
	w.bits(head, 3)
	switch kind {
	case typeStored:
		w.stored(src)
		return
	case typeFixed:
		e.literalBits, e.distanceBits = fixedLiterals, fixedDistances
		setCodes(e.literalCodes[:], e.literalBits[:])
	case typeDynamic:
		e.table.write(w, literals, distances)
		setCodes(e.literalCodes[:], e.literalBits[:literalSymbols])
	}
	setCodes(e.distanceCodes[:], e.distanceBits[:])
	e.setHalves()
	w.tokens(&e.codes, e.tokens[:e.count])
	w.code(e.literalCodes[endOfBlock])
}

// extraBits returns the number of bits in the block besides codes.
func (e *Encoder) extraBits() int {
	n := 0
	for i, x := range lengthExtra {
		n += int(e.literals[firstLength+i]) * int(x)
	}
	for i, x := range distanceExtra {
		n += int(e.distances[i]) * int(x)
	}
	return n
}

// fixedSize returns the size of the block's codes in a fixed block.
func (e *Encoder) fixedSize() int {
	n := 0
	for i, f := range e.literals {
		n += int(f) * int(fixedLiterals[i])
	}
	for i, f := range e.distances[:distanceSymbols] {
		n += int(f) * int(fixedDistances[i])
	}
	return n
}

// Code lengths of fixed blocks (RFC 1951, 3.2.6).
var fixedLiterals, fixedDistances = func() (l [fixedSymbols]uint8, d [distanceSymbols]uint8) {
	for i := range l {
		switch {
		case i < 144, i >= 280:
			l[i] = 8
		case i < 256:
			l[i] = 9
		default:
			l[i] = 7
		}
	}
	for i := range d {
		d[i] = 5
	}
	return l, d
}()
