package inflate

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Format is the container of the deflate stream.
type Format uint8

const (
	Raw  Format = iota // none (RFC 1951); bytes after the stream are ignored
	Gzip               // one or more members of RFC 1952 with no bytes after them
)

var (
	// ErrRoom: dst is full. Call Decode again with a larger dst to continue.
	ErrRoom = errors.New("inflate: output buffer is full")
	// ErrCorrupt: the input is not a valid deflate stream.
	ErrCorrupt = errors.New("inflate: corrupt deflate stream")
	// ErrTruncated: the input ends before the stream or its trailer does.
	ErrTruncated = errors.New("inflate: input ends before the stream does")
	// ErrHeader: a gzip member begins with an invalid or unknown header.
	ErrHeader = errors.New("inflate: bad gzip header")
	// ErrChecksum: the member's checksum or length does not match.
	ErrChecksum = errors.New("inflate: gzip checksum or length is wrong")

	errEdge = errors.New("inflate: near an edge")
)

type stage uint8

const (
	atHeader stage = iota
	atBlock
	inStored
	inHuffman
	atTrailer
	atEnd
)

// Decoder decodes one stream at a time. It holds 42 KiB of tables and allocates nothing. Call Reset before
// use. A Decoder belongs to one goroutine at a time.
type Decoder struct {
	src  []byte
	at   int    // index in src of the next byte to load into bits
	bits uint64 // the next bits of the stream, first bit lowest; bits above have are also correct
	have uint   // number of valid bits

	format Format
	stage  stage
	first  bool // the current member is the first
	final  bool // the current block is the last
	err    error
	base   int // index in dst of the member's beginning
	length int // rest of a match or stored block that did not fit
	dist   int // distance of that match
	tables *tables

	dynamic, fixed tables
	fixedBuilt     bool
	lengths        [lengthEntries]uint32
	lens           [maxLiterals + maxDistances]uint8
}

// Reset prepares d to decode src, which d references until the next Reset. A nil src releases it.
func (d *Decoder) Reset(format Format, src []byte) {
	d.src, d.at, d.bits, d.have = src, 0, 0, 0
	d.format, d.stage, d.first, d.final, d.err = format, atBlock, true, false, nil
	d.base, d.length, d.dist = -1, 0, 0
	if format == Gzip {
		d.stage = atHeader
	}
}

// Decode appends decoded bytes to dst, up to its capacity and to a length of limit, and returns it. The
// error is nil at the end of the stream. After ErrRoom, call it again with the same bytes in a larger dst.
// Any other error is final; dst then holds everything decoded before the fault. Decode may overwrite the
// bytes between the returned length and limit.
func (d *Decoder) Decode(dst []byte, limit int) ([]byte, error) {
	if d.err != nil {
		return dst, d.err
	}
	if d.base < 0 {
		d.base = len(dst)
	}
	out, op := dst[:cap(dst)], len(dst)
	room := max(min(limit, len(out)), op)
	var err error
	for err == nil && d.stage != atEnd {
		switch d.stage {
		case atHeader:
			d.base = op
			err = d.header()
		case atBlock:
			err = d.block()
		case inStored:
			op, err = d.stored(out[:room], op)
		case inHuffman:
			op, err = d.huffman(out, op, room)
		case atTrailer:
			err = d.trailer(out[d.base:op])
		}
	}
	if err != ErrRoom {
		d.err = err
	}
	return out[:op], err
}

// SizeHint returns the decoded size that the last 4 bytes of gzip src claim, capped at 1032 times len(src),
// the highest ratio of deflate. The claim is true if there is a single, honest member.
func SizeHint(src []byte) int {
	if len(src) < 18 {
		return 0
	}
	return int(min(uint64(binary.LittleEndian.Uint32(src[len(src)-4:])), 1032*uint64(len(src))))
}

// refill loads bytes until bits holds at least 56 bits or the input is used up.
func (d *Decoder) refill() {
	if d.at+8 <= len(d.src) {
		d.bits |= binary.LittleEndian.Uint64(d.src[d.at:]) << (d.have & 63)
		d.at += int((63 - d.have) >> 3)
		d.have |= 56
		return
	}
	for d.have < 56 && d.at < len(d.src) {
		d.bits |= uint64(d.src[d.at]) << (d.have & 63)
		d.at++
		d.have += 8
	}
}

// take returns the next n bits, which must be available.
func (d *Decoder) take(n uint) uint {
	v := uint(d.bits & (1<<n - 1))
	d.bits >>= n
	d.have -= n
	return v
}

// align drops the rest of the current byte and returns loaded bytes to the input.
func (d *Decoder) align() {
	d.at -= int(d.have >> 3)
	d.bits, d.have = 0, 0
}

// block reads the header of a block.
func (d *Decoder) block() error {
	if d.final {
		d.align()
		if d.stage = atEnd; d.format == Gzip {
			d.stage = atTrailer
		}
		return nil
	}
	if d.refill(); d.have < 3 {
		return ErrTruncated
	}
	d.final = d.take(1) == 1
	switch d.take(2) {
	case 0:
		d.align()
		p := d.src[d.at:]
		if len(p) < 4 {
			return ErrTruncated
		}
		n := binary.LittleEndian.Uint16(p)
		if n != ^binary.LittleEndian.Uint16(p[2:]) {
			return ErrCorrupt
		}
		d.at += 4
		d.length, d.stage = int(n), inStored
		return nil
	case 1:
		d.useFixed()
	case 2:
		if err := d.readTables(); err != nil {
			return err
		}
	default:
		return ErrCorrupt
	}
	d.stage = inHuffman
	return nil
}

