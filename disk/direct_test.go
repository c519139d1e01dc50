package disk

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"path"
	"testing"
)

// TestDirect checks that reads and writes of any alignment give the bytes of a plain file.
func TestDirect(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	name := path.Join(t.TempDir(), "f")
	f, err := Direct().Create(name)
	Must(t, err)
	const size = 64 << 10
	want := make([]byte, size)
	memory := Alloc(2 * size)
	defer Free(memory)
	place := func(n int) (p []byte, off int) {
		off = rng.IntN(size - n)
		at := rng.IntN(size)
		if rng.IntN(2) == 0 {
			off, at = off/DirectAlign*DirectAlign, at/DirectAlign*DirectAlign
		}
		return memory[at : at+n], off
	}
	end := 0
	for range 2000 {
		n := 1 + rng.IntN(3*DirectAlign)
		if rng.IntN(2) == 0 {
			n = (n + DirectAlign - 1) / DirectAlign * DirectAlign
		}
		p, off := place(n)
		if rng.IntN(2) == 0 {
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			if m, err := f.WriteAt(p, int64(off)); m != n || err != nil {
				t.Fatalf("write of %d at %d: got %d, %v", n, off, m, err)
			}
			copy(want[off:], p)
			end = max(end, off+n)
			continue
		}
		m, err := f.ReadAt(p, int64(off))
		left := max(0, min(n, end-off))
		if m != left || !bytes.Equal(p[:m], want[off:off+m]) || (err == nil) != (m == n) ||
			err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("read of %d at %d, end %d: got %d, %v", n, off, end, m, err)
		}
	}
	if f.(*directFile).direct == nil {
		t.Logf("%s has no O_DIRECT", name)
	}
	Must(t, f.Close())
	if _, err := f.ReadAt(memory[:DirectAlign], 0); err == nil {
		t.Error("read after Close")
	}
	// Another open sees the same bytes. A file opened for reading cannot be written.
	f, err = Direct().OpenRead(name)
	Must(t, err)
	defer f.Close()
	if n, err := f.ReadAt(memory[:end], 0); n != end || err != nil || !bytes.Equal(memory[:end], want[:end]) {
		t.Errorf("got %d of %d bytes, %v", n, end, err)
	}
	if _, err := f.WriteAt(memory[:DirectAlign], 0); err == nil {
		t.Error("wrote to a file opened for reading")
	}
}
