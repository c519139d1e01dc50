package disk

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// File header, the first HeaderBytes of every binary file of drumbeat. Integers are little-endian.
//
//	offset size field    meaning
//	0      8    magic    "drumbeat"
//	8      4    kind     four ASCII letters; "tail" for a tail file
//	12     4    version  format version of the kind, from 1
//	16     8    number   the file's number within its kind; for a tail file, the generation
//	24     8    place    number of the directory that holds the file
//	32     8    checksum xxhash64 of bytes [0, 32)
//
// A tail file is a header (kind "tail", version 1) followed by byte strings without separators. The Refs in
// the manifest hold their offsets, lengths and xxhash64.

// HeaderBytes is the length of a file header.
const HeaderBytes = 40

const (
	headerMagic = "drumbeat"
	tailKind    = "tail"
	tailVersion = 1
)

// Header is a decoded file header.
type Header struct {
	// Kind is four ASCII letters.
	Kind string
	// Version is the format version of the kind.
	Version uint32
	// Number is the file's number within its kind and directory.
	Number uint64
	// Place is the number of the directory.
	Place uint64
}

// Append appends the encoded header to dst.
func (h Header) Append(dst []byte) []byte {
	if len(h.Kind) != 4 {
		panic("BUG: disk: kind of a file header is four letters, not " + h.Kind)
	}
	start := len(dst)
	dst = append(dst, headerMagic...)
	dst = append(dst, h.Kind...)
	dst = binary.LittleEndian.AppendUint32(dst, h.Version)
	dst = binary.LittleEndian.AppendUint64(dst, h.Number)
	dst = binary.LittleEndian.AppendUint64(dst, h.Place)
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// CheckHeader reads the header of f and compares it with want. Any difference is a *CorruptError.
func CheckHeader(f File, want Header) error {
	var b [HeaderBytes]byte
	if err := ReadFull(f, b[:], 0); err != nil {
		return err
	}
	corrupt := func(off int64, want, got string) error {
		return &CorruptError{Path: f.Name(), Offset: off, Want: want, Got: got}
	}
	if string(b[:8]) != headerMagic {
		return corrupt(0, fmt.Sprintf("magic %q", headerMagic), fmt.Sprintf("%q", b[:8]))
	}
	if sum, got := xxhash.Sum64(b[:32]), binary.LittleEndian.Uint64(b[32:]); sum != got {
		return corrupt(0, fmt.Sprintf("header checksum %016x", sum), fmt.Sprintf("%016x", got))
	}
	got := Header{
		Kind:    string(b[8:12]),
		Version: binary.LittleEndian.Uint32(b[12:]),
		Number:  binary.LittleEndian.Uint64(b[16:]),
		Place:   binary.LittleEndian.Uint64(b[24:]),
	}
	if got != want {
		return corrupt(8, fmt.Sprintf("header %+v", want), fmt.Sprintf("%+v", got))
	}
	return nil
}
