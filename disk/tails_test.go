package disk_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

func twoDirs(t *testing.T, fsys disk.FS) disk.Set {
	t.Helper()
	set := disk.Set{FS: fsys, Paths: []string{"one", "two"}}
	for _, p := range set.Paths {
		disk.Must(t, fsys.MkdirAll(p))
	}
	return set
}

func TestTailsRoundTrip(t *testing.T) {
	set := twoDirs(t, memfs.New(1))
	w, err := disk.CreateTails(set, 7)
	disk.Must(t, err)
	var refs []disk.Ref
	var want [][]byte
	for i, n := range []int{0, 1, 10, disk.TailBufferBytes, disk.TailBufferBytes - 50, 3,
		2*disk.TailBufferBytes + 1, 5} {
		p := bytes.Repeat([]byte{byte('a' + i)}, n)
		r, err := w.Write(1, p)
		disk.Must(t, err)
		refs, want = append(refs, r), append(want, p)
	}
	if _, err := set.FS.Size(set.Path(0, "state")); err == nil {
		t.Error("directory without a tail got a state directory")
	}
	disk.Must(t, w.Close())
	if _, err := w.Write(1, []byte("x")); err == nil {
		t.Error("Write after Close succeeded")
	}
	for i, r := range refs {
		got, err := disk.ReadTail(set, r)
		disk.Must(t, err)
		if !bytes.Equal(got, want[i]) {
			t.Errorf("tail %d: got %d bytes, want %d", i, len(got), len(want[i]))
		}
	}
	if size, _ := set.FS.Size("two/state/tails-0000000007"); size != w.Bytes() {
		t.Errorf("file has %d bytes, Bytes() = %d", size, w.Bytes())
	}
	if _, err := disk.CreateTails(set, 7); err == nil {
		t.Error("an existing generation was created again")
	}
	f := disk.MustCreate(t, set.FS, "two/state/tails-7") // not a tail file's name: stays
	disk.Must(t, f.Close())
	disk.Must(t, disk.RemoveTails(set, func(gen uint64) bool { return gen != 7 }))
	if names, _ := set.FS.List("two/state"); len(names) != 1 || names[0] != "tails-7" {
		t.Errorf("after RemoveTails: %v", names)
	}
	own := w.Bytes()
	w.Count(5)
	w.CountFile(7)
	if got := w.Bytes(); got != own+12 || w.Files() != 7 {
		t.Errorf("%d bytes, of them %d in files; want %d and 7", got, w.Files(), own+12)
	}
}

func TestTailGoldenBytes(t *testing.T) {
	set := twoDirs(t, memfs.New(1))
	w, err := disk.CreateTails(set, 3)
	disk.Must(t, err)
	r, err := w.Write(1, []byte("hello"))
	disk.Must(t, err)
	disk.Must(t, w.Close())
	want := hex.EncodeToString([]byte("drumbeat")) + // magic
		hex.EncodeToString([]byte("tail")) + // kind
		"01000000" + // version
		"0300000000000000" + // generation
		"0100000000000000" + // directory
		"fe0d5b1f68967848" + // xxhash64 of the preceding 32 bytes
		hex.EncodeToString([]byte("hello"))
	if got := hex.EncodeToString(disk.Content(t, set.FS, "two/state/tails-0000000003")); got != want {
		t.Errorf("tail file\n got %s\nwant %s", got, want)
	}
	if want := (disk.Ref{Dir: 1, Gen: 3, Off: 40, Len: 5, Sum: 0x26c7827d889f6da3}); r != want {
		t.Errorf("ref %+v, want %+v", r, want)
	}
}

func TestTailDamage(t *testing.T) {
	set := twoDirs(t, memfs.New(1))
	w, err := disk.CreateTails(set, 3)
	disk.Must(t, err)
	r, err := w.Write(0, []byte("some bytes to be damaged"))
	disk.Must(t, err)
	disk.Must(t, w.Close())
	const name = "one/state/tails-0000000003"
	good := disk.Content(t, set.FS, name)
	f, err := set.FS.Open(name)
	disk.Must(t, err)
	for i := range good {
		disk.MustWrite(t, f, []byte{good[i] ^ 1}, int64(i))
		_, err := disk.ReadTail(set, r)
		var corrupt *disk.CorruptError
		if !errors.As(err, &corrupt) {
			t.Fatalf("bit flip at %d: %v", i, err)
		}
		if corrupt.Path != name || corrupt.Offset > int64(i) || !strings.Contains(err.Error(), name) {
			t.Errorf("bit flip at %d: %v", i, err)
		}
		disk.MustWrite(t, f, good[i:i+1], int64(i))
	}
	disk.Must(t, f.Truncate(int64(len(good)-1)))
	var corrupt *disk.CorruptError
	if _, err := disk.ReadTail(set, r); !errors.As(err, &corrupt) {
		t.Errorf("cut file: %v", err)
	}
}

// TestTailsStickyError checks that after a failed write later writes and Close fail too.
func TestTailsStickyError(t *testing.T) {
	m := memfs.New(1)
	boom := errors.New("boom")
	fail := false
	set := twoDirs(t, memfs.NewFault(m, func(op memfs.Op, name string) error {
		if fail && op == memfs.OpWrite {
			return boom
		}
		return nil
	}))
	w, err := disk.CreateTails(set, 1)
	disk.Must(t, err)
	_, err = w.Write(0, []byte("fits the buffer"))
	disk.Must(t, err)
	fail = true
	if _, err := w.Write(0, make([]byte, disk.TailBufferBytes)); !errors.Is(err, boom) {
		t.Errorf("failed write: %v", err)
	}
	fail = false
	if _, err := w.Write(0, []byte("x")); !errors.Is(err, boom) {
		t.Errorf("write after the failed one: %v", err)
	}
	if err := w.Close(); !errors.Is(err, boom) {
		t.Errorf("Close: %v", err)
	}
}
