package state

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestBarred: the keys of files of any size are found, and no others; files that are not complete do not count.
func TestBarred(t *testing.T) {
	fs := memfs.New(1)
	s := NewSaved(fs, []string{"."}, nil)
	if got, err := s.Barred(1, 2); err != nil || len(got) != 0 {
		t.Errorf("without an erasure %v, %v", got, err)
	}
	dir := s.Set.Path(0, ErasedDir)
	if err := fs.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	write := func(name string, keys ...uint64) {
		t.Helper()
		to, err := disk.Stage(fs, dir+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		w := NewKeyWriter(to)
		for _, key := range keys {
			err = w.Add(key)
		}
		if err == nil {
			err = w.End()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var many []uint64
	for i := range uint64(20_000) {
		many = append(many, 1000+10*i)
	}
	write("000001"+ErasedKeys, many...)
	write("000001" + AskedKeys)
	write("000002"+ErasedKeys, 7)
	write("000002"+AskedKeys, 3, 5)
	write(".000003"+ErasedKeys, 4)
	got, err := s.Barred(1, 3, 4, 5, 6, 7, 8, 999, 1000, 1001, 5000, 200_990, 201_000)
	want := []uint64{3, 5, 7, 1000, 5000, 200_990}
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("barred %v, %v, want %d", got, err, want)
	}
	ended, all := 0, 0
	err = s.EachErasedKey(func(uint64) error { ended++; return nil })
	if err == nil {
		err = s.EachBarredKey(func(uint64) error { all++; return nil })
	}
	if fmt.Sprint(ended, all, err) != "20001 20003 <nil>" {
		t.Errorf("%d keys ended, %d barred: %v", ended, all, err)
	}
}
