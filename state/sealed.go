package state

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// Seal encodes v as a small file: the line "MAGIC 1 LENGTH XXHASH64", then JSON. 1 is the version, LENGTH is that of
// the JSON in bytes, and the checksum of the JSON has 16 hexadecimal digits.
func Seal(magic string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("state: encode %s: %w", magic, err)
	}
	return append(fmt.Appendf(nil, "%s 1 %d %016x\n", magic, len(body), xxhash.Sum64(body)), body...), nil
}

// Unseal decodes into v the content of a file that Seal encoded. The error is a disk.CorruptError.
func Unseal(magic, name string, data []byte, v any) error {
	head, body, _ := strings.Cut(string(data), "\n")
	want := fmt.Sprintf("%s 1 %d %016x", magic, len(body), xxhash.Sum64String(body))
	if head != want {
		return &disk.CorruptError{Path: name, Want: want, Got: head[:min(len(head), 80)]}
	}
	if err := json.Unmarshal([]byte(body), v); err != nil {
		return &disk.CorruptError{Path: name, Want: "the JSON of " + magic, Got: err.Error()}
	}
	return nil
}
