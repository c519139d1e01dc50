package state

import (
	"encoding/binary"

	"drumbeat/drum"
	"drumbeat/internal/simhash"
)

// NearDuplicates says how a crawl treats pages whose text is nearly that of another page of their host. The zero value
// means that it does not look for them.
type NearDuplicates struct {
	// KeepOne keeps one page of each group; the others are copies.
	KeepOne bool
	// Bits is the largest distance of the simhashes of near-duplicates, 0 to MaxNearBits.
	Bits int
	// Whole stores copies as they are. Otherwise their records have no body.
	Whole bool
}

// NearBits is the distance of near-duplicates of Manku, Jain and Das Sarma (Detecting Near-Duplicates for Web Crawling,
// WWW 2007).
const NearBits = 3

// MaxNearBits is the largest distance that is accepted. At 7 bits 6 % of a text differs; more is another text.
const MaxNearBits = 7

// NearEntry is a page that is kept, as the store of contents lists it for its host
// (docs/reference/files/content.md).
type NearEntry struct {
	Simhash  uint64
	URL      uint32   // the lower half of the URL's key
	Body     drum.Key // of its last body
	Features uint16   // their number modulo 2^16
	Counts   simhash.Counts
}

// NearEntryBytes is the size of an entry.
const NearEntryBytes = 8 + 4 + 8 + 2 + len(simhash.Counts{})

// NearListHead is the size of what precedes the entries of a list: zeros in place of digest and date.
const NearListHead = contentHead

// Append appends the encoding of e: little-endian, in the order of the fields.
func (e *NearEntry) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, e.Simhash)
	dst = binary.LittleEndian.AppendUint32(dst, e.URL)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Body))
	dst = binary.LittleEndian.AppendUint16(dst, e.Features)
	return append(dst, e.Counts[:]...)
}

// NearEntryOf decodes the entry at the beginning of b, which has at least NearEntryBytes.
func NearEntryOf(b []byte) NearEntry {
	return NearEntry{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]),
		drum.Key(binary.LittleEndian.Uint64(b[12:])), binary.LittleEndian.Uint16(b[20:]), simhash.Counts(b[22:])}
}

// NearKeysOf decodes the simhash and the URL of such an entry, by which a list is searched.
func NearKeysOf(b []byte) (hash uint64, url uint32) {
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
}

// NearList returns the entries of a list of near-duplicates, the latest last; ok is false if the value, in the store of
// contents or of a tuple for it, is that of a body, whose date is not 0.
func NearList(value []byte) (entries []byte, ok bool) {
	if len(value) < NearListHead || [NearListHead]byte(value) != ([NearListHead]byte{}) {
		return nil, false
	}
	entries = value[NearListHead:]
	return entries, len(entries)%NearEntryBytes == 0
}

// OfNearList reports whether a value is that of a list of near-duplicates.
func OfNearList(value []byte) bool {
	_, ok := NearList(value)
	return ok
}
