package drum

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The coding of texts in a log. Links of a page begin alike, and their records end alike. So a record has the bytes
// that its text does not share with the text before it in the block:
//
//	uvarint  0: the text is left out. Else 1 plus p
//	uvarint  q
//	uvarint  m
//	m        bytes
//
// The text is the first p bytes of the text before it, these m bytes, and the last q bytes of the text before it. At
// the beginning of a block the text before is empty. A text that is left out does not count as the text before.
//
// A text may be left out if its key has waited before in the same log (recentKeys): of tuples with equal keys only the
// first can be unique, and only unique texts are read.

// maxTextOverhead bounds the bytes of a text record besides those of the text.
const maxTextOverhead = 3 * binary.MaxVarintLen32

// leftOut is the record of a text that is left out.
const leftOut = 0

// appendText appends the record of a text that follows prev.
func appendText(dst, prev, text []byte) []byte {
	p := sharedPrefix(prev, text)
	q := sharedSuffix(prev[p:], text[p:])
	if p|q|len(text) < 1<<7-1 { // a byte each
		dst = append(dst, byte(p+1), byte(q), byte(len(text)-p-q))
	} else {
		dst = binary.AppendUvarint(dst, uint64(p+1))
		dst = binary.AppendUvarint(dst, uint64(q))
		dst = binary.AppendUvarint(dst, uint64(len(text)-p-q))
	}
	return append(dst, text[p:len(text)-q]...)
}

// sharedPrefix returns the length of the longest common prefix.
func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)>>3
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// sharedSuffix returns the length of the longest common suffix.
func sharedSuffix(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[len(a)-n:], b[len(b)-n:]
	i := n
	for ; i >= 8; i -= 8 {
		if x := binary.LittleEndian.Uint64(a[i-8:]) ^ binary.LittleEndian.Uint64(b[i-8:]); x != 0 {
			return n - i + bits.LeadingZeros64(x)>>3
		}
	}
	for i > 0 && a[i-1] == b[i-1] {
		i--
	}
	return n - i
}

// textDecoder decodes the records of a block in order.
type textDecoder struct {
	prev, spare []byte // the last text that was not left out; memory for the next
}

// start begins a block.
func (d *textDecoder) start() { d.prev = d.prev[:0] }

// next decodes the record at the start of b. It returns the text, valid until the following call, or nil if it is
// left out, and the record's length, or 0 if there is none.
func (d *textDecoder) next(b []byte) (text []byte, n int) {
	if len(b) > 0 && b[0] == leftOut {
		return nil, 1
	}
	var p, q, m uint64
	if len(b) >= 3 && b[0]|b[1]|b[2] < 1<<7 {
		p, q, m, n = uint64(b[0]), uint64(b[1]), uint64(b[2]), 3
	} else {
		for _, v := range []*uint64{&p, &q, &m} {
			x, k := binary.Uvarint(b[n:])
			if k <= 0 {
				return nil, 0
			}
			*v, n = x, n+k
		}
	}
	p--
	if have := uint64(len(d.prev)); p > have || q > have-p || m > uint64(len(b)-n) {
		return nil, 0
	}
	end := n + int(m)
	text = append(append(append(d.spare[:0], d.prev[:p]...), b[n:end]...), d.prev[len(d.prev)-int(q):]...)
	if text == nil {
		text = []byte{}
	}
	d.prev, d.spare = text, d.prev
	return text[:len(text):len(text)], end
}

// blockTexts reads the texts of a block of a log.
type blockTexts struct {
	kind blockKind
	b    []byte // the rest of the block
	dec  *textDecoder
}

func newBlockTexts(kind blockKind, payload []byte, dec *textDecoder) blockTexts {
	dec.start()
	return blockTexts{kind: kind, b: payload, dec: dec}
}

// next returns the next text, valid until the following call, or nil if it is left out. ok is false if there is no
// whole record.
func (r *blockTexts) next() (text []byte, ok bool) {
	n := 0
	if r.kind == plainBlocks {
		text, n = parseAux(r.b)
	} else {
		text, n = r.dec.next(r.b)
	}
	r.b = r.b[n:]
	return text, n > 0
}

// shown returns the beginning of the rest, for an error.
func (r *blockTexts) shown() string { return fmt.Sprintf("% x", r.b[:min(len(r.b), 16)]) }
