package disk

import "testing"

// Exports for tests in package disk_test: those use memfs, which imports this package.
const TailBufferBytes = tailBufferBytes

var HoldsLock = holderOf

func MustCreate(t *testing.T, fsys FS, name string) File {
	t.Helper()
	f, err := fsys.Create(name)
	Must(t, err)
	return f
}

func MustWrite(t *testing.T, f File, p []byte, off int64) {
	t.Helper()
	if n, err := f.WriteAt(p, off); n != len(p) || err != nil {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func Content(t *testing.T, fsys FS, name string) []byte {
	t.Helper()
	b, err := ReadFile(fsys, name)
	Must(t, err)
	return b
}
