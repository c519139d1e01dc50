package disk

import (
	"bytes"
	"io"
)

// findChunkBytes is the size of FindMagic's reads. After a read error FindMagic skips to the next multiple
// of findPageBytes.
const (
	findChunkBytes = 64 << 10
	findPageBytes  = 4096
)

// FindMagic returns the first offset in [from, end) of f at which magic stands and valid returns true, or
// -1 if there is none. It finds the intact data after damage: it skips unreadable stretches page by page.
func FindMagic(f io.ReaderAt, from, end int64, magic string, valid func(off int64) bool) int64 {
	buf := make([]byte, findChunkBytes)
	for from < end {
		b := buf[:min(int64(len(buf)), end-from)]
		if n, err := f.ReadAt(b, from); n < len(b) && err != nil {
			if b = b[:n]; n < len(magic) {
				next := (from/findPageBytes + 1) * findPageBytes
				from = next
				continue
			}
		}
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], []byte(magic))
			if i < 0 {
				break
			}
			at += i
			if valid(from + int64(at)) {
				return from + int64(at)
			}
		}
		if from+int64(len(b)) >= end {
			return -1
		}
		from += int64(max(1, len(b)-len(magic)+1))
	}
	return -1
}
