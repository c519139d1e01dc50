package queue

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/s2"

	"drumbeat/disk"
)

// Integers are little-endian.
//
// A segment file is a header of disk.HeaderBytes (kind "queu", version 2, number = segment number, place =
// directory), then blocks. A block starts where the previous one ends; or, if a checkpoint came between, at
// the next multiple of 4096, after zeros.
//
//	offset size field       meaning
//	0      4    magic       "QBLK"
//	4      4    sequence    number of the block in its segment, from 0
//	8      4    rawBytes    length of the records before compression
//	12     4    storedBytes length of the payload
//	16     4    records     number of records, at least 1
//	20     4    codec       0 = the records as they are, 1 = an s2 block of them, 2 = differences
//	24     8    checksum    xxhash64 of bytes [0, 24) and the payload
//	32     …    payload
//
// A record, in a block or a tail, is its length (uvarint) and its bytes. Records follow one another without
// gaps.
//
// All numbers in a payload of codec 2 are uvarints. The payload starts with the lengths of the four parts
// of D. Chunks follow that together form an s2 block of D. A chunk of at most 128 KiB is either 2·length
// and its bytes, or 2·length+1, its coded length and its Huffman-coded bytes (RFC 8878, section 4.2: a
// table, then four streams). D is the middles of all records, then three lists with one number per record:
// the length of the prefix that it shares with the previous record, the length of the suffix that the rest
// shares, and the length of the middle between them.

const (
	// MaxRecord is the maximum length of a record in bytes.
	MaxRecord = 1 << 20

	segmentKind    = "queu"
	segmentVersion = 2

	blockMagic       = "QBLK"
	blockHeaderBytes = 32
	sumOffset        = 24
	// alignBytes is the write unit of disks and file systems. A unit that a manifest names is never
	// rewritten.
	alignBytes = 4096
	// maxRawBytes bounds the memory that a reader allocates for a block.
	maxRawBytes = maxBlockBytes + MaxRecord + binary.MaxVarintLen32

	codecRaw   = 0
	codecS2    = 1
	codecDelta = 2
)

// blockHeader is a decoded block header.
type blockHeader struct {
	sequence, raw, stored, records, codec uint32
	sum                                   uint64
}

func alignUp(off int64) int64 { return (off + alignBytes - 1) &^ (alignBytes - 1) }

// appendRecord appends one record to a block's raw bytes.
func appendRecord(dst, rec []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(rec))), rec...)
}

// recordBytes returns the number of bytes that a record of length n takes in a block.
func recordBytes(n int) int {
	size := n + 1
	for n >= 0x80 {
		n >>= 7
		size++
	}
	return size
}

// nextRecord returns the first record of raw and its number of bytes there. size = 0 means that raw is
// damaged.
func nextRecord(raw []byte) (rec []byte, size int) {
	n, w := binary.Uvarint(raw)
	if w <= 0 || n > uint64(len(raw)-w) {
		return nil, 0
	}
	size = w + int(n)
	return raw[w:size:size], size
}

// encodedBlock holds the header fields of a block, except its position.
type encodedBlock struct{ raw, records, codec uint32 }

// encodeBlock appends the block of raw to dst, compressed if that makes it shorter. The header stays empty
// until finish.
func encodeBlock(dst, raw []byte, records uint32, c *coder) ([]byte, encodedBlock) {
	b := encodedBlock{raw: uint32(len(raw)), records: records, codec: codecDelta}
	need := blockHeaderBytes + s2.MaxEncodedLen(len(raw))
	if cap(dst)-len(dst) < need {
		dst = append(make([]byte, 0, len(dst)+need), dst...)
	}
	payload := len(dst) + blockHeaderBytes
	if out, ok := c.encode(dst[:payload], raw); ok {
		return out, b
	}
	room := dst[payload:cap(dst)]
	b.codec = codecS2
	stored := len(s2.Encode(room, raw))
	if stored >= len(raw) {
		b.codec, stored = codecRaw, copy(room, raw)
	}
	return dst[:payload+stored], b
}

