package warc

import (
	"bytes"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
)

// digestRaw is the length of a payload digest in bytes.
const digestRaw = 20

// errPrepared reports bytes that are not those of a Prepared.
var errPrepared = errors.New("warc: damaged prepared capture")

// AppendBinary appends p in a form that UnmarshalBinary reads: the lengths as uvarints, then the records and
// the beginning of the index line (docs/reference/files/content.md).
func (p *Prepared) AppendBinary(dst []byte) []byte {
	for _, n := range []int64{p.response.offset, p.response.length, int64(p.head), int64(len(p.buf)),
		int64(p.indexHead)} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	dst = append(dst, p.buf...)
	return append(dst, p.index[:p.indexHead]...)
}

// UnmarshalBinary replaces the content of p by a copy of what AppendBinary wrote.
func (p *Prepared) UnmarshalBinary(b []byte) error {
	var n [5]uint64
	for i := range n {
		v, used := binary.Uvarint(b)
		if used <= 0 || v > uint64(len(b)) && i != 2 {
			return errPrepared
		}
		n[i], b = v, b[used:]
	}
	offset, length, head, buf, index := n[0], n[1], n[2], n[3], n[4]
	if buf > uint64(len(b)) || index != uint64(len(b))-buf || length == 0 || offset > buf || length > buf-offset ||
		head > 1<<31 {
		return errPrepared
	}
	p.response = span{int64(offset), int64(length)}
	p.head, p.indexHead = int(head), int(index)
	p.buf = append(p.buf[:0], b[:buf]...)
	p.index = append(p.index[:0], b[buf:]...)
	return nil
}

// Digest returns the payload digest of the response: the SHA-1 of its body without chunk framing.
func (p *Prepared) Digest() (sum [digestRaw]byte, err error) {
	_, rest, ok := bytes.Cut(p.index[:p.indexHead], []byte(`"digest": "sha1:`))
	if !ok || len(rest) < digestBytes {
		return sum, errPrepared
	}
	if _, err := base32.StdEncoding.Decode(sum[:], rest[:digestBytes]); err != nil {
		return sum, fmt.Errorf("%w: %w", errPrepared, err)
	}
	return sum, nil
}

// Form identifies the form of the records that a Writer prepares: 0 for gz, otherwise 1 and the number of the
// dictionary. Append takes only captures of its Writer's form.
func (w *Writer) Form() uint64 {
	if w.zst == nil {
		return 0
	}
	return 1 | uint64(w.zst.dictID)<<1
}
