package drum

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// A bucket file is a sequence of blocks, each at a multiple of 4096 bytes, with zeros between them. A block
// holds whole records. Integers are little-endian in all files.
//
//	offset size field     meaning
//	0      4    magic     "dBKT"
//	4      2    version   1
//	6      1    kind      1 keys, 2 aux, 3 text log with plain texts (not written any more), 4 text log
//	7      1    codec     of the payload: 0 none, 1 an s2 block
//	8      4    bucket    number of the bucket
//	12     4    records   in this block
//	16     8    generation  of the file, as in its name
//	24     8    base      with a text log: number in the log of the block's first record
//	32     4    stored    payload bytes on disk
//	36     4    raw       payload bytes after decoding
//	40     8    checksum  xxhash64 of bytes [0, 40)
//	48     n    payload   n = stored
//	48+n   8    checksum  xxhash64 of bytes [0, 48+n)
//
// A record in a block of keys:
//
//	8    key
//	1    operation: 1 check, 2 update, 3 check+update; absent in stores with Options.Op and no values
//	1-5  length of the value, uvarint; absent in stores without values
//	n    value
//
// A record in a block of aux is its length (uvarint) and its bytes, and so is one in a log with plain texts. The i-th
// record of the aux file belongs to the i-th record of the keys file. textcode.go describes a record in a text log.
//
// A buffers file is a disk.Header (kind "drmB", version 1, number = generation, place = directory), then
// frames, each at a multiple of 4096 bytes, with zeros between them.
//
//	offset size field     meaning
//	0      4    magic     "dBUF"
//	4      2    version   1
//	6      2    zero
//	8      8    generation  of the file, as in its name
//	16     4    length    payload bytes, n
//	20     4    zero
//	24     8    checksum  xxhash64 of bytes [0, 24)
//	32     n    payload   entries
//	32+n   8    checksum  xxhash64 of bytes [0, 32+n)
//
// An entry:
//
//	0      8    filling   number of the filling of a buffer
//	8      4    bucket    number of the bucket; for a text log, of the directory
//	12     1    kind      as in a block
//	13     3    zero
//	16     8    base      of the filling, as in a block header
//	24     4    from      bytes of the filling in earlier entries
//	28     4    length    n
//	32     n    records   whole ones, as in a block
//
// A cache file is a disk.Header (kind "drmZ", version 1, number = generation, place = directory), then
// parts, each at a multiple of 4096 bytes. A part is the blocks of one bucket's entries in key order. The
// state in the manifest has the bounds of the parts.
//
//	offset size field     meaning
//	0      4    magic     "dCHE"
//	4      2    version   1
//	6      1    codec     of the keys: 1 raw, 2 Rice
//	7      1    parameter bits of a Rice remainder; 0 if raw
//	8      4    bucket    number of the bucket
//	12     4    keys      entries in this block, > 0
//	16     8    first     lowest key
//	24     4    payload   bytes
//	28     4    values    bytes of each value; 0xffffffff: variable
//	32     8    checksum  xxhash64 of bytes [0, 32)
//	40     n    payload   keys, then lengths (4 bytes each) if values are variable, then values
//	40+n   8    checksum  xxhash64 of bytes [0, 40+n)
//
// Raw keys take 8 bytes each. Rice codes all keys but the first, which is in the header, as d = key -
// previous key - 1. First come the low `parameter` bits of each d, packed from the lowest bit of each byte on
// and padded to a whole byte. Then come, for each d, d >> parameter zero bits and a one bit, packed likewise.

const (
	pageBytes     = 4096
	formatVersion = 1
	checksumBytes = 8

	bucketMagic       = "dBKT"
	bucketHeaderBytes = 48
	bucketFrameBytes  = bucketHeaderBytes + checksumBytes

	buffersMagic     = "dBUF"
	buffersKind      = "drmB"
	frameHeaderBytes = 32
	entryHeaderBytes = 32

	cacheMagic       = "dCHE"
	cacheKind        = "drmZ"
	uniqueKind       = "drmU"
	cacheHeaderBytes = 40
	cacheFrameBytes  = cacheHeaderBytes + checksumBytes
	variableLength   = 1<<32 - 1

	// keyRecordOverhead bounds the size of a key record without its value.
	keyRecordOverhead = 8 + 1 + binary.MaxVarintLen32

	// A block of the cache ends at blockKeys keys (64 KiB raw) or at blockValueBytes bytes of values.
	blockKeys       = 8192
	blockValueBytes = 64 << 10
)

