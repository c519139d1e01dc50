package inflate

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	flagpkg "flag"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	kflate "github.com/klauspost/compress/flate"
	kgzip "github.com/klauspost/compress/gzip"
)

var seedFlag = flagpkg.Uint64("seed", 0, "seed of the random tests; 0 chooses one")

func newRand(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// most bounds the decoded size in the tests.
const most = 1 << 19

// decode doubles the room as needed.
func decode(format Format, src []byte) ([]byte, error) {
	var d Decoder
	d.Reset(format, src)
	dst := make([]byte, 0, 4096)
	for {
		got, err := d.Decode(dst, most)
		if err != ErrRoom || len(got) == most {
			return got, err
		}
		dst = append(make([]byte, 0, 2*cap(got)), got...)
	}
}

// decodeBy decodes with step more bytes of room each time, after some unrelated bytes.
func decodeBy(t testing.TB, format Format, src []byte, step int) ([]byte, error) {
	var d Decoder
	fill(d.dynamic.literals[:], isLiteral|'?'<<valueShift|1) // remains of an earlier stream must not matter
	fill(d.dynamic.distances[:], 7<<valueShift|1)
	fill(d.lengths[:], 5<<valueShift|1)
	d.Reset(format, src)
	before := []byte("what lies before is no history")
	dst := before
	for {
		room := min(cap(dst)+step, len(before)+most)
		dst = append(make([]byte, 0, room+step%3*100), dst...)
		had := len(dst)
		for i := range dst[had:cap(dst)] {
			dst[had:cap(dst)][i] = 0xa5
		}
		var err error
		dst, err = d.Decode(dst, room)
		if len(dst) < had || len(dst) > room {
			t.Fatalf("had %d bytes and room for %d, got %d", had, room, len(dst))
		}
		for i, b := range dst[:cap(dst)][room:] {
			if b != 0xa5 {
				t.Fatalf("byte %d behind the limit was overwritten", i)
			}
		}
		if err == ErrRoom && len(dst) != room {
			t.Fatalf("no room, but %d bytes of %d", len(dst), room)
		}
		if err != ErrRoom || len(dst) == len(before)+most {
			return dst[len(before):], err
		}
	}
}

// others returns the output of the standard library and klauspost's decoder for src.
func others(format Format, src []byte) (outs [2][]byte, errs [2]error) {
	var rs [2]io.Reader
	if format == Gzip {
		if z, err := gzip.NewReader(bytes.NewReader(src)); err != nil {
			errs[0] = err
		} else {
			rs[0] = z
		}
		if z, err := kgzip.NewReader(bytes.NewReader(src)); err != nil {
			errs[1] = err
		} else {
			rs[1] = z
		}
	} else {
		rs = [2]io.Reader{flate.NewReader(bytes.NewReader(src)), kflate.NewReader(bytes.NewReader(src))}
	}
	for i, r := range rs {
		if r != nil {
			outs[i], errs[i] = io.ReadAll(io.LimitReader(r, most))
		}
	}
	return outs, errs
}

// compare compares output and verdict with the others'. For truncated streams they may yield less, because
// they wait for the bits of the shortest possible symbol. Where the two differ, the standard library counts:
// klauspost's continues with an old table if a block has an empty code, and takes a later member that ends
// within its name for the end.
func compare(t testing.TB, format Format, src []byte) []byte {
	t.Helper()
	got, err := decode(format, src)
	outs, errs := others(format, src)
	for i, out := range outs {
		if i == 0 && err == ErrHeader {
			continue // the standard library ignores reserved flags
		}
		if i == 1 && err != nil && (!bytes.HasPrefix(outs[0], out) || errs[0] != nil && errs[1] == nil) {
			continue
		}
		if !bytes.HasPrefix(got, out) {
			t.Fatalf("%x: got %d bytes, others %d: %d that differ", src, len(got), i, len(out))
		}
		if len(out) == most {
			continue // no decoder reached the end
		}
		if ok := errs[i] == nil; ok != (err == nil) {
			t.Fatalf("%x: got %v, others %d: %v", src, err, i, errs[i])
		}
		if err == nil && len(out) != len(got) {
			t.Fatalf("%x: got %d bytes, others %d: %d", src, len(got), i, len(out))
		}
	}
	return got
}

// pack returns a gzip file of one member.
func pack(t testing.TB, p []byte, level int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(p)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// texts are pages of several kinds.
func texts(rng *rand.Rand) [][]byte {
	random := make([]byte, 70_000)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	var html strings.Builder
	for i := range 800 {
		fmt.Fprintf(&html, "<li class=\"c%d\"><a href=\"/dir%d/page-%d.html\">word %x</a></li>\n", i%7,
			rng.IntN(50), i, rng.Uint32()>>8)
	}
	var short []byte // matches at every small distance
	for d := 1; d < 40; d++ {
		short = append(short, bytes.Repeat(random[d*40:d*40+d], 600/d)...)
	}
	few := make([]byte, 30_000) // long codes: each letter is half as frequent as the one before
	for i := range few {
		few[i] = byte(min(rng.ExpFloat64()*1.5, 255))
	}
	return [][]byte{nil, {'a'}, []byte("hello, hello, hello"), random, []byte(html.String()), short, few,
		make([]byte, 300_000), bytes.Repeat([]byte("ab"), 50_000)}
}

// TestRoundTrip: the output of other encoders is decoded to the original, whatever the room.
func TestRoundTrip(t *testing.T) {
	rng := newRand(t)
	var d Decoder
	for i, text := range texts(rng) {
		for level := gzip.HuffmanOnly; level <= 9; level++ {
			if testing.Short() && level != gzip.HuffmanOnly && level%4 != 1 { // 1, 5 and 9 of the rest
				continue
			}
			z := pack(t, text, level)
			if hint := SizeHint(z); hint != len(text) {
				t.Errorf("text %d: hint %d, want %d", i, hint, len(text))
			}
			d.Reset(Gzip, z)
			got, err := d.Decode(make([]byte, 0, len(text)), most)
			if err != nil || !bytes.Equal(got, text) {
				t.Fatalf("text %d, level %d: %v, %d bytes", i, level, err, len(got))
			}
			for _, step := range []int{1 + rng.IntN(20), 200 + rng.IntN(2000), 100_000} {
				if len(text)/step > 200 {
					step = len(text) / 200
				}
				got, err := decodeBy(t, Gzip, z, step)
				if err != nil || !bytes.Equal(got, text) {
					t.Fatalf("text %d, level %d, step %d: %v, %d bytes", i, level, step, err, len(got))
				}
			}
		}
	}
}

// TestCut: every prefix of a stream yields everything that the others decode.
func TestCut(t *testing.T) {
	rng := newRand(t)
	text := texts(rng)[4][:1500]
	for _, level := range []int{gzip.HuffmanOnly, 0, 1, 9} {
		z := pack(t, text, level)
		z = append(z, pack(t, text[:20], level)...)
		for n := range z {
			if got := compare(t, Gzip, z[:n]); !bytes.HasPrefix(append(text[:1500:1500], text...), got) {
				t.Fatalf("level %d cut at %d: wrong bytes", level, n)
			}
		}
	}
}

// TestDamaged changes bytes of streams.
func TestDamaged(t *testing.T) {
	rng := newRand(t)
	flips := 60
	if testing.Short() {
		flips = 20
	}
	for _, text := range texts(rng)[1:7] {
		text = text[:min(len(text), 4000)]
		for _, level := range []int{gzip.HuffmanOnly, 1, 9} {
			z := pack(t, text, level)
			for range flips {
				bad := bytes.Clone(z)
				for range 1 + rng.IntN(3) {
					bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
				}
				compare(t, Gzip, bad)
				compare(t, Raw, bad[10:])
				step := 1 + rng.IntN(300)
				got, err := decode(Gzip, bad)
				again, err2 := decodeBy(t, Gzip, bad, step)
				if len(got) < most && (!bytes.Equal(got, again) || err != err2) {
					t.Fatalf("%x: at once %d bytes, %v; by %d: %d, %v", bad, len(got), err, step, len(again), err2)
				}
			}
		}
	}
}

// TestHeaders: valid and invalid gzip headers.
func TestHeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	text := []byte("hello")
	body := pack(t, text, 6)[10:]
	head := func(flags byte, fields string) string {
		return "\x1f\x8b\x08" + string(flags) + "\x00\x00\x00\x00\x00\xff" + fields
	}
	sum := func(head string) string {
		return string(binary.LittleEndian.AppendUint16([]byte(head), uint16(crc32.ChecksumIEEE([]byte(head)))))
	}
	all := head(0x1f, "\x03\x00abcname\x00comment\x00")
	for _, tt := range []struct {
		name, head string
		err        error
	}{
		{"plain", head(0, ""), nil},
		{"text", head(1, ""), nil},
		{"extra", head(4, "\x03\x00abc"), nil},
		{"no extra", head(4, "\x00\x00"), nil},
		{"name", head(8, "name\x00"), nil},
		{"comment", head(16, "\xe4\x00"), nil},
		{"long name", head(8, strings.Repeat("x", maxName-1)+"\x00"), nil},
		{"longer name", head(8, strings.Repeat("x", maxName)+"\x00"), ErrHeader},
		{"checksum", sum(head(2, "")), nil},
		{"all", sum(all), nil},
		{"wrong checksum", all + "xx", ErrHeader},
		{"reserved flag", head(0x20, ""), ErrHeader},
		{"method", strings.Replace(head(0, ""), "\x08", "\x07", 1), ErrHeader},
		{"magic", "\x1f\x8c" + head(0, "")[2:], ErrHeader},
	} {
		t.Run(tt.name, func(t *testing.T) {
			z := append([]byte(tt.head), body...)
			if got, err := decode(Gzip, z); err != tt.err || err == nil && !bytes.Equal(got, text) {
				t.Errorf("got %q, %v; want %v", got, err, tt.err)
			}
			compare(t, Gzip, z)
			compare(t, Gzip, append(pack(t, text, 1), z...))
			for n := range tt.head {
				if _, err := decode(Gzip, z[:n]); err == nil {
					t.Errorf("cut at %d: no error", n)
				}
				compare(t, Gzip, z[:n])
				compare(t, Gzip, append(pack(t, text, 1), z[:n]...))
			}
		})
	}
}

// TestMembers: members may follow each other, a match does not reach into the previous member, and anything
// else is an error.
func TestMembers(t *testing.T) {
	a, b := pack(t, []byte("first "), 6), pack(t, nil, 6)
	z := append(append(append(bytes.Clone(a), b...), a...), b...)
	if got := compare(t, Gzip, z); string(got) != "first first " {
		t.Errorf("got %q", got)
	}
	for _, junk := range []string{"\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x1f\x8b", "junkjunkjunk"} {
		if got, err := decode(Gzip, append(bytes.Clone(a), junk...)); string(got) != "first " || err == nil {
			t.Errorf("%q behind: %q, %v", junk, got, err)
		}
		compare(t, Gzip, append(bytes.Clone(a), junk...))
	}
	var w bitWriter // a member that begins with a match of length 3 and distance 1
	w.put(1, 1)
	w.put(1, 2)
	w.code(1, 7)
	w.code(0, 5)
	w.code(0, 7)
	bad := append(bytes.Clone(a), a[:10]...)
	bad = append(bad, w.bytes()...)
	if got, err := decode(Gzip, append(bad, make([]byte, 8)...)); string(got) != "first " || err != ErrCorrupt {
		t.Errorf("match into the member before: %q, %v", got, err)
	}
	compare(t, Gzip, append(bad, make([]byte, 8)...))
	for i := 1; i <= 8; i++ { // checksum and length
		bad := bytes.Clone(a)
		bad[len(bad)-i] ^= 1
		if got, err := decode(Gzip, bad); string(got) != "first " || err != ErrChecksum {
			t.Errorf("byte %d of the trailer: %q, %v", i, got, err)
		}
	}
}

// TestNoAllocations: a Decoder in use allocates nothing.
func TestNoAllocations(t *testing.T) {
	text := texts(newRand(t))[4]
	z := append(pack(t, text, 9), pack(t, text, gzip.HuffmanOnly)...)
	var d Decoder
	dst := make([]byte, 0, 2*len(text))
	if n := testing.AllocsPerRun(20, func() {
		d.Reset(Gzip, z)
		if got, err := d.Decode(dst, most); err != nil || len(got) != 2*len(text) {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSizeHint(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want int
	}{
		{"", 0},
		{strings.Repeat("x", 17), 0},
		{strings.Repeat("\xff", 18), 18 * 1032},
		{strings.Repeat("\x00", 14) + "\x05\x01\x00\x00", 261},
	} {
		if got := SizeHint([]byte(tt.src)); got != tt.want {
			t.Errorf("%q: got %d, want %d", tt.src, got, tt.want)
		}
	}
}
