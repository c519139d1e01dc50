package disk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func twoDirs(t *testing.T, fsys FS) Set {
	t.Helper()
	set := Set{FS: fsys, Paths: []string{"one", "two"}}
	for _, p := range set.Paths {
		must(t, fsys.MkdirAll(p))
	}
	return set
}

func TestTailsRoundTrip(t *testing.T) {
	set := twoDirs(t, NewMem(1))
	w, err := CreateTails(set, 7)
	must(t, err)
	var refs []Ref
	var want [][]byte
	for i, n := range []int{0, 1, 10, tailBufferBytes, tailBufferBytes - 50, 3, 2*tailBufferBytes + 1, 5} {
		p := bytes.Repeat([]byte{byte('a' + i)}, n)
		r, err := w.Write(1, p)
		must(t, err)
		refs, want = append(refs, r), append(want, p)
	}
	if _, err := set.FS.Size(set.Path(0, "state")); err == nil {
		t.Error("directory without a tail got a state directory")
	}
	must(t, w.Close())
	if _, err := w.Write(1, []byte("x")); err == nil {
		t.Error("Write after Close succeeded")
	}
	for i, r := range refs {
		got, err := ReadTail(set, r)
		must(t, err)
		if !bytes.Equal(got, want[i]) {
			t.Errorf("tail %d: got %d bytes, want %d", i, len(got), len(want[i]))
		}
	}
	if size, _ := set.FS.Size("two/state/tails-0000000007"); size != w.Bytes() {
		t.Errorf("file has %d bytes, Bytes() = %d", size, w.Bytes())
	}
	if _, err := CreateTails(set, 7); err == nil {
		t.Error("an existing generation was created again")
	}
	f := mustCreate(t, set.FS, "two/state/tails-7") // not a name of ours: stays
	must(t, f.Close())
	must(t, RemoveTails(set, func(gen uint64) bool { return gen != 7 }))
	if names, _ := set.FS.List("two/state"); len(names) != 1 || names[0] != "tails-7" {
		t.Errorf("after RemoveTails: %v", names)
	}
}

func TestTailGoldenBytes(t *testing.T) {
	set := twoDirs(t, NewMem(1))
	w, err := CreateTails(set, 3)
	must(t, err)
	r, err := w.Write(1, []byte("hello"))
	must(t, err)
	must(t, w.Close())
	want := hex.EncodeToString([]byte("drumbeat")) + // magic
		hex.EncodeToString([]byte("tail")) + // kind
		"01000000" + // version
		"0300000000000000" + // generation
		"0100000000000000" + // directory
		"fe0d5b1f68967848" + // xxhash64 of the 32 bytes before
		hex.EncodeToString([]byte("hello"))
	if got := hex.EncodeToString(content(t, set.FS, "two/state/tails-0000000003")); got != want {
		t.Errorf("tail file\n got %s\nwant %s", got, want)
	}
	if want := (Ref{Dir: 1, Gen: 3, Off: 40, Len: 5, Sum: 0x26c7827d889f6da3}); r != want {
		t.Errorf("ref %+v, want %+v", r, want)
	}
}

func TestTailDamage(t *testing.T) {
	set := twoDirs(t, NewMem(1))
	w, err := CreateTails(set, 3)
	must(t, err)
	r, err := w.Write(0, []byte("some bytes to be damaged"))
	must(t, err)
	must(t, w.Close())
	const name = "one/state/tails-0000000003"
	good := content(t, set.FS, name)
	f, err := set.FS.Open(name)
	must(t, err)
	for i := range good {
		mustWrite(t, f, []byte{good[i] ^ 1}, int64(i))
		_, err := ReadTail(set, r)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) {
			t.Fatalf("bit flip at %d: %v", i, err)
		}
		if corrupt.Path != name || corrupt.Offset > int64(i) || !strings.Contains(err.Error(), name) {
			t.Errorf("bit flip at %d: %v", i, err)
		}
		mustWrite(t, f, good[i:i+1], int64(i))
	}
	must(t, f.Truncate(int64(len(good)-1)))
	var corrupt *CorruptError
	if _, err := ReadTail(set, r); !errors.As(err, &corrupt) {
		t.Errorf("cut file: %v", err)
	}
}

// TestTailsStickyError checks that after a failed write nothing more is accepted and Close fails too.
func TestTailsStickyError(t *testing.T) {
	m := NewMem(1)
	boom := errors.New("boom")
	fail := false
	set := twoDirs(t, NewFault(m, func(op Op, name string) error {
		if fail && op == OpWrite {
			return boom
		}
		return nil
	}))
	w, err := CreateTails(set, 1)
	must(t, err)
	_, err = w.Write(0, []byte("fits the buffer"))
	must(t, err)
	fail = true
	if _, err := w.Write(0, make([]byte, tailBufferBytes)); !errors.Is(err, boom) {
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
