package linktrace

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/drum"
)

// A trace is a header of package disk (kind "ltrc", version 1, number and place 0), followed by blocks.
// Integers are little-endian.
//
//	offset size field       meaning
//	0      4    keys        n, 1 to 8192
//	4      4    generation  from 1; rises at a gap of the order
//	8      8    first       number of keys in all blocks before
//	16     8n   keys        in order
//	16+8n  8    checksum    xxhash64 of bytes [0, 16+8n)
const (
	traceKind    = "ltrc"
	traceVersion = 1

	blockHead = 16
	blockSum  = 8
	blockKeys = 8192
	// maxGeneration is an upper bound that losses do not reach.
	maxGeneration = 1 << 30
	maxBlock      = blockHead + 8*blockKeys + blockSum
)

func traceHeader() disk.Header { return disk.Header{Kind: traceKind, Version: traceVersion} }

// head is the head of a block.
type head struct {
	keys, generation uint32
	first            uint64
}

func (h head) bytes() int64 { return blockHead + 8*int64(h.keys) + blockSum }

func decodeHead(b []byte) head {
	return head{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:])}
}

// appendBlock appends a block of at most blockKeys keys.
func appendBlock(dst []byte, h head, keys []drum.Key) []byte {
	start := len(dst)
	dst = slices.Grow(dst, int(h.bytes()))
	dst = binary.LittleEndian.AppendUint32(dst, h.keys)
	dst = binary.LittleEndian.AppendUint32(dst, h.generation)
	dst = binary.LittleEndian.AppendUint64(dst, h.first)
	for _, k := range keys {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(k))
	}
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// checkHead checks the head of a block at off; last is the head of the block before.
func checkHead(name string, off int64, h, last head) error {
	corrupt := func(at int64, want string, got any) error {
		return &disk.CorruptError{Path: name, Offset: off + at, Want: want, Got: fmt.Sprint(got)}
	}
	switch {
	case h.keys < 1 || h.keys > blockKeys:
		return corrupt(0, fmt.Sprintf("1 to %d keys in a block of a trace", blockKeys), h.keys)
	case h.generation < max(1, last.generation) || h.generation > maxGeneration:
		return corrupt(4, fmt.Sprintf("generation %d to %d", max(1, last.generation), maxGeneration), h.generation)
	case h.first != last.first+uint64(last.keys):
		return corrupt(8, fmt.Sprintf("%d keys before", last.first+uint64(last.keys)), h.first)
	}
	return nil
}

// Summary is the result of reading all heads of a trace.
type Summary struct {
	// Links is the number of keys. Generations is the last generation, the number of gaps plus one.
	Links       int64
	Generations int
	// EndBytes is the end of the last whole block. CutBytes is the size of a truncated block after it.
	EndBytes, CutBytes int64
}

// scan reads the heads and checks the last whole block.
func scan(f disk.File) (Summary, error) {
	if err := disk.CheckHeader(f, traceHeader()); err != nil {
		return Summary{}, err
	}
	size, err := f.Size()
	if err != nil {
		return Summary{}, err
	}
	s := Summary{EndBytes: disk.HeaderBytes}
	var last head
	lastAt := int64(-1)
	for {
		left := size - s.EndBytes
		if left < blockHead {
			break
		}
		var b [blockHead]byte
		if err := disk.ReadFull(f, b[:], s.EndBytes); err != nil {
			return Summary{}, err
		}
		h := decodeHead(b[:])
		if err := checkHead(f.Name(), s.EndBytes, h, last); err != nil {
			return Summary{}, err
		}
		if left < h.bytes() {
			break
		}
		last, lastAt = h, s.EndBytes
		s.EndBytes += h.bytes()
		s.Links, s.Generations = s.Links+int64(h.keys), int(h.generation)
	}
	s.CutBytes = size - s.EndBytes
	if lastAt >= 0 {
		if _, err := readBlock(f, lastAt, last, nil); err != nil {
			return Summary{}, err
		}
	}
	return s, nil
}

// readBlock reads the block at off with head h into b, and checks it.
func readBlock(f disk.File, off int64, h head, b []byte) ([]byte, error) {
	b = slices.Grow(b[:0], int(h.bytes()))[:h.bytes()]
	if err := disk.ReadFull(f, b, off); err != nil {
		return b, err
	}
	sumAt := len(b) - blockSum
	if want, got := xxhash.Sum64(b[:sumAt]), binary.LittleEndian.Uint64(b[sumAt:]); want != got {
		return b, &disk.CorruptError{Path: f.Name(), Offset: off + int64(sumAt),
			Want: fmt.Sprintf("checksum %016x", want), Got: fmt.Sprintf("%016x", got)}
	}
	return b, nil
}