// Codecs of a payload.
const (
	codecNone = 0
	codecS2   = 1
	// maxRawBytes bounds the decoded size of a block.
	maxRawBytes = 1 << 30
)

// blockKind is the kind of a stream.
type blockKind uint8

const (
	keyBlocks   blockKind = 1
	auxBlocks   blockKind = 2
	plainBlocks blockKind = 3 // a text log that an older version of the program began
	logBlocks   blockKind = 4
)

// isLog reports whether blocks of this kind hold the texts of a log.
func (k blockKind) isLog() bool { return k >= plainBlocks }

// String returns the prefix of the file's name.
func (k blockKind) String() string {
	switch k {
	case keyBlocks:
		return "keys"
	case auxBlocks:
		return "aux"
	}
	return "text"
}

// bucketHeader is the decoded header of a block of a bucket file.
type bucketHeader struct {
	kind        blockKind
	codec       uint8
	bucket      uint32
	records     uint32
	gen, base   uint64
	stored, raw uint32
}

// put writes h to the first bucketHeaderBytes of b.
func (h *bucketHeader) put(b []byte) {
	le := binary.LittleEndian
	copy(b, bucketMagic)
	le.PutUint16(b[4:], formatVersion)
	b[6], b[7] = byte(h.kind), h.codec
	le.PutUint32(b[8:], h.bucket)
	le.PutUint32(b[12:], h.records)
	le.PutUint64(b[16:], h.gen)
	le.PutUint64(b[24:], h.base)
	le.PutUint32(b[32:], h.stored)
	le.PutUint32(b[36:], h.raw)
	le.PutUint64(b[40:], xxhash.Sum64(b[:40]))
}

// parse decodes b, the header of the block at off of a file.
func (h *bucketHeader) parse(b []byte, path string, off int64) error {
	if err := checkHead(b[:bucketHeaderBytes], bucketMagic, path, off); err != nil {
		return err
	}
	le := binary.LittleEndian
	*h = bucketHeader{
		kind: blockKind(b[6]), codec: b[7], bucket: le.Uint32(b[8:]), records: le.Uint32(b[12:]),
		gen: le.Uint64(b[16:]), base: le.Uint64(b[24:]), stored: le.Uint32(b[32:]), raw: le.Uint32(b[36:]),
	}
	if h.codec > codecS2 || h.codec == codecNone && h.raw != h.stored || h.raw > maxRawBytes {
		return corrupt(path, off+7, "codec 0 or 1", fmt.Sprintf("%d, %d bytes from %d", h.codec, h.raw, h.stored))
	}
	return nil
}

// checkHead verifies magic, version and checksum of a header. The checksum is the last field of b.
func checkHead(b []byte, magic, path string, off int64) error {
	if string(b[:4]) != magic {
		return corrupt(path, off, fmt.Sprintf("magic %q", magic), fmt.Sprintf("%q", b[:4]))
	}
	n := len(b) - checksumBytes
	if err := checkSum(b[:n], b[n:], path, off); err != nil {
		return err
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != formatVersion {
		return corrupt(path, off+4, fmt.Sprintf("version %d", formatVersion), fmt.Sprint(v))
	}
	return nil
}

// checkSum compares the xxhash64 of b with sum. The error gives the offset of the checksum.
func checkSum(b, sum []byte, path string, off int64) error {
	want, got := binary.LittleEndian.Uint64(sum), xxhash.Sum64(b)
	if want != got {
		return corrupt(path, off+int64(len(b)), fmt.Sprintf("checksum %016x", want), fmt.Sprintf("%016x", got))
	}
	return nil
}

func corrupt(path string, off int64, want, got string) error {
	return &disk.CorruptError{Path: path, Offset: off, Want: want, Got: got}
}

// putFrame writes the header of a frame whose payload is in place.
func putFrame(b []byte, gen uint64) {
	le := binary.LittleEndian
	copy(b, buffersMagic)
	le.PutUint16(b[4:], formatVersion)
	le.PutUint16(b[6:], 0)
	le.PutUint64(b[8:], gen)
	le.PutUint32(b[16:], uint32(len(b)-frameHeaderBytes))
	le.PutUint32(b[20:], 0)
	le.PutUint64(b[24:], xxhash.Sum64(b[:24]))
}

// frameLength returns the payload length in a frame header.
func frameLength(b []byte) int { return int(binary.LittleEndian.Uint32(b[16:])) }

// parseFrame verifies b, the header of the frame at off, and returns the payload's length.
func parseFrame(b []byte, gen uint64, path string, off int64) (int, error) {
	if err := checkHead(b[:frameHeaderBytes], buffersMagic, path, off); err != nil {
		return 0, err
	}
	if got := binary.LittleEndian.Uint64(b[8:]); got != gen {
		return 0, corrupt(path, off+8, fmt.Sprintf("generation %d", gen), fmt.Sprint(got))
	}
	return frameLength(b), nil
}

// append appends the entry to a frame.
func (e *bufferEntry) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, e.fill)
	dst = le.AppendUint32(dst, uint32(e.bucket))
	dst = append(dst, byte(e.kind), 0, 0, 0)
	dst = le.AppendUint64(dst, e.base)
	dst = le.AppendUint32(dst, uint32(e.from))
	dst = le.AppendUint32(dst, uint32(len(e.bytes)))
	return append(dst, e.bytes...)
}

