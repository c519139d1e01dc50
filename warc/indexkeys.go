package warc

import (
	"encoding/json"
	"strings"
)

// maxIndexKeys bounds the keys of an index line; ours has at most 11.
const maxIndexKeys = 64

// distinctKeys reports whether the keys of a JSON object differ, in whatever case. Of equal keys encoding/json
// takes the last one and matches them in any case; the reader of a copy of the line may take another, and so
// open another file or another part of it. object must be valid JSON. Keys within values do not count.
func distinctKeys(object string) bool {
	keys := make([]string, 0, 16)
	depth, key := 0, false
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			depth++
			key = depth == 1
		case '}', ']':
			depth--
		case ',':
			key = depth == 1
		case '"':
			begin, plain := i, true
			for i++; object[i] != '"'; i++ {
				if object[i] == '\\' {
					plain = false
					i++
				}
			}
			if !key {
				continue
			}
			key = false
			name := object[begin+1 : i]
			if !plain && json.Unmarshal([]byte(object[begin:i+1]), &name) != nil {
				return false
			}
			for _, other := range keys {
				if strings.EqualFold(name, other) {
					return false
				}
			}
			if keys = append(keys, name); len(keys) > maxIndexKeys {
				return false
			}
		}
	}
	return true
}
