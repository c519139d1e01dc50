package disk_test

import (
	"errors"
	"io/fs"
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
