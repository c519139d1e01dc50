package warc

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"strconv"

	"github.com/klauspost/compress/flate"
)

// member ends the header in e.text and appends the record, whose block is a followed by b, to p as one gzip
// member or Zstandard frame. With stored, b is not compressed.
func (e *Encoder) member(p *Prepared, contentType *fragment, a, b []byte, stored bool) {
	if e.blockDigest || contentType != typeResponse {
		e.sha.Reset()
		e.sha.Write(a)
		e.sha.Write(b)
		e.field(fieldBlock)
		e.text = e.appendDigest(e.text)
	}
	e.endHeader(contentType, int64(len(a)+len(b)))
	e.text = append(e.text, a...)
	if e.zst != nil {
		e.frame(p, b, stored)
		return
	}
	if !stored && len(b) <= smallBody {
		e.text = append(e.text, b...)
		b = nil
	}
	if len(b) == 0 {
		e.field(emptyLine) // end of the record
	}
	p.buf = append(p.buf, memberMagic...)
	used, packed := uint(0), false
	if e.level == LevelFast || e.level <= headLevels && (len(b) == 0 || stored) {
		used, packed = e.pack(p)
	}
	if !packed && e.level == LevelFast {
		p.buf, used = e.deflate.Blocks(p.buf, 0, e.text, len(b) == 0)
		packed = true
	}
	if packed {
		e.body(p, used, b, stored)
	} else {
		e.compress(p, b, stored)
	}
	sum, size := crc32.ChecksumIEEE(e.text), len(e.text)
	if len(b) > 0 {
		sum = crc32.Update(sum, crc32.IEEETable, b)
		sum = crc32.Update(sum, crc32.IEEETable, recordEndBytes)
		size += len(b) + len(recordEnd)
	}
	p.buf = binary.LittleEndian.AppendUint32(p.buf, sum)
	p.buf = binary.LittleEndian.AppendUint32(p.buf, uint32(size))
}

// endHeader ends the header of a record whose block has the given length.
func (e *Encoder) endHeader(contentType *fragment, length int64) {
	e.field(contentType)
	e.text = strconv.AppendInt(e.text, length, 10)
	e.field(emptyLine)
}

// recordEnd follows the block of a record.
const recordEnd = "\r\n\r\n"

var recordEndBytes = []byte(recordEnd)

// pack appends the text in the code of heads. It returns the number of bits used of the last byte, or 0 if
// the byte is complete. If a byte of the text has no code, it does nothing and returns false.
func (e *Encoder) pack(p *Prepared) (used uint, ok bool) {
	room := len(e.text)*mostLength/8 + packSlack
	p.buf = slices.Grow(p.buf, room)
	w := packer{buf: p.buf[:cap(p.buf)], at: len(p.buf)}
	at := 0
	for _, m := range e.marks {
		w.text(e.text[at:m.at])
		w.fragment(m.f)
		at = m.at + len(m.f.text)
	}
	w.text(e.text[at:])
	if w.seen&noCode != 0 {
		return 0, false
	}
	w.end()
	used = w.n
	w.align()
	p.buf = w.buf[:w.at]
	return used, true
}

// packSlack is the size of a block's table and of what packer needs after its bits. storedBytes is the size
// of a stored block's header.
const (
	packSlack   = 64
	storedBytes = 5
)

// body appends b, if it is not empty, and the end of the record, either compressed or in stored blocks. used
// is the number of bits used of the last byte.
func (e *Encoder) body(p *Prepared, used uint, b []byte, stored bool) {
	if len(b) == 0 {
		return
	}
	room := packSlack
	if stored {
		room += len(b) + storedBytes*(2+len(b)/maxStored) + len(recordEnd)
	} else {
		p.buf, used = e.deflate.Blocks(p.buf, used, b, false)
	}
	p.buf = slices.Grow(p.buf, room)
	w := packer{buf: p.buf[:cap(p.buf)], at: len(p.buf)}
	if used > 0 {
		w.at--
		w.acc, w.n = uint64(w.buf[w.at]), used
	}
	if !stored {
		w.bits(recordEndBlock, recordEndBits)
		w.align()
		p.buf = w.buf[:w.at]
		return
	}
	w.bits(0, 3) // start of the stored block
	w.align()
	p.buf = appendStored(w.buf[:w.at-1], w.buf[w.at-1], b)
}

// recordEndBlock is recordEnd as the last deflate block, with fixed codes (RFC 1951, 3.2.6): the header, the
// codes of CR, LF, CR, LF, and the end of the block.
const (
	recordEndBlock = 0b011 | 0x5cbc5cbc<<3
	recordEndBits  = 3 + 4*8 + 7
)

// compress appends the text compressed, and b either compressed or in stored blocks.
func (e *Encoder) compress(p *Prepared, b []byte, stored bool) {
	e.out.b = p.buf
	e.resetFlate(&e.out)
	e.flate.Write(e.text) // memory does not fail
	if stored {
		e.flate.Flush() // align to a byte
		e.out.b = appendStored(e.out.b, 0, b)
	} else {
		e.flate.Write(b)
		if len(b) > 0 {
			e.flate.Write(recordEndBytes)
		}
		e.flate.Close()
	}
	p.buf, e.out.b = e.out.b, nil
}

// resetFlate begins a deflate stream to w. That of LevelFast, only for large bodies, has level 1.
func (e *Encoder) resetFlate(w io.Writer) {
	if e.flate != nil {
		e.flate.Reset(w)
		return
	}
	level := e.level
	if level == LevelFast {
		level = 1
	}
	var err error
	if e.flate, err = flate.NewWriter(w, level); err != nil {
		panic("BUG: warc: " + err.Error())
	}
}

// appendStored appends b in stored deflate blocks, and the end of the record in a last one. first is the
// byte in which the first block begins, with the bits that precede it.
func appendStored(dst []byte, first byte, b []byte) []byte {
	for len(b) > 0 {
		n := min(len(b), maxStored)
		dst = append(dst, first, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		dst = append(dst, b[:n]...)
		b, first = b[n:], 0
	}
	const n = byte(len(recordEnd))
	dst = append(dst, 1, n, 0, ^n, 0xff)
	return append(dst, recordEnd...)
}

// memory is an io.Writer that appends to a slice.
type memory struct{ b []byte }

func (m *memory) Write(p []byte) (int, error) {
	m.b = append(m.b, p...)
	return len(p), nil
}
