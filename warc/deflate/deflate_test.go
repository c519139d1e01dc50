package deflate

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"testing"

	kflate "github.com/klauspost/compress/flate"

	"drumbeat/fetch/inflate"
)

// page returns HTML-like text of about n bytes.
func page(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	words := bytes.Fields(
		[]byte("the of and crawler visits pages hosts link budget page queue parse 2024 index section"))
	b := []byte("<!DOCTYPE html>\n<html><head><title>A page</title></head><body>\n")
	for len(b) < n {
		b = fmt.Appendf(b, "<div class=\"item\"><a href=\"/articles/%d/title.html\">Heading %d</a><p>",
			rng.IntN(1e6), rng.IntN(1e3))
		for range rng.IntN(12) {
			b = append(append(b, words[rng.IntN(len(words))]...), ' ')
		}
		b = append(b, "</p></div>\n"...)
	}
	return b[:n]
}

// noise returns n random bytes.
func noise(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// check reports an error unless all decoders decode z to src.
func check(t *testing.T, z, src []byte) {
	t.Helper()
	for _, by := range []struct {
		name   string
		reader io.Reader
	}{{"compress/flate", flate.NewReader(bytes.NewReader(z))}, {"klauspost", kflate.NewReader(bytes.NewReader(z))}} {
		if got, err := io.ReadAll(by.reader); err != nil || !bytes.Equal(got, src) {
			t.Fatalf("%s: got %d bytes, %v; want %d", by.name, len(got), err, len(src))
		}
	}
	var d inflate.Decoder
	d.Reset(inflate.Raw, z)
	if got, err := d.Decode(make([]byte, 0, len(src)+1), len(src)+1); err != nil || !bytes.Equal(got, src) {
		t.Fatalf("inflate: got %d bytes, %v; want %d", len(got), err, len(src))
	}
}

// bound is the largest output for n bytes of input: stored blocks, and the rest of a byte before them.
func bound(n int) int { return n + 5*(n/maxBlock+1) + 1 }

// cases returns texts at the limits of the format and of the encoder.
func cases() map[string][]byte {
	c := map[string][]byte{
		"empty": {}, "1 byte": {0}, "2 bytes": {7, 7}, "3 bytes": []byte("abc"), "run": make([]byte, 300000),
		"page of 1 KB": page(1, 1<<10), "page of 30 KB": page(2, 30000), "page of 1 MB": page(3, 1<<20),
		"noise": noise(1, 200000), "noise of 100 bytes": noise(2, 100),
		"noise, then text": append(noise(3, 100000), page(4, 100000)...),
	}
	for _, n := range []int{margin - 1, margin, margin + 1, maxBlock - 1, maxBlock, maxBlock + 1, 2 * maxBlock,
		2*maxBlock + 1} {
		c[fmt.Sprintf("page of %d bytes", n)] = page(5, n)
		c[fmt.Sprintf("noise of %d bytes", n)] = noise(5, n)
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	c["all literals"] = all
	c["all literals, many times"] = bytes.Repeat(all, 300)
	for _, d := range []int{window - 1, window, window + 1} { // a match at this distance
		b := noise(6, d)
		c[fmt.Sprintf("distance %d", d)] = append(b, b[:1000]...)
	}
	for _, l := range []int{257, 258, 259, 260, 261, 262, 263, 516, 517, 518, 519, 520} { // a match of this length
		b := noise(7, 600)
		c[fmt.Sprintf("match of %d bytes", l)] = append(append(append(b, 1, 2), b[:l]...), noise(8, 50)...)
	}
	c["Fibonacci"] = fibonacci(22)
	return c
}

// fibonacci returns a text without matches in which n symbols have Fibonacci numbers as frequencies, so that
// the best code has n-1 bits.
func fibonacci(n int) []byte {
	var b []byte
	for i, f, next := 0, 1, 1; i < n; i, f, next = i+1, next, f+next {
		b = append(b, bytes.Repeat([]byte{byte(i)}, f)...)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	rng.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
	return b
}

func TestRoundTrip(t *testing.T) {
	var e Encoder
	for name, src := range cases() {
		t.Run(name, func(t *testing.T) {
			z := e.Append([]byte("before"), src)
			if !bytes.HasPrefix(z, []byte("before")) {
				t.Fatal("dst is lost")
			}
			z = z[len("before"):]
			if len(z) > bound(len(src)) {
				t.Errorf("got %d bytes from %d, want at most %d", len(z), len(src), bound(len(src)))
			}
			check(t, z, src)
		})
	}
}

// TestSizes: all short texts, and all around the limit of a block, survive.
func TestSizes(t *testing.T) {
	var e Encoder
	text, random, zeros := page(11, maxBlock+700), noise(11, maxBlock+700), make([]byte, maxBlock+700)
	var z []byte
	sizes := []int{}
	for n := range 700 {
		sizes = append(sizes, n)
	}
	for n := maxBlock - 2*margin; n <= maxBlock+2*margin; n++ {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		for _, src := range [][]byte{text[:n], random[:n], zeros[:n]} {
			if z = e.Append(z[:0], src); len(z) > bound(n) {
				t.Errorf("got %d bytes from %d", len(z), n)
			}
			check(t, z, src)
		}
	}
}

// TestPieces: a text is longer than a piece, where positions start over.
func TestPieces(t *testing.T) {
	var e Encoder
	src := bytes.Repeat(page(12, 100_003), maxPiece/100_003+2)
	for _, n := range []int{maxPiece, maxPiece + 1, len(src)} {
		z := e.Append(nil, src[:n])
		check(t, z, src[:n])
		if len(z) > n/5 {
			t.Errorf("got %d bytes from %d", len(z), n)
		}
	}
}

// TestLongestMatch: equal bytes become matches of 258 bytes, 2 bits each.
func TestLongestMatch(t *testing.T) {
	n := maxBlock
	if got, most := len(new(Encoder).Append(nil, make([]byte, n))), n/maxMatch*2/8+20; got > most {
		t.Errorf("got %d bytes from %d zeros, want at most %d", got, n, most)
	}
}

// TestDistances: a match at the largest distance is found, and one beyond is not.
func TestDistances(t *testing.T) {
	var e Encoder
	for d, want := range map[int]bool{window: true, window + 1: false} {
		b := noise(6, d)
		z := e.Append(nil, append(b, b[:1000]...))
		if got := len(z) < d+500; got != want {
			t.Errorf("distance %d: %d bytes; want a match: %v", d, len(z), want)
		}
	}
}

// TestDeterministic: the output does not depend on what was encoded before, nor on dst.
func TestDeterministic(t *testing.T) {
	var used Encoder
	for range 2 {
		for name, src := range cases() {
			want := new(Encoder).Append(nil, src)
			dst := noise(4, 3*len(src)+100)
			if got := used.Append(dst[:0], src); !bytes.Equal(got, want) {
				t.Errorf("%s: differs after other texts", name)
			}
		}
	}
}

// TestBlocks: a stream may be made of several texts, at any bit.
func TestBlocks(t *testing.T) {
	var e Encoder
	var z, want []byte
	used := uint(0)
	seen := map[uint]bool{}
	for i := range 60 {
		src := page(uint64(i), i*37%2000)
		if i%7 == 3 {
			src = noise(uint64(i), 500)
		}
		want = append(want, src...)
		z, used = e.Blocks(z, used, src, i == 59)
		seen[used] = true
	}
	if len(seen) < 8 {
		t.Errorf("blocks ended at bits %v only", seen)
	}
	check(t, z, want)
}

// TestRatio: pages are compressed about as well as by klauspost's level 1, and not worse than when this test
// was written.
func TestRatio(t *testing.T) {
	var e Encoder
	for n, most := range map[int]int{1 << 10: 338, 30000: 4940, 300000: 46288} {
		src := page(10, n)
		var level1 bytes.Buffer
		w, _ := kflate.NewWriter(&level1, 1)
		w.Write(src)
		w.Close()
		got := len(e.Append(nil, src))
		t.Logf("%d bytes: %d, level 1 %d", n, got, level1.Len())
		if float64(got) > 1.05*float64(level1.Len()) || got > most {
			t.Errorf("%d bytes: got %d, want at most %d; level 1 %d", n, got, most, level1.Len())
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	var e Encoder
	src := page(1, 100000)
	dst := e.Append(nil, src)
	if n := testing.AllocsPerRun(20, func() { dst = e.Append(dst[:0], src) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestGzip: the system's gzip decodes all cases.
func TestGzip(t *testing.T) {
	path, err := exec.LookPath("gzip")
	if err != nil {
		t.Skip("no gzip")
	}
	var e Encoder
	var members, want bytes.Buffer
	for _, src := range cases() {
		members.Write(member(&e, src))
		want.Write(src)
	}
	cmd := exec.Command(path, "-dc")
	cmd.Stdin = &members
	if got, err := cmd.Output(); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("gzip: got %d bytes, %v; want %d", len(got), err, want.Len())
	}
}

// FuzzDeflate: all decoders decode the output to the input, and the output has a bound.
func FuzzDeflate(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog, the quick brown fox jumps"), uint16(3), false)
	f.Add(page(1, 3000), uint16(40), true)
	f.Add(noise(1, 300), uint16(300), true)
	f.Add([]byte{0}, uint16(1<<16-1), false)
	var e Encoder
	f.Fuzz(func(t *testing.T, src []byte, times uint16, first bool) {
		if len(src) == 0 {
			times = 0
		}
		if most := 140000; len(src)*int(times) > most {
			times = uint16(most / len(src))
		}
		src = append(src, bytes.Repeat(src, int(times))...)
		var z, want []byte
		used := uint(0)
		if first { // begin within a byte
			z, used = e.Blocks(nil, 0, src, false)
			want = src
		}
		before := len(z)
		z, _ = e.Blocks(z, used, src, true)
		want = append(want[:len(want):len(want)], src...)
		if len(z)-before > bound(len(src)) {
			t.Errorf("%d bytes from %d", len(z)-before, len(src))
		}
		check(t, z, want)
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name string
		src  []byte
	}{{"page=1KB", page(1, 1<<10)}, {"page=30KB", page(1, 30000)}, {"page=1MB", page(1, 1<<20)},
		{"noise=30KB", noise(1, 30000)}} {
		b.Run(c.name, func(b *testing.B) {
			var e Encoder
			var dst []byte
			b.SetBytes(int64(len(c.src)))
			b.ReportAllocs()
			for b.Loop() {
				dst = e.Append(dst[:0], c.src)
			}
			b.ReportMetric(float64(len(c.src))/float64(len(dst)), "ratio")
		})
	}
}
