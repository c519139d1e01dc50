package weburl

import (
	"fmt"
	"testing"
)

// TestSlotKeys pins keys with slots, which are on disk, and compares them with those without: they differ in
// the bits of the slot alone, which is that of the PLD.
func TestSlotKeys(t *testing.T) {
	plain := NewHasher(testSecret())
	h := plain.WithSlots(NewSuffixes(true))
	for _, x := range []struct {
		pld, host, url string
		slot           int
	}{
		{"example.com", "example.com", "http://example.com/", 0xa71},
		{"example.com", "www.example.com", "https://www.example.com:8443/a?b", 0xa71},
		{"example.com", "example.com", "http://example.com./", 0xa71},
		{"example.co.uk", "a.example.co.uk", "http://a.example.co.uk/", 0x3c1},
		{"192.0.2.1", "192.0.2.1", "http://192.0.2.1/", 0x166},
	} {
		if slot := Slot(h.PLDKey([]byte(x.pld))); slot != x.slot ||
			h.PLDKey([]byte(x.pld)) != plain.PLDKey([]byte(x.pld)) {
			t.Errorf("slot of %s: got %#x, want %#x", x.pld, slot, x.slot)
		}
		if got, want := h.URLKeyOf([]byte(x.url), h.PLDKey([]byte(x.pld))), h.URLKey([]byte(x.url)); got != want {
			t.Errorf("key of %s by its PLD: got %#x, want %#x", x.url, got, want)
		}
		origin := Origin([]byte(x.url))
		for what, keys := range map[string][2]uint64{
			"URL":    {h.URLKey([]byte(x.url)), plain.URLKey([]byte(x.url))},
			"host":   {h.HostKey([]byte(x.host)), plain.HostKey([]byte(x.host))},
			"origin": {h.OriginKey(origin), plain.OriginKey(origin)},
		} {
			if got := SlotOf(keys[0]); got != x.slot || (keys[0]^keys[1])&^0x0fff0000 != 0 {
				t.Errorf("key of the %s of %s: got %#x with slot %#x, want %#x with slot %#x", what, x.url, keys[0],
					got, keys[1], x.slot)
			}
		}
	}
	url := []byte("http://www.example.com/a")
	if n := testing.AllocsPerRun(100, func() { h.URLKey(url) }); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}

// TestSlotsEven: PLDs are spread evenly over the slots, and keys of one slot over its other bits.
func TestSlotsEven(t *testing.T) {
	h := NewHasher(testSecret())
	const each = 64
	var plds [Slots]int
	for i := range each * Slots {
		plds[Slot(h.PLDKey(fmt.Appendf(nil, "p%d.com", i)))]++
	}
	for slot, n := range plds {
		if n < each/4 || n > each*9/4 { // 6 standard deviations, and more
			t.Errorf("slot %d has %d PLDs, want about %d", slot, n, each)
		}
	}
}

func BenchmarkSlottedURLKey(b *testing.B) {
	plain := NewHasher(testSecret())
	url := []byte("https://www.example.co.uk/some/path/of/usual/length.html?with=parameters")
	for name, h := range map[string]*Hasher{"slots=no": plain, "slots=yes": plain.WithSlots(NewSuffixes(true))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.URLKey(url)
			}
		})
	}
}
