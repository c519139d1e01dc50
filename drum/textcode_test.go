package drum

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestTexts: texts of all lengths and likenesses, some of them left out, are read as they were written.
func TestTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seedFlag), 0))
	parts := []string{"", "a", "http://", "www.example.org/", strings.Repeat("section/", 40), "index.html", "\x00\x01",
		"\xff\xff\xff"}
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

// TestTextsOfLargerBuffers: texts that were written with larger buffers than those of this run are emitted whole.
func TestTextsOfLargerBuffers(t *testing.T) {
	var emitted []int
	opt := Options{Set: disk.Set{FS: memfs.New(1), Paths: []string{"d"}}, Name: "s", Buckets: 2, Op: CheckUpdate,
		Codec: Rice, Aux: AuxLog, BufferBytes: 64 << 10, LogBytes: 64 << 10, BucketBytes: 1 << 20,
		Emit: func(results []Result) error {
			for _, r := range results {
				emitted = append(emitted, len(r.Aux))
			}
			return nil
		}}
	d, err := Open(opt, nil)
	must(t, err)
	sizes := []int{10, 20_000, 3, 30_000, 5_000}
	for i, size := range sizes {
		must(t, d.Add([]Tuple{{Key: Key(1 + i), Op: CheckUpdate, Aux: bytes.Repeat([]byte{byte('a' + i)}, size)}}))
	}
	st, err := d.Freeze().Save(nil)
	must(t, err)
	must(t, d.Close())
	opt.BufferBytes, opt.LogBytes = 4<<10, 4<<10
	d, err = Open(opt, st)
	must(t, err)
	_, err = d.Pass(t.Context(), true)
	must(t, err)
	must(t, d.Close())
	if !slices.Equal(emitted, sizes) {
		t.Errorf("emitted texts of %d bytes, want %d", emitted, sizes)
	}
}
