package queue

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// roundTrip encodes records as a block and decodes it.
func roundTrip(t *testing.T, c *coder, recs [][]byte) (codec, stored uint32) {
	t.Helper()
	var raw []byte
	for _, rec := range recs {
		raw = appendRecord(raw, rec)
	}
	before := bytes.Clone(raw)
	p, b := encodeBlock([]byte("before"), raw, uint32(len(recs)), c)
	p = p[len("before"):]
	b.finish(p, 3)
	h, err := parseBlockHeader(p[:blockHeaderBytes], "p", 0, 3)
	must(t, err)
	got, err := decodeBlock(nil, p[:blockHeaderBytes], p[blockHeaderBytes:], h, blockPlace{"p", 0}, c)
	must(t, err)
	if !bytes.Equal(got, before) || !bytes.Equal(raw, before) {
		t.Fatalf("%d records of %d bytes come back as %d by codec %d", len(recs), len(before), len(got), h.codec)
	}
	return h.codec, h.stored
}

// TestDeltaRoundTrip checks that records of any length, with much or little in common, survive encoding and
// decoding.
func TestDeltaRoundTrip(t *testing.T) {
	c := new(coder) // reused, like the pool's coders
	for seed := *seedFlag; seed < *seedFlag+uint64(rounds(300)); seed++ {
		rng := rand.New(rand.NewPCG(seed, 5))
		var recs [][]byte
		alphabet, maxLen := 1+rng.IntN(255), []int{1, 40, 300, 20000}[rng.IntN(4)]
		size := 0
		for want := rng.IntN(200_000); len(recs) == 0 || size < want && len(recs) < 5000; {
			rec := make([]byte, rng.IntN(maxLen+1))
			for i := range rec {
				rec[i] = byte(rng.IntN(alphabet))
			}
			if n := len(recs); n > 0 { // give it the start and the end of the previous record
				prev := recs[n-1]
				p := rng.IntN(len(prev) + 1)
				s := rng.IntN(len(prev) - p + 1)
				rec = slices.Concat(prev[:p], rec[:rng.IntN(len(rec)+1)], prev[len(prev)-s:])
				rec = rec[:min(len(rec), 30000)]
			}
			recs = append(recs, rec)
			size += len(rec) + 1
		}
		roundTrip(t, c, recs)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestDeltaChoice checks that similar records are stored as differences, and that dissimilar ones take
// little more than their own length.
func TestDeltaChoice(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{1})
	var urls, noise [][]byte
	for i := range 2000 {
		urls = append(urls, fmt.Appendf(nil, "https://www.example.org/section/%d/page-%x.html", i/50, i*7919))
		rec := make([]byte, 100)
		_, _ = rng.Read(rec)
		noise = append(noise, rec)
	}
	if codec, stored := roundTrip(t, new(coder), urls); codec != codecDelta || stored > 2000*6 {
		t.Errorf("URLs: %d bytes by codec %d", stored, codec)
	}
	if codec, stored := roundTrip(t, new(coder), noise); codec != codecRaw || stored != 2000*101 {
		t.Errorf("noise: %d bytes by codec %d", stored, codec)
	}
	if codec, _ := roundTrip(t, new(coder), [][]byte{nil, {}, nil}); codec != codecRaw {
		t.Errorf("three empty records by codec %d", codec)
	}
}

// TestGoldenDelta decodes a payload made by hand for the records "abcdef", "abXYef", "" and "abXYef". Their
// middles in D are "abcdef", "XY", "" and "abXYef".
func TestGoldenDelta(t *testing.T) {
	const (
		sizes  = "0e" + "04" + "04" + "04" // 14 bytes of middles, 4 of each list
		chunk  = "38"                      // 28 bytes, not coded
		s2     = "1a" + "64"               // a block of 26 bytes, a literal of 26
		middle = "616263646566" + "5859" + "616258596566"
		counts = "00020000" + "00020000" + "06020006"
	)
	payload, err := hex.DecodeString(sizes + chunk + s2 + middle + counts)
	must(t, err)
	want := "\x06abcdef\x06abXYef\x00\x06abXYef"
	h := blockHeader{raw: uint32(len(want)), records: 4, stored: uint32(len(payload)), codec: codecDelta}
	c := new(coder)
	got, err := c.decode(make([]byte, 0, h.raw), payload, h)
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for i := range payload { // each changed byte must be noticed, without a panic
		bad := bytes.Clone(payload)
		bad[i] ^= 0x41
		if got, err := c.decode(make([]byte, 0, h.raw), bad, h); err == nil && string(got) == want {
			t.Errorf("change of byte %d not noticed", i)
		}
		if got, err := c.decode(make([]byte, 0, h.raw), payload[:i], h); err == nil {
			t.Errorf("cut to %d bytes: %q", i, got)
		}
	}
}

// TestShared compares prefix and suffix with simple loops.
func TestShared(t *testing.T) {
	for n := range 40 {
		for m := range 40 {
			a, b := strings.Repeat("x", n)+"1"+strings.Repeat("y", m), strings.Repeat("x", n)+"2"+strings.Repeat("y", m)
			if p, s := prefix([]byte(a), []byte(b)), suffix([]byte(a), []byte(b)); p != n || s != m {
				t.Fatalf("%q, %q: %d and %d", a, b, p, s)
			}
			if p, s := prefix([]byte(a), []byte(a[:n])), suffix([]byte(a), []byte(a[n+1:])); p != n || s != m {
				t.Fatalf("%q in parts: %d and %d", a, p, s)
			}
		}
	}
}