// finish writes the header of an encoded block. p is the whole block.
func (b encodedBlock) finish(p []byte, sequence uint32) {
	h := p[:blockHeaderBytes]
	copy(h, blockMagic)
	binary.LittleEndian.PutUint32(h[4:], sequence)
	binary.LittleEndian.PutUint32(h[8:], b.raw)
	binary.LittleEndian.PutUint32(h[12:], uint32(len(p)-blockHeaderBytes))
	binary.LittleEndian.PutUint32(h[16:], b.records)
	binary.LittleEndian.PutUint32(h[20:], b.codec)
	binary.LittleEndian.PutUint64(h[sumOffset:], blockSum(h, p[blockHeaderBytes:]))
}

func blockSum(header, payload []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.Write(header[:sumOffset])
	d.Write(payload)
	return d.Sum64()
}

// isGap reports whether a block header consists of zeros, as after a checkpoint.
func isGap(header []byte) bool {
	for _, b := range header {
		if b != 0 {
			return false
		}
	}
	return true
}

// parseBlockHeader decodes a block header and checks everything that does not need the payload.
func parseBlockHeader(b []byte, path string, off int64, sequence uint32) (blockHeader, error) {
	h := blockHeader{
		sequence: binary.LittleEndian.Uint32(b[4:]),
		raw:      binary.LittleEndian.Uint32(b[8:]),
		stored:   binary.LittleEndian.Uint32(b[12:]),
		records:  binary.LittleEndian.Uint32(b[16:]),
		codec:    binary.LittleEndian.Uint32(b[20:]),
		sum:      binary.LittleEndian.Uint64(b[sumOffset:]),
	}
	corrupt := func(want, got string) error {
		return &disk.CorruptError{Path: path, Offset: off, Want: want, Got: got}
	}
	switch {
	case string(b[:4]) != blockMagic:
		return h, corrupt(fmt.Sprintf("block magic %q", blockMagic), fmt.Sprintf("%q", b[:4]))
	case h.sequence != sequence:
		return h, corrupt(fmt.Sprintf("block %d", sequence), fmt.Sprintf("block %d", h.sequence))
	case h.raw == 0 || h.raw > maxRawBytes || h.stored > h.raw || h.records == 0 || h.records > h.raw:
		return h, corrupt("valid lengths", fmt.Sprintf("raw %d, stored %d, records %d", h.raw, h.stored, h.records))
	case h.codec > codecDelta || h.codec == codecRaw && h.raw != h.stored:
		return h, corrupt("a known codec", fmt.Sprintf("%d (raw %d, stored %d)", h.codec, h.raw, h.stored))
	}
	return h, nil
}

// decodeBlock verifies the payload and returns its records: in dst, or the payload itself if it is not
// compressed.
func decodeBlock(dst, header, payload []byte, h blockHeader, at blockPlace, c *coder) ([]byte, error) {
	if sum := blockSum(header, payload); sum != h.sum {
		return nil, at.corrupt(fmt.Sprintf("xxhash64 %016x", h.sum), fmt.Sprintf("%016x", sum))
	}
	if h.codec == codecRaw {
		return payload, nil
	}
	if cap(dst) < int(h.raw) {
		dst = make([]byte, 0, h.raw)
	}
	var err error
	if h.codec == codecDelta {
		dst, err = c.decode(dst[:0], payload, h)
	} else {
		dst, err = decodeS2(dst, payload, h)
	}
	if err != nil {
		return nil, at.corrupt(fmt.Sprintf("a block of %d bytes by codec %d", h.raw, h.codec), err.Error())
	}
	return dst, nil
}

func decodeS2(dst, payload []byte, h blockHeader) ([]byte, error) {
	n, err := s2.DecodedLen(payload)
	if err == nil && n != int(h.raw) {
		err = fmt.Errorf("%d bytes", n)
	}
	if err != nil {
		return dst, err
	}
	return s2.Decode(dst[:cap(dst)], payload)
}

// blockPlace is the position of a block, for errors.
type blockPlace struct {
	path string
	off  int64
}

func (p blockPlace) corrupt(want, got string) error {
	return &disk.CorruptError{Path: p.path, Offset: p.off, Want: want, Got: got}
}
