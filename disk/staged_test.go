package disk_test

import (
	"path"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestStaged: until it is complete a file has a name that no pattern of finished files matches. Stage replaces what a
// killed process has left, also under the name of earlier versions.
func TestStaged(t *testing.T) {
	m := memfs.New(1)
	disk.Must(t, m.MkdirAll("d"))
	disk.Must(t, disk.WriteFileAtomic(m, "d/.f.parquet", []byte("half")))
	for range 2 { // the second finds what the first has left
		f, err := disk.Stage(m, "d/f.parquet")
		disk.Must(t, err)
		_, err = f.Write([]byte("whole"))
		disk.Must(t, err)
		names, err := m.List("d")
		disk.Must(t, err)
		if len(names) != 1 {
			t.Fatalf("files %q, want one", names)
		}
		if match, _ := path.Match("*.parquet", names[0]); match {
			t.Errorf("*.parquet matches the unfinished %s", names[0])
		}
	}
	f, err := disk.Stage(m, "d/f.parquet")
	disk.Must(t, err)
	_, err = f.Write([]byte("whole"))
	disk.Must(t, err)
	disk.Must(t, f.End())
	disk.Must(t, f.Rename())
	f.Abort()
	if names, err := m.List("d"); err != nil || !slices.Equal(names, []string{"f.parquet"}) {
		t.Errorf("files %q, %v", names, err)
	}
	if got := string(disk.Content(t, m, "d/f.parquet")); got != "whole" {
		t.Errorf("content %q", got)
	}
}
