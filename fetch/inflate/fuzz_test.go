package inflate

import (
	"bytes"
	"compress/flate"
	"testing"

	kflate "github.com/klauspost/compress/flate"
)

// FuzzDecode: any bytes give the output and the verdict of the standard library's and klauspost's decoders,
// at once and in pieces of any size. Small pieces take the careful loop, so this also compares it with the
// fast one. The output of encoders is decoded to the original.
func FuzzDecode(f *testing.F) {
	text := []byte(
		"the quick brown fox jumps over the lazy dog, the quick brown fox; the quick brown dog, the lazy fox")
	f.Add(text, byte(0), uint16(7), uint16(0), byte(0))
	f.Add(text, byte(1), uint16(300), uint16(40), byte(3))
	f.Add(bytes.Repeat(text, 20), byte(17), uint16(1000), uint16(0), byte(0))
	f.Add(bytes.Repeat([]byte{'x', 'y', 0xff}, 2000), byte(9), uint16(5000), uint16(20), byte(1))
	f.Add(pack(f, text, 6), byte(10), uint16(1), uint16(0), byte(0))
	f.Add(pack(f, text, 6)[10:], byte(11), uint16(20), uint16(0), byte(0))
	f.Add([]byte("\x01\x05\x00\xfa\xffhello"), byte(11), uint16(2), uint16(0), byte(0))
	var w bitWriter
	w.dynamic(true, widths(286, map[int]uint8{'a': 2, 'b': 2, 'c': 2, 256: 3, 257: 4, 285: 4}),
		widths(30, map[int]uint8{0: 1, 5: 1}))
	f.Add(append(w.bytes(), "\x12\x34\x56\x78\x9a\xbc\xde\xf0\x12\x34\x56"...), byte(11), uint16(3), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, kind byte, step, at uint16, flip byte) {
		if len(data) > 1<<14 {
			return
		}
		format, z := Format(kind&1), data
		if how := kind >> 1 % 8; how < 5 { // pack, then damage
			var packed bytes.Buffer
			if how < 3 {
				w, _ := flate.NewWriter(&packed, []int{flate.HuffmanOnly, 1, 9}[how])
				w.Write(data)
				w.Flush()
				w.Write(data)
				w.Close()
			} else {
				w, _ := kflate.NewWriter(&packed, []int{1, 7}[how-3])
				w.Write(data)
				w.Close()
			}
			if z = packed.Bytes(); format == Gzip {
				z = pack(t, data, int(how)*2+1)
				z = append(z, z...)
			}
			if flip == 0 {
				got, err := decode(format, z)
				if err != nil || !bytes.HasPrefix(got, data) {
					t.Fatalf("%x: got %d bytes, %v; want %d", z, len(got), err, len(data))
				}
			}
			if i := int(at); i < len(z) {
				z[i] ^= flip
			} else {
				z = z[:len(z)-i%(len(z)+1)]
			}
		}
		got := compare(t, format, z)
		_, err := decode(format, z)
		again, err2 := decodeBy(t, format, z, max(int(step), 1+len(got)/50))
		if !bytes.Equal(got, again) || err != err2 {
			t.Fatalf("%x: at once %d bytes, %v; by %d: %d, %v", z, len(got), err, step, len(again), err2)
		}
	})
}
