package state

import (
	"encoding/binary"

	"drumbeat/disk"
)

// DumpRecords encodes records for a tail file: uvarint length and bytes of each. EachRecord decodes them.
func DumpRecords(recs [][]byte) []byte {
	var b []byte
	for _, rec := range recs {
		b = binary.AppendUvarint(b, uint64(len(rec)))
		b = append(b, rec...)
	}
	return b
}

// EachRecord calls f for each record of a dump. A wrong length is a *disk.CorruptError with path.
func EachRecord(path string, b []byte, f func(rec []byte) error) error {
	off := 0
	for off < len(b) {
		n, w := binary.Uvarint(b[off:])
		if w <= 0 || n > uint64(len(b)-off-w) {
			return &disk.CorruptError{Path: path, Offset: int64(off), Want: "a record", Got: "a length beyond the end"}
		}
		off += w
		if err := f(b[off : off+int(n)]); err != nil {
			return err
		}
		off += int(n)
	}
	return nil
}
