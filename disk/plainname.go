package disk

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the length of a file name in bytes that Linux allows.
const maxName = 255

// PlainName reports whether a name that was read from a file is that of a file in a given directory, and not a
// path to another place: no separator of any system, not "." or "..", valid UTF-8 without control characters
// (C0, DEL, C1) and without characters that change the direction of text, 1 to 255 bytes. Readers open what it
// names, print it, and copy it for other tools.
func PlainName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > maxName || !utf8.ValidString(name) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || r == '\\' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}
