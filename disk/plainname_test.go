package disk

import (
	"strings"
	"testing"
)

func TestPlainName(t *testing.T) {
	for name, want := range map[string]bool{"a.warc.gz": true, "..a": true, "...": true, "é ü": true,
		strings.Repeat("x", 255): true, "": false, ".": false, "..": false, "/": false, "a/b": false, "../a": false,
		`a\b`: false, "a\x00": false, "a\nb": false, "a\x1b[2J": false, "a\x7f": false, "a\u0085": false,
		"a\u009b2J": false, "a\xff": false, "a\u202egz": false, strings.Repeat("x", 256): false} {
		if got := PlainName(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
