package parse

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Attributes whose values the scanner needs.
const (
	attrHref = iota
	attrSrc
	attrRel
	attrName
	attrContent
	attrHTTPEquiv
	attrXLink
	attrEncoding
	attrCharset
	attrFontLook // color, face or size, which make <font> end foreign content
	numAttrs
)

// attributes locates the attributes of a tag.
type attributes struct {
	body  []byte
	has   uint16 // bit n: attribute n is present
	plain uint16 // bit n: its value is known to have no special byte
	ascii uint16 // bit n: plain, and all bytes are ASCII
	at    [numAttrs]span
	self  bool // the tag ends in "/>"
	wide  bool // use quoteWide
}

// span locates the name and the value (start to end) of an attribute.
type span struct{ key, start, end int }

// have reports whether the attribute is present.
func (a *attributes) have(slot int) bool { return a.has&(1<<slot) != 0 }

// value returns the raw value of an attribute, which must be present.
func (a *attributes) value(slot int) []byte {
	at := &a.at[slot]
	return a.body[at.start:at.end:at.end]
}

// read is skipTag that also records attributes. Of attributes with the same name the first counts.
func (a *attributes) read(b []byte, i int) int {
	a.body, a.has, a.plain, a.ascii = b, 0, 0, 0
	bare := -1 // end of the last unquoted value
	for {
		for i < len(b) && (byteClass[b[i]]&isSpace != 0 || b[i] == '/') {
			i++
		}
		if i >= len(b) {
			return -1
		}
		if b[i] == '>' {
			a.self = b[i-1] == '/' && bare != i
			return i + 1
		}
		key := i
		var slot int
		slot, i = attributeName(b, i)
		wanted := slot >= 0 && !a.have(slot)
		if wanted && a.wide && i+1 < len(b) && b[i] == '=' && b[i+1] == '"' {
			if i = a.quoted(b, key, i+2, slot); i < 0 {
				return -1
			}
			continue
		}
		start, end, next := valueSpan(b, i)
		if next < 0 {
			return -1
		}
		if wanted {
			a.has |= 1 << slot
			a.at[slot] = span{key, start, end}
		}
		if end == next {
			bare = end
		}
		i = next
	}
}

// quoted records the value that starts at i, after its quotation mark. It returns the index after the
// closing one, or -1.
func (a *attributes) quoted(b []byte, key, i, slot int) int {
	end, special, high := quoteWide(b, i)
	for ; ; end++ { // the remaining bytes near the end of the body
		if end >= len(b) {
			return -1
		}
		if b[end] == '"' {
			break
		}
		special |= uint32(byteClass[b[end]] & isSpecial)
		high |= uint32(b[end] & utf8.RuneSelf)
	}
	bit := uint16(1) << slot
	a.has |= bit
	a.at[slot] = span{key, i, end}
	if special == 0 {
		a.plain |= bit
		if high == 0 {
			a.ascii |= bit
		}
	}
	return end + 1
}

// Attribute names as loaded into an 8-byte word.
const (
	wordSrc     = 's' | 'r'<<8 | 'c'<<16
	wordRel     = 'r' | 'e'<<8 | 'l'<<16
	wordHref    = 'h' | 'r'<<8 | 'e'<<16 | 'f'<<24
	wordName    = 'n' | 'a'<<8 | 'm'<<16 | 'e'<<24
	wordFace    = 'f' | 'a'<<8 | 'c'<<16 | 'e'<<24
	wordSize    = 's' | 'i'<<8 | 'z'<<16 | 'e'<<24
	wordColor   = 'c' | 'o'<<8 | 'l'<<16 | 'o'<<24 | 'r'<<32
	wordContent = 'c' | 'o'<<8 | 'n'<<16 | 't'<<24 | 'e'<<32 | 'n'<<40 | 't'<<48
	wordCharset = 'c' | 'h'<<8 | 'a'<<16 | 'r'<<24 | 's'<<32 | 'e'<<40 | 't'<<48
)

// attributeName returns which attribute the name at i is, or -1, and the end of the name.
func attributeName(b []byte, i int) (slot, end int) {
	if i+8 <= len(b) {
		word := binary.LittleEndian.Uint64(b[i:])
		// All letters have this bit, and no byte that ends a name has it.
		n := bits.TrailingZeros64(^word&0x4040404040404040) / 8
		if n > 0 && n < 8 && b[i+n] == '=' {
			switch (word | 0x2020202020202020) & (1<<(8*n) - 1) {
			case wordHref:
				slot = attrHref
			case wordSrc:
				slot = attrSrc
			case wordRel:
				slot = attrRel
			case wordName:
				slot = attrName
			case wordContent:
				slot = attrContent
			case wordCharset:
				slot = attrCharset
			case wordColor, wordFace, wordSize:
				slot = attrFontLook
			default:
				slot = -1
			}
			return slot, i + n
		}
	}
	// The first byte belongs to the name even if it is '='.
	end = nameEnd(b, i+1, endsKey)
	return attributeSlot(b[i:end]), end
}

// attributeSlot returns which attribute has the name, or -1.
func attributeSlot(name []byte) int {
	switch len(name) {
	case 3:
		if isFold(name, "src") {
			return attrSrc
		} else if isFold(name, "rel") {
			return attrRel
		}
	case 4:
		if isFold(name, "href") {
			return attrHref
		} else if isFold(name, "name") {
			return attrName
		} else if isFold(name, "face") || isFold(name, "size") {
			return attrFontLook
		}
	case 5:
		if isFold(name, "color") {
			return attrFontLook
		}
	case 7:
		if isFold(name, "content") {
			return attrContent
		} else if isFold(name, "charset") {
			return attrCharset
		}
	case 8:
		if isFold(name, "encoding") {
			return attrEncoding
		}
	case 10:
		if isFold(name, "http-equiv") {
			return attrHTTPEquiv
		} else if isFold(name, "xlink:href") {
			return attrXLink
		}
	}
	return -1
}
