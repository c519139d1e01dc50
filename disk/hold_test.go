package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

func second[T any](_ T, err error) error { return err }

// TestHolder: a held file is readable after its removal, its renaming, and not after its replacement; its release
// carries the removal out.
func TestHolder(t *testing.T) {
	fsys := memfs.New(1)
	h := disk.NewHolder(fsys)
	put := func(name, text string) {
		t.Helper()
		if err := disk.WriteFileAtomic(h, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		f, err := h.OpenHeld(name)
		must(err)
		defer f.Close()
		var b [1]byte
		must(disk.ReadFull(f, b[:], 0))
		return string(b[:])
	}
	must(fsys.MkdirAll("d"))
	for _, name := range []string{"d/a", "d/b", "d/c", "d/e"} {
		put(name, name[2:])
		h.Hold(name)
	}
	must(h.Remove("d/a"))
	if err := h.Remove("d/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the second removal: %v", err)
	}
	must(h.Rename("d/b", "d/b2"))
	must(h.Rename("d/b2", "d/b3"))
	must(h.Remove("d/b3"))
	put("d/c", "x")
	if names, err := h.List("d"); err != nil || strings.Join(names, " ") != "c e" {
		t.Errorf("the directory has %v, %v", names, err)
	}
	for _, err := range []error{second(h.Size("d/a")), second(h.Open("d/a")), second(h.OpenRead("d/b3")),
		h.Rename("d/a", "d/f")} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a removed file: %v", err)
		}
	}
	if got := read("d/a") + read("d/b") + read("d/e"); got != "abe" {
		t.Errorf("read %q", got)
	}
	if _, err := h.OpenHeld("d/c"); !errors.Is(err, disk.ErrReplaced) {
		t.Errorf("open of a replaced file: %v", err)
	}
	must(h.Release("d/a"))
	for name, want := range map[string]bool{"d/a": false, "d/b3": true} {
		if _, err := fsys.Size(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(h.ReleaseAll())
	for name, want := range map[string]bool{"d/b3": false, "d/c": true, "d/e": true} {
		if _, err := fsys.Size(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := h.Held(); n != 0 {
		t.Errorf("%d files are held", n)
	}
}

// TestHolderDirectory: a directory without other files than removed ones is removed, and its name may be used again.
func TestHolderDirectory(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []bool{false, true} {
		fsys := memfs.New(1)
		h := disk.NewHolder(fsys)
		must(h.MkdirAll("d/q"))
		must(disk.WriteFileAtomic(h, "d/q/a", []byte("a")))
		must(disk.WriteFileAtomic(h, "d/q/b", []byte("b")))
		h.Hold("d/q/a")
		must(h.Remove("d/q/a"))
		if err := h.Remove("d/q"); err == nil {
			t.Fatal("a directory with another file was removed")
		}
		must(h.Remove("d/q/b"))
		must(h.Remove("d/q"))
		names, err := h.List("d")
		if _, gone := h.List("d/q"); err != nil || len(names) > 0 || !errors.Is(gone, fs.ErrNotExist) {
			t.Errorf("a removed directory: %v, %v, %v", names, err, gone)
		}
		if again {
			must(h.MkdirAll("d/q"))
			f, err := h.Create("d/q/a")
			must(err)
			must(f.Close())
			if _, err := h.OpenHeld("d/q/a"); !errors.Is(err, disk.ErrReplaced) {
				t.Errorf("open of a file whose name has another: %v", err)
			}
		}
		must(h.ReleaseAll())
		names, err = fsys.List("d/q")
		if got := err == nil && len(names) == 1; got != again || !again && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("used again %t: %v, %v", again, names, err)
		}
	}
}

// TestHolderMode: permissions and devices are those of the file system below.
func TestHolderMode(t *testing.T) {
	h, name := disk.NewHolder(disk.NewQuota(disk.OS(), disk.QuotaOptions{})), t.TempDir()+"/f"
	if err := disk.WriteFileAtomic(h, name, nil); err != nil {
		t.Fatal(err)
	}
	if err := disk.Chmod(h, name, 0o644); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got, want := disk.Device(h, name), disk.Device(disk.OS(), name); got != want {
		t.Errorf("device %q, want %q", got, want)
	}
}
