package drum

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTexts: texts of all lengths and likenesses, some of them left out, are read as they were written.
func TestTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seedFlag), 0))
	parts := []string{"", "a", "http://", "www.example.org/", strings.Repeat("section/", 40), "index.html", "\x00\x01", "\xff\xff\xff"}
	var texts [][]byte
	var block, prev []byte
	for range 5000 {
		if rng.IntN(4) == 0 {
			texts, block = append(texts, nil), append(block, leftOut)
			continue
		}
		text := []byte{}
		for range rng.IntN(5) {
			text = append(text, parts[rng.IntN(len(parts))]...)
		}
		if rng.IntN(100) == 0 {
			prev = nil // as after a restart
		}
		texts, block = append(texts, text), appendText(block, prev, text)
		prev = text
	}
	var dec textDecoder
	for range 2 { // a decoder is used for several blocks
		r := newBlockTexts(logBlocks, block, &dec)
		for i, want := range texts {
			got, ok := r.next()
			if !ok || (got == nil) != (want == nil) || !bytes.Equal(got, want) {
				t.Fatalf("text %d: got %q, %v, want %q", i, got, ok, want)
			}
		}
		if len(r.b) > 0 {
			t.Errorf("%d bytes are left", len(r.b))
		}
	}
}

// FuzzTexts: any bytes are texts or are refused, within bounds; what was read is the same when coded again.
func FuzzTexts(f *testing.F) {
	f.Add([]byte{1, 0, 3, 'a', 'b', 'c', 0, 3, 1, 1, 'x'})
	f.Add([]byte{0x80, 1, 0, 0})
	f.Add([]byte{200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 1})
	f.Fuzz(func(t *testing.T, block []byte) {
		var dec, again textDecoder
		var coded, prev []byte
		var texts []string
		for r := newBlockTexts(logBlocks, block, &dec); len(r.b) > 0; {
			text, ok := r.next()
			if !ok {
				break
			}
			if len(texts) == 100 || len(text) > 1<<16 {
				break
			}
			texts = append(texts, fmt.Sprintf("%q %v", text, text == nil))
			if text == nil {
				coded = append(coded, leftOut)
				continue
			}
			coded = appendText(coded, prev, text)
			prev = bytes.Clone(text)
		}
		r := newBlockTexts(logBlocks, coded, &again)
		for i, want := range texts {
			text, ok := r.next()
			if got := fmt.Sprintf("%q %v", text, text == nil); !ok || got != want {
				t.Fatalf("text %d: got %s, %v, want %s", i, got, ok, want)
			}
		}
	})
}
