package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestFSContract runs the same operations on the real and the memory file system.
func TestFSContract(t *testing.T) {
	for _, impl := range []struct {
		name string
		fs   FS
		root string
	}{
		{"os", OS(), t.TempDir()},
		{"mem", NewMem(1), "."},
		{"meter", NewMeter(NewMem(1)), "/"},
		{"fault", NewFault(NewMem(1), func(Op, string) error { return nil }), "."},
	} {
		t.Run("fs="+impl.name, func(t *testing.T) { testFSContract(t, impl.fs, impl.root) })
	}
}

func testFSContract(t *testing.T, fsys FS, root string) {
	dir := path.Join(root, "x/y")
	must(t, fsys.MkdirAll(dir))
	must(t, fsys.MkdirAll(dir))
	name := path.Join(dir, "f")
	for what, call := range map[string]func() error{
		"open":     func() error { _, err := fsys.Open(name); return err },
		"openread": func() error { _, err := fsys.OpenRead(name); return err },
		"remove":   func() error { return fsys.Remove(name) },
		"rename":   func() error { return fsys.Rename(name, name+"2") },
		"size":     func() error { _, err := fsys.Size(name); return err },
		"list":     func() error { _, err := fsys.List(name); return err },
		"create":   func() error { _, err := fsys.Create(path.Join(root, "no/such")); return err },
		"syncdir":  func() error { return fsys.SyncDir(name) },
		"syncfs":   func() error { return fsys.SyncFS(name) },
	} {
		if err := call(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of an absent name: %v", what, err)
		}
	}
	f := mustCreate(t, fsys, name)
	if _, err := fsys.Create(name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second create: %v", err)
	}
	if f.Name() != name {
		t.Errorf("Name = %s, want %s", f.Name(), name)
	}
	mustWrite(t, f, []byte("hello"), 3)
	must(t, f.Preallocate(0, 1<<20))
	must(t, f.Sync())
	if got := string(content(t, fsys, name)); got != "\x00\x00\x00hello" {
		t.Errorf("content %q", got)
	}
	must(t, f.Truncate(5))
	if n, err := f.Size(); n != 5 || err != nil {
		t.Errorf("Size = %d, %v", n, err)
	}
	must(t, f.Close())
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	r, err := fsys.OpenRead(name)
	must(t, err)
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Error("write to a file opened for reading succeeded")
	}
	if err := ReadFull(r, make([]byte, 6), 0); !errors.As(err, new(*CorruptError)) {
		t.Errorf("ReadFull past the end: %v", err)
	}
	must(t, r.Close())
	g := mustCreate(t, fsys, path.Join(dir, "b"))
	must(t, g.Close())
	must(t, fsys.Rename(name, path.Join(dir, "b")))
	if err := fsys.Remove(dir); err == nil {
		t.Error("non-empty directory removed")
	}
	names, err := fsys.List(dir)
	if !slices.Equal(names, []string{"b"}) || err != nil {
		t.Errorf("List = %v, %v", names, err)
	}
	must(t, fsys.SyncDir(dir))
	must(t, fsys.SyncFS(dir))
	if free, total, err := fsys.Space(dir); free <= 0 || total < free || err != nil {
		t.Errorf("Space = %d, %d, %v", free, total, err)
	}
	l, err := fsys.Lock(dir)
	must(t, err)
	if _, err := fsys.Lock(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	must(t, l.Close())
}

// TestWriteFileAtomic stops the machine at every operation of a replacement, both ways.
func TestWriteFileAtomic(t *testing.T) {
	for n := 1; ; n++ {
		for _, crash := range []bool{false, true} {
			m := NewMem(uint64(n))
			must(t, m.MkdirAll("d"))
			must(t, m.SyncFS("d"))
			must(t, WriteFileAtomic(m, "d/f", []byte("old")))
			before := m.Ops()
			m.CrashAfter(n)
			err := WriteFileAtomic(m, "d/f", []byte("new"))
			if n > 20 {
				t.Logf("%d operations", m.Ops()-before)
				must(t, err)
				return
			}
			if crash {
				m = m.Crash()
			} else {
				m = m.Kill()
			}
			got := string(content(t, m, "d/f"))
			if got != "old" && got != "new" || err == nil && got != "new" {
				t.Fatalf("stopped at operation %d (power cut %v): %q, %v", n, crash, got, err)
			}
			must(t, WriteFileAtomic(m, "d/f", []byte("newer")))
			if got := string(content(t, m.Crash(), "d/f")); got != "newer" {
				t.Fatalf("after recovery: %q", got)
			}
		}
	}
}

