package admit

import (
	"errors"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// TestScopeIsATail: sites that redirects added to the scope must be in a tail file, 8 bytes each, and not
// in the manifest.
func TestScopeIsATail(t *testing.T) {
	mem := memfs.New(1)
	set := disk.Set{FS: mem, Paths: []string{"d0"}}
	tails, err := disk.CreateTails(set, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSites(state.ScopeHost, func(b []byte) uint64 { return uint64(len(b)) << 40 }, []uint64{5, 1 << 63})
	s.extend([]byte("a.test"), 0)
	want := []uint64{5, 6 << 40, 1 << 63}
	ref, err := tails.Write(0, DumpKeys(s.Extensions()))
	if err = errors.Join(err, tails.Close()); err != nil || ref.Len != 24 {
		t.Fatalf("%+v, %v", ref, err)
	}
	if got, err := ReadSites(set, ref); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := ReadSites(set, disk.Ref{}); err != nil || len(got) > 0 {
		t.Errorf("no extensions: got %v, %v", got, err)
	}
	ref.Len--
	if _, err := ReadSites(set, ref); err == nil {
		t.Error("a string of another length was accepted")
	}
}
