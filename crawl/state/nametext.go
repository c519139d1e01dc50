package state

import (
	"errors"
	"fmt"

	"drumbeat/drum"
	"drumbeat/weburl"
)

// MaxNameBytes is the longest value of the store of names.
const MaxNameBytes = 1 + weburl.MaxHostBytes

// AppendName appends the value of a name: a byte with the length of the PLD at its end, 0 if the name is a PLD itself, and the text.
func AppendName(dst []byte, pldBytes int, text []byte) []byte {
	return append(append(dst, byte(pldBytes)), text...)
}

var ErrName = errors.New("no name")

// DecodeName returns a PLD, and the host unless it is the name of a PLD itself.
func DecodeName(value []byte) (pld, host []byte, err error) {
	if len(value) < 2 || len(value) > MaxNameBytes || int(value[0]) >= len(value) {
		return nil, nil, fmt.Errorf("%w: %q", ErrName, value)
	}
	text := value[1:]
	if value[0] == 0 {
		return text, nil, nil
	}
	return text[len(text)-int(value[0]):], text, nil
}

// CheckName verifies that an entry's key is that of its text.
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