// parse decodes the entry at the start of b and returns its length, or 0 if there is none.
func (e *bufferEntry) parse(b []byte) int {
	if len(b) < entryHeaderBytes {
		return 0
	}
	le := binary.LittleEndian
	*e = bufferEntry{
		fill: le.Uint64(b), bucket: int(le.Uint32(b[8:])), kind: blockKind(b[12]), base: le.Uint64(b[16:]),
		from: int(le.Uint32(b[24:])),
	}
	n := uint64(le.Uint32(b[28:]))
	if n > uint64(len(b)-entryHeaderBytes) || e.kind < keyBlocks || e.kind > logBlocks {
		return 0
	}
	e.bytes = b[entryHeaderBytes : entryHeaderBytes+n]
	return entryHeaderBytes + int(n)
}

// entryHead returns the filling and the length of the entry with header b.
func entryHead(b []byte) (fill uint64, length int64) {
	return binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint32(b[28:]))
}

// cacheHeader is the decoded header of a block of the cache.
type cacheHeader struct {
	codec   Codec
	param   uint8
	bucket  uint32
	keys    uint32
	first   uint64
	payload uint32
	values  uint32
}

// put writes h to the first cacheHeaderBytes of b.
func (h *cacheHeader) put(b []byte) {
	le := binary.LittleEndian
	copy(b, cacheMagic)
	le.PutUint16(b[4:], formatVersion)
	b[6], b[7] = byte(h.codec), h.param
	le.PutUint32(b[8:], h.bucket)
	le.PutUint32(b[12:], h.keys)
	le.PutUint64(b[16:], h.first)
	le.PutUint32(b[24:], h.payload)
	le.PutUint32(b[28:], h.values)
	le.PutUint64(b[32:], xxhash.Sum64(b[:32]))
}

// parse decodes b, the header of the block at off of a file.
func (h *cacheHeader) parse(b []byte, path string, off int64) error {
	if err := checkHead(b[:cacheHeaderBytes], cacheMagic, path, off); err != nil {
		return err
	}
	le := binary.LittleEndian
	*h = cacheHeader{
		codec: Codec(b[6]), param: b[7], bucket: le.Uint32(b[8:]), keys: le.Uint32(b[12:]),
		first: le.Uint64(b[16:]), payload: le.Uint32(b[24:]), values: le.Uint32(b[28:]),
	}
	if h.codec != Raw && h.codec != Rice || h.param > 63 {
		return corrupt(path, off+6, "codec 1 or 2", fmt.Sprintf("%d with parameter %d", h.codec, h.param))
	}
	if h.keys == 0 || h.keys > blockKeys {
		return corrupt(path, off+12, fmt.Sprintf("1 to %d keys", blockKeys), fmt.Sprint(h.keys))
	}
	return nil
}

// pageUp rounds n up to whole pages.
func pageUp[T int | int64](n T) T { return (n + pageBytes - 1) &^ (pageBytes - 1) }
