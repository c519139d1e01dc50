package weburl

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func testSecret() Secret {
	var s Secret
	for i := range s {
		s[i] = byte(i)
	}
	return s
}

func TestSecretText(t *testing.T) {
	s, err := NewSecret()
	must(t, err)
	if other, _ := NewSecret(); other == s {
		t.Fatal("two secrets are equal")
	}
	back, err := ParseSecret(s.Hex())
	if err != nil || back != s {
		t.Fatalf("ParseSecret(Hex): got %v, %v, want the secret back", back == s, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("g", 32), strings.Repeat("0", 33)} {
		if _, err := ParseSecret(bad); err == nil {
			t.Errorf("ParseSecret(%q): no error", bad)
		}
	}
	if got := fmt.Sprint(s); strings.Contains(got, s.Hex()[:8]) {
		t.Errorf("a printed secret shows: %s", got)
	}
}

// TestHasherGolden pins the keys. They are on disk, so a change requires a new version of the derivation.
func TestHasherGolden(t *testing.T) {
	h := NewHasher(testSecret())
	got := []uint64{
		h.URLKey([]byte("http://example.com/")), h.HostKey([]byte("example.com")),
		h.OriginKey([]byte("http://example.com:80")), h.PLDKey([]byte("example.com")),
		h.ServerKey([]byte{192, 0, 2, 1}), h.ContentKey([]byte("body")),
	}
	want := []uint64{
		0xc11110359f63c0fb, 0xc920663f2ba63f29, 0x9f6a50bc72bb02f1, 0x1b74b6066439eb03,
		0x9ca3e083fc49dd17, 0xef31b616cfcf03a3,
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("key %d: got %#x, want %#x", i, got[i], want[i])
		}
	}
}

func TestHasherKindsAndSecrets(t *testing.T) {
	h, other := NewHasher(testSecret()), NewHasher(Secret{1})
	b := []byte("example.com")
	seen := map[uint64]string{}
	for _, h := range []*Hasher{h, other} {
		for i, key := range []uint64{h.URLKey(b), h.HostKey(b), h.OriginKey(b), h.PLDKey(b), h.ServerKey(b),
			h.ContentKey(b)} {
			if was, ok := seen[key]; ok {
				t.Errorf("kinds %s and %d share a key", was, i)
			}
			seen[key] = fmt.Sprint(i)
		}
	}
	if n := testing.AllocsPerRun(100, func() { h.URLKey(b); h.PLDKey(b) }); n != 0 {
		t.Errorf("allocations: got %v, want 0", n)
	}
}

func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = r.Uint64() >> (r.Uint32() % 64)
	}
	var a, b, c, half Sum
	for i, k := range keys {
		a.Add(k)
		b.Add(keys[len(keys)-1-i])
		if i < 500 {
			half.Add(k)
		} else {
			c.Add(k)
		}
	}
	if a != b {
		t.Errorf("order matters: %v, %v", a, b)
	}
	if c.Merge(half); c != a {
		t.Errorf("Merge: got %v, want %v", c, a)
	}
	c.Remove(half)
	for _, k := range keys[500:] {
		c.Sub(k)
	}
	if c != (Sum{}) {
		t.Errorf("Sub of everything: got %v, want zero", c)
	}
	// Equal keys and neighbours do not cancel, and sums of pairs with equal plain sums differ.
	var d, e Sum
	d.Add(1)
	d.Add(4)
	e.Add(2)
	e.Add(3)
	if d == e {
		t.Error("1+4 and 2+3 have the same sum")
	}
}

func BenchmarkURLKey(b *testing.B) {
	h := NewHasher(testSecret())
	url := []byte("http://www.example.com/some/directory/page.html?id=12345&lang=en")
	b.SetBytes(int64(len(url)))
	b.ReportAllocs()
	for b.Loop() {
		h.URLKey(url)
	}
}

// TestBodyKey: bodies have keys that depend on the secret, on each byte, and on whether the body came plain.
func TestBodyKey(t *testing.T) {
	h, other := NewHasher(Secret{1}), NewHasher(Secret{2})
	body := bytes.Repeat([]byte("body "), 1000)
	key := h.BodyKey(body, false)
	if key != NewHasher(Secret{1}).BodyKey(body, false) || key == other.BodyKey(body, false) ||
		key == h.BodyKey(body[1:], false) || key == h.BodyKey(body, true) {
		t.Errorf("keys %x, %x, %x, plain %x", key, other.BodyKey(body, false), h.BodyKey(body[1:], false),
			h.BodyKey(body, true))
	}
	if n := testing.AllocsPerRun(10, func() { h.BodyKey(body, true) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBodyKey(b *testing.B) {
	h := NewHasher(Secret{1})
	body := bytes.Repeat([]byte("body "), 6000)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		h.BodyKey(body, true)
	}
}
