package state

import (
	"errors"
	"fmt"

	"drumbeat/drum"
	"drumbeat/weburl"
)

// MaxNameBytes is the maximum length of a value in the store of names.
const MaxNameBytes = 1 + weburl.MaxHostBytes

// AppendName appends the value of a name: one byte with the length of the PLD at the end of text, then
// text. A PLD's own value has length 0.
func AppendName(dst []byte, pldBytes int, text []byte) []byte {
	return append(append(dst, byte(pldBytes)), text...)
}

// errName means that a value does not encode a name.
var errName = errors.New("no name")

// DecodeName returns the PLD, and the host unless the value names a PLD.
func DecodeName(value []byte) (pld, host []byte, err error) {
	if len(value) < 2 || len(value) > MaxNameBytes || int(value[0]) >= len(value) {
		return nil, nil, fmt.Errorf("%w: %q", errName, value)
	}
	text := value[1:]
	if value[0] == 0 {
		return text, nil, nil
	}
	return text[len(text)-int(value[0]):], text, nil
}

// CheckName decodes an entry and returns an error if its key does not match its text.
func CheckName(h *weburl.Hasher, key drum.Key, value []byte) (pld, host []byte, err error) {
	pld, host, err = DecodeName(value)
	if err != nil {
		return nil, nil, err
	}
	want := h.PLDKey(pld)
	if host != nil {
		want = h.HostKey(host)
	}
	if want != uint64(key) {
		return nil, nil, fmt.Errorf("name %q has the key %x, want %x", value[1:], uint64(key), want)
	}
	return pld, host, nil
}
