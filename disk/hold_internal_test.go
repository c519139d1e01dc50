package disk

import "testing"

// watchedFS tells when a Holder lists or removes.
type watchedFS struct {
	FS
	during func()
}

func (w *watchedFS) List(dir string) ([]string, error) {
	w.during()
	return w.FS.List(dir)
}

func (w *watchedFS) Remove(name string) error {
	w.during()
	return w.FS.Remove(name)
}

// TestHolderReleaseWaits: a release that carries a removal out, and a list of the directory, wait for each other. A
// list would otherwise have the name of a file that is gone, and a new file of that name would be removed.
func TestHolderReleaseWaits(t *testing.T) {
	w := &watchedFS{FS: OS(), during: func() {}}
	h, dir := NewHolder(w), t.TempDir()
	name := dir + "/f"
	if err := WriteFileAtomic(h, name, []byte("x")); err != nil {
		t.Fatal(err)
	}
	h.Hold(name)
	if err := h.Remove(name); err != nil {
		t.Fatal(err)
	}
	calls := 0
	w.during = func() {
		calls++
		if !h.keeps.Load() {
			t.Error("others do not ask for the lock")
		}
		if h.mu.TryLock() {
			h.mu.Unlock()
			t.Error("the lock is free")
		}
	}
	if names, err := h.List(dir); err != nil || len(names) > 0 {
		t.Errorf("the directory has %v, %v", names, err)
	}
	if err := h.Release(name); err != nil {
		t.Fatal(err)
	}
	if calls != 2 || h.keeps.Load() {
		t.Errorf("%d calls; files are held: %v", calls, h.keeps.Load())
	}
}