// stored copies bytes of a stored block.
func (d *Decoder) stored(out []byte, op int) (int, error) {
	n := copy(out[op:], d.src[d.at:min(len(d.src), d.at+d.length)])
	d.at += n
	d.length -= n
	switch {
	case d.length == 0:
		d.stage = atBlock
	case d.at == len(d.src):
		return op + n, ErrTruncated
	default:
		return op + n, ErrRoom
	}
	return op + n, nil
}

// useFixed selects the fixed code of RFC 1951, 3.2.6.
func (d *Decoder) useFixed() {
	d.tables = &d.fixed
	if d.fixedBuilt {
		return
	}
	var lens [288]uint8
	for i := range lens {
		switch {
		case i < 144, i >= 280:
			lens[i] = 8
		case i < 256:
			lens[i] = 9
		default:
			lens[i] = 7
		}
	}
	build(d.fixed.literals[:], literalRoot, lens[:], literalSymbols[:])
	for i := range 32 {
		lens[i] = 5
	}
	build(d.fixed.distances[:], distanceRoot, lens[:32], distanceSymbols[:])
	d.fixedBuilt = true
}

// lengthOrder is the order of code lengths in RFC 1951, 3.2.7.
var lengthOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// readTables reads the codes of a dynamic block (RFC 1951, 3.2.7).
func (d *Decoder) readTables() error {
	if d.refill(); d.have < 14 {
		return ErrTruncated
	}
	literals, distances, n := int(d.take(5))+257, int(d.take(5))+1, int(d.take(4))+4
	if literals > maxLiterals || distances > maxDistances {
		return ErrCorrupt
	}
	var lens [19]uint8
	for _, s := range lengthOrder[:n] {
		if d.have < 3 {
			if d.refill(); d.have < 3 {
				return ErrTruncated
			}
		}
		lens[s] = uint8(d.take(3))
	}
	if !build(d.lengths[:], lengthRoot, lens[:], lengthSymbols[:]) {
		return ErrCorrupt
	}
	if err := d.readLens(d.lens[:literals+distances]); err != nil {
		return err
	}
	if !build(d.dynamic.literals[:], literalRoot, d.lens[:literals], literalSymbols[:]) ||
		!build(d.dynamic.distances[:], distanceRoot, d.lens[literals:literals+distances], distanceSymbols[:]) {
		return ErrCorrupt
	}
	d.tables = &d.dynamic
	return nil
}

// readLens reads the code lengths, which are themselves Huffman-coded.
func (d *Decoder) readLens(lens []uint8) error {
	for i := 0; i < len(lens); {
		if d.have < 14 {
			d.refill()
		}
		e := d.lengths[d.bits&(lengthEntries-1)]
		n := uint(e & takeMask)
		if e&isSpecial != 0 {
			return ErrCorrupt
		}
		if n > d.have {
			return ErrTruncated
		}
		d.take(n)
		symbol := uint8(e >> valueShift)
		if symbol < 16 {
			lens[i] = symbol
			i++
			continue
		}
		value, extra, repeat := uint8(0), uint(7), 11
		switch symbol {
		case 16:
			if i == 0 {
				return ErrCorrupt
			}
			value, extra, repeat = lens[i-1], 2, 3
		case 17:
			extra, repeat = 3, 3
		}
		if extra > d.have {
			return ErrTruncated
		}
		repeat += int(d.take(extra))
		if repeat > len(lens)-i {
			return ErrCorrupt
		}
		for range repeat {
			lens[i] = value
			i++
		}
	}
	return nil
}

const (
	flagHeaderChecksum = 1 << 1
	flagExtra          = 1 << 2
	flagName           = 1 << 3
	flagComment        = 1 << 4
	flagsReserved      = 0xe0
	// maxName bounds names and comments in a header, terminating zero included, as in Go's library.
	maxName = 512
)

// header reads the header of a gzip member. If the input ends before a further member, the stream is
// complete.
func (d *Decoder) header() error {
	p := d.src[d.at:]
	if len(p) == 0 && !d.first {
		d.stage = atEnd
		return nil
	}
	if len(p) < 10 {
		return ErrTruncated
	}
	if p[0] != 0x1f || p[1] != 0x8b || p[2] != 8 || p[3]&flagsReserved != 0 {
		return ErrHeader
	}
	flags, n := p[3], 10
	if flags&flagExtra != 0 {
		if len(p) < n+2 {
			return ErrTruncated
		}
		if n += 2 + int(binary.LittleEndian.Uint16(p[n:])); len(p) < n {
			return ErrTruncated
		}
	}
	for _, flag := range [...]byte{flagName, flagComment} {
		if flags&flag == 0 {
			continue
		}
		begin := n
		for {
			if n-begin == maxName {
				return ErrHeader
			}
			if n == len(p) {
				return ErrTruncated
			}
			if n++; p[n-1] == 0 {
				break
			}
		}
	}
	if flags&flagHeaderChecksum != 0 {
		if len(p) < n+2 {
			return ErrTruncated
		}
		if binary.LittleEndian.Uint16(p[n:]) != uint16(crc32.ChecksumIEEE(p[:n])) {
			return ErrHeader
		}
		n += 2
	}
	d.at += n
	d.stage, d.final = atBlock, false
	return nil
}

// trailer compares a member with its checksum and length.
func (d *Decoder) trailer(member []byte) error {
	p := d.src[d.at:]
	if len(p) < 8 {
		return ErrTruncated
	}
	if binary.LittleEndian.Uint32(p) != crc32.ChecksumIEEE(member) ||
		binary.LittleEndian.Uint32(p[4:]) != uint32(len(member)) {
		return ErrChecksum
	}
	d.at += 8
	d.stage, d.first = atHeader, false
	return nil
}
