package state

import "encoding/binary"

// A key of a slot that has moved here from another node waits in URLseen as a text of a form that no record of a URL
// has: movedKeyMark, then the key. URLseen emits a text when it meets a key for the first time, but not the key.

const (
	movedKeyMark  = 0x01 // a URL begins with a letter
	movedKeyBytes = 9
)

// AppendMovedKey appends the text of a key.
func AppendMovedKey(dst []byte, key uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, movedKeyMark), key)
}

// MovedKey returns the key of such a text; ok is false for the record of a URL.
func MovedKey(text []byte) (key uint64, ok bool) {
	if len(text) != movedKeyBytes || text[0] != movedKeyMark {
		return 0, false
	}
	return binary.LittleEndian.Uint64(text[1:]), true
}
