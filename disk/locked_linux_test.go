package disk_test

import (
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestLocked checks that Locked sees a held lock, on the real and the memory file system, and takes none.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	mem := memfs.New(1)
	disk.Must(t, mem.MkdirAll(dir))
	for name, fsys := range map[string]disk.FS{"os": disk.OS(), "mem": mem} {
		want := func(held bool) {
			t.Helper()
			if got, known := disk.Locked(fsys, dir); !known || got != held {
				t.Errorf("%s: held %v, known %v, want %v", name, got, known, held)
			}
		}
		want(false)
		l, err := fsys.Lock(dir)
		disk.Must(t, err)
		want(true)
		disk.Must(t, l.Close())
		want(false)
		if l, err = fsys.Lock(dir); err != nil {
			t.Errorf("%s: the lock can't be taken after Locked: %v", name, err)
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, known := disk.Locked(disk.NewMeter(mem), dir); known {
		t.Error("a file system that can't tell is believed")
	}
}

func TestHoldsLock(t *testing.T) {
	const list = "1: POSIX  ADVISORY  READ  5433 08:01:7864448 128 128\n" +
		"2: FLOCK  ADVISORY  WRITE 2001 08:01:7864554 0 EOF\n" +
		"2: -> FLOCK  ADVISORY  WRITE 2002 08:01:7864555 0 EOF\n3: FLOCK\n4: FLOCK  ADVISORY  WRITE -1 08:01:9 0 EOF\n"
	for inode, want := range map[uint64]int{7864554: 2001, 7864448: 0, 7864555: 0, 554: 0, 9: -1} {
		if got, err := disk.HoldsLock(strings.NewReader(list), inode); err != nil || got != want {
			t.Errorf("inode %d: %v, %v, want %v", inode, got, err, want)
		}
	}
}
