package state

import (
	"errors"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestTheLatestCopyCounts: when the first manifest is unusable, the copy with the highest generation must
// replace it. A copy of a newer program must make the crawl fail.
func TestTheLatestCopyCounts(t *testing.T) {
	mem := memfs.New(1)
	set := disk.Set{FS: mem, Paths: []string{"d0", "d1", "d2", "d3"}}
	write := func(dir int, data []byte) {
		t.Helper()
		path := set.Path(dir, ManifestName)
		if err := errors.Join(mem.MkdirAll(set.Path(dir, "state")), disk.WriteFileAtomic(mem, path, data)); err != nil {
			t.Fatal(err)
		}
	}
	file := func(gen uint64) []byte {
		t.Helper()
		data, err := EncodeManifest(&Manifest{Gen: gen})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	read := func() uint64 {
		t.Helper()
		m, _, err := ReadManifest(set)
		if err != nil || m == nil {
			t.Fatalf("got %v, %v", m, err)
		}
		return m.Gen
	}
	write(1, file(5))
	write(2, file(6))
	write(3, file(9)) // not a copy: the crawl has three directories
	if got := read(); got != 6 {
		t.Errorf("first manifest missing: got generation %d, want 6", got)
	}
	write(0, file(4))
	if got := read(); got != 4 {
		t.Errorf("first manifest intact: got generation %d, want 4", got)
	}
	write(0, file(7)[:50])
	if got := read(); got != 6 {
		t.Errorf("first manifest damaged: got generation %d, want 6", got)
	}
	write(1, []byte(strings.Replace(string(file(5)), " 2.", " 3.", 1)))
	if _, _, err := ReadManifest(set); !errors.Is(err, ErrIncompatible) {
		t.Errorf("copy of a newer program: %v", err)
	}
	write(1, nil)
	write(2, nil)
	var damage *disk.CorruptError
	if _, _, err := ReadManifest(set); !errors.As(err, &damage) || damage.Path != set.Path(0, ManifestName) {
		t.Errorf("all manifests damaged: got %v", err)
	}
}