func TestMatchIdentities(t *testing.T) {
	m := NewMem(1)
	fresh, err := MatchIdentities(m, []string{"a", "b", "c"}, "state")
	must(t, err)
	set, err := Label(fresh, "crawl1", "state")
	must(t, err)
	got, err := MatchIdentities(m, []string{"c", "a", "b"}, "state")
	must(t, err)
	if !slices.Equal(got.Set.Paths, set.Paths) || got.Crawl != "crawl1" || got.New != nil {
		t.Errorf("match = %+v, want paths %v", got, set.Paths)
	}
	id, err := ReadIdentity(m, "a")
	if want := (Identity{V: 1, Crawl: "crawl1", Number: 0, Count: 3, Kind: "state"}); id != want || err != nil {
		t.Errorf("identity %+v, %v; want %+v", id, err, want)
	}
	other, err := MatchIdentities(m, []string{"z"}, "state")
	must(t, err)
	_, err = Label(other, "crawl2", "state")
	must(t, err)
	must(t, m.MkdirAll("full/of"))
	for want, paths := range map[string][]string{
		"directory 1 of 3 (state) of crawl crawl1 is missing": {"a", "c"},
		"z belongs to crawl crawl2":                           {"a", "b", "c", "z"},
		"both directory 0":                                    {"a", "a", "b", "c"},
		"full has no drumbeat-dir.json but isn't empty":       {"a", "b", "c", "full"},
	} {
		if _, err := MatchIdentities(m, paths, "state"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("match %v: %v; want %q", paths, err, want)
		}
	}
	if _, err := MatchIdentities(m, []string{"a", "b", "c"}, "out"); err == nil {
		t.Error("directory of another kind accepted")
	}
}

// TestLabelCrash adds directories with a stop at every operation; it must always be possible to go on.
func TestLabelCrash(t *testing.T) {
	paths := []string{"a", "b", "c", "d"}
	for n := 1; ; n++ {
		m := NewMem(uint64(n))
		fresh, err := MatchIdentities(m, paths[:2], "state")
		must(t, err)
		_, err = Label(fresh, "c", "state")
		must(t, err)
		m.CrashAfter(n)
		match, err := MatchIdentities(m, paths, "state")
		must(t, err)
		if !slices.Equal(match.New, paths[2:]) {
			t.Fatalf("new: %v", match.New)
		}
		_, err = Label(match, "c", "state")
		if err == nil {
			return
		}
		m = m.Crash()
		match, err = MatchIdentities(m, paths, "state")
		if err != nil {
			t.Fatalf("after a crash at operation %d: %v", n, err)
		}
		set, err := Label(match, "c", "state")
		must(t, err)
		match, err = MatchIdentities(m.Crash(), paths, "state")
		must(t, err)
		if !slices.Equal(match.Set.Paths, paths) || !slices.Equal(set.Paths, paths) {
			t.Fatalf("after a crash at operation %d: %v", n, match.Set.Paths)
		}
	}
}

func TestAlloc(t *testing.T) {
	if b := Alloc(0); b != nil {
		t.Error("Alloc(0) isn't nil")
	}
	Free(nil)
	b := Alloc(10000)
	if len(b) != 10000 || slices.Max(b) != 0 {
		t.Errorf("%d bytes, max %d", len(b), slices.Max(b))
	}
	for i := range b {
		b[i] = 1
	}
	Free(b[:5])
}

func TestMeterCounts(t *testing.T) {
	m := NewMeter(NewMem(1))
	f := mustCreate(t, m, "f")
	mustWrite(t, f, make([]byte, 100), 0)
	must(t, f.Sync())
	must(t, ReadFull(f, make([]byte, 30), 0))
	want := Counts{Reads: 1, ReadBytes: 30, Writes: 1, WrittenBytes: 100, Syncs: 1, Names: 1}
	if got := m.Counts(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFaultEveryOperation(t *testing.T) {
	for op := OpCreate; op <= OpClose; op++ {
		boom := fmt.Errorf("boom %s", op)
		armed := false
		fsys := NewFault(NewMem(1), func(o Op, name string) error {
			if armed && o == op {
				return boom
			}
			return nil
		})
		f := mustCreate(t, fsys, "f")
		armed = true
		errs := map[Op]error{}
		_, errs[OpCreate] = fsys.Create("g")
		_, errs[OpOpen] = fsys.Open("f")
		_, errs[OpOpenRead] = fsys.OpenRead("f")
		errs[OpMkdirAll] = fsys.MkdirAll("d")
		_, errs[OpList] = fsys.List(".")
		_, errs[OpSize] = fsys.Size("f")
		errs[OpSyncDir] = fsys.SyncDir(".")
		errs[OpSyncFS] = fsys.SyncFS(".")
		_, _, errs[OpSpace] = fsys.Space(".")
		_, errs[OpLock] = fsys.Lock(".")
		_, errs[OpWrite] = f.WriteAt([]byte("x"), 0)
		_, errs[OpRead] = f.ReadAt(make([]byte, 1), 0)
		errs[OpTruncate] = f.Truncate(0)
		errs[OpSync] = f.Sync()
		errs[OpPreallocate] = f.Preallocate(0, 1)
		errs[OpClose] = f.Close()
		errs[OpRename] = fsys.Rename("f", "h")
		errs[OpRemove] = fsys.Remove("h")
		for o, err := range errs {
			afterFault := op == OpRename && o == OpRemove || op == OpWrite && o == OpRead
			if o == op && !errors.Is(err, boom) || o != op && err != nil && !afterFault {
				t.Errorf("fault in %s: %s returned %v", op, o, err)
			}
		}
	}
}
