package flags

import (
	"encoding"
	"fmt"
	"testing"
)

// FuzzFlagValues: an accepted value is within its range, and reading its String gives the same value.
func FuzzFlagValues(f *testing.F) {
	for _, text := range []string{
		"0", "4096", "1.5GiB", "9223372036854775807", "16EiB", "-1", "1e6", "1_000", "1e400", "NaN", "0x10",
		"9007199254740993", "192.0.2.1", "[2001:db8::1]:53", "127.0.0.0/8", "::1%eth0", "0.0.0.0/0", "8080", "80=18080",
		"=", " 1 ", "", "2MiB,image/*=5MiB",
	} {
		f.Add(text)
	}
	again := func(t *testing.T, text string, v, w encoding.TextUnmarshaler) {
		if v.UnmarshalText([]byte(text)) != nil {
			return
		}
		shown := fmt.Sprint(v)
		if err := w.UnmarshalText([]byte(shown)); err != nil || fmt.Sprint(w) != shown {
			t.Fatalf("%T %q is shown as %q, which is %v, %v", v, text, shown, w, err)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Size
		if s.UnmarshalText([]byte(text)) == nil && s < 0 {
			t.Fatalf("size %q: %d", text, s)
		}
		var c Count
		if c.UnmarshalText([]byte(text)) == nil && c < 0 {
			t.Fatalf("count %q: %d", text, c)
		}
		again(t, text, new(Size), new(Size))
		again(t, text, new(Count), new(Count))
		again(t, text, new(ServerAddr), new(ServerAddr))
		again(t, text, new(NetPrefix), new(NetPrefix))
		again(t, text, new(PortPair), new(PortPair))
		again(t, text, new(bodySizes), new(bodySizes))
	})
}
