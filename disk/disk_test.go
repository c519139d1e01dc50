package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestFSContract runs the same operations on the real and the memory file system.
func TestFSContract(t *testing.T) {
	for _, impl := range []struct {
		name string
		fs   disk.FS
		root string
	}{
		{"os", disk.OS(), t.TempDir()},
		{"mem", memfs.New(1), "."},
		{"meter", disk.NewMeter(memfs.New(1)), "/"},
		{"fault", memfs.NewFault(memfs.New(1), func(memfs.Op, string) error { return nil }), "."},
	} {
		t.Run("fs="+impl.name, func(t *testing.T) { testFSContract(t, impl.fs, impl.root) })
	}
}

// testAbsent: each operation on a name that does not exist must say so.
func testAbsent(t *testing.T, fsys disk.FS, root, name string) {
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
}

func testFSContract(t *testing.T, fsys disk.FS, root string) {
	dir := path.Join(root, "x/y")
	disk.Must(t, fsys.MkdirAll(dir))
	disk.Must(t, fsys.MkdirAll(dir))
	name := path.Join(dir, "f")
	testAbsent(t, fsys, root, name)
	f := disk.MustCreate(t, fsys, name)
	if _, err := fsys.Create(name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second create: %v", err)
	}
	if f.Name() != name {
		t.Errorf("Name = %s, want %s", f.Name(), name)
	}
	disk.MustWrite(t, f, []byte("hello"), 3)
	disk.Must(t, f.Preallocate(0, 1<<20))
	disk.Must(t, f.Sync())
	if got := string(disk.Content(t, fsys, name)); got != "\x00\x00\x00hello" {
		t.Errorf("content %q", got)
	}
	disk.Must(t, f.Truncate(5))
	if n, err := f.Size(); n != 5 || err != nil {
		t.Errorf("Size = %d, %v", n, err)
	}
	disk.Must(t, f.Close())
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	r, err := fsys.OpenRead(name)
	disk.Must(t, err)
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Error("write to a file opened for reading succeeded")
	}
	if err := disk.ReadFull(r, make([]byte, 6), 0); !errors.As(err, new(*disk.CorruptError)) {
		t.Errorf("ReadFull past the end: %v", err)
	}
	disk.Must(t, r.Close())
	g := disk.MustCreate(t, fsys, path.Join(dir, "b"))
	disk.Must(t, g.Close())
	disk.Must(t, fsys.Rename(name, path.Join(dir, "b")))
	if err := fsys.Remove(dir); err == nil {
		t.Error("non-empty directory removed")
	}
	names, err := fsys.List(dir)
	if !slices.Equal(names, []string{"b"}) || err != nil {
		t.Errorf("List = %v, %v", names, err)
	}
	disk.Must(t, fsys.SyncDir(dir))
	disk.Must(t, fsys.SyncFS(dir))
	if free, total, err := fsys.Space(dir); free <= 0 || total < free || err != nil {
		t.Errorf("Space = %d, %d, %v", free, total, err)
	}
	l, err := fsys.Lock(dir)
	disk.Must(t, err)
	if _, err := fsys.Lock(dir); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	disk.Must(t, l.Close())
}

// TestWriteFileAtomic stops the machine at every operation of a replacement, by a kill and by a power cut.
func TestWriteFileAtomic(t *testing.T) {
	for n := 1; ; n++ {
		for _, crash := range []bool{false, true} {
			m := memfs.New(uint64(n))
			disk.Must(t, m.MkdirAll("d"))
			disk.Must(t, m.SyncFS("d"))
			disk.Must(t, disk.WriteFileAtomic(m, "d/f", []byte("old")))
			before := m.Ops()
			m.CrashAfter(n)
			err := disk.WriteFileAtomic(m, "d/f", []byte("new"))
			if n > 20 {
				t.Logf("%d operations", m.Ops()-before)
				disk.Must(t, err)
				return
			}
			if crash {
				m = m.Crash()
			} else {
				m = m.Kill()
			}
			got := string(disk.Content(t, m, "d/f"))
			if got != "old" && got != "new" || err == nil && got != "new" {
				t.Fatalf("stopped at operation %d (power cut %v): %q, %v", n, crash, got, err)
			}
			disk.Must(t, disk.WriteFileAtomic(m, "d/f", []byte("newer")))
			if got := string(disk.Content(t, m.Crash(), "d/f")); got != "newer" {
				t.Fatalf("after recovery: %q", got)
			}
		}
	}
}

func TestMatchIdentities(t *testing.T) {
	m := memfs.New(1)
	fresh, err := disk.MatchIdentities(m, []string{"a", "b", "c"}, "state")
	disk.Must(t, err)
	set, err := disk.Label(fresh, "crawl1", "state")
	disk.Must(t, err)
	got, err := disk.MatchIdentities(m, []string{"c", "a", "b"}, "state")
	disk.Must(t, err)
	if !slices.Equal(got.Set.Paths, set.Paths) || got.Crawl != "crawl1" || got.New != nil {
		t.Errorf("match = %+v, want paths %v", got, set.Paths)
	}
	id, err := disk.ReadIdentity(m, "a")
	if want := (disk.Identity{V: 1, Crawl: "crawl1", Number: 0, Count: 3, Kind: "state"}); id != want || err != nil {
		t.Errorf("identity %+v, %v; want %+v", id, err, want)
	}
	other, err := disk.MatchIdentities(m, []string{"z"}, "state")
	disk.Must(t, err)
	_, err = disk.Label(other, "crawl2", "state")
	disk.Must(t, err)
	disk.Must(t, m.MkdirAll("full/of"))
	for want, paths := range map[string][]string{
		"directory 1 of 3 (state) of crawl crawl1 is missing":           {"a", "c"},
		"z belongs to crawl crawl2":                                     {"a", "b", "c", "z"},
		"both directory 0":                                              {"a", "a", "b", "c"},
		"full is not a drumbeat directory: it has no drumbeat-dir.json": {"a", "b", "c", "full"},
	} {
		if _, err := disk.MatchIdentities(m, paths, "state"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("match %v: %v; want %q", paths, err, want)
		}
	}
	if _, err := disk.MatchIdentities(m, []string{"a", "b", "c"}, "out"); err == nil {
		t.Error("directory of another kind accepted")
	}
}

// TestLabelCrash stops Label at every operation while it makes directories, and while it adds some. The next
// run must always succeed.
func TestLabelCrash(t *testing.T) {
	paths := []string{"a", "b", "c", "d"}
	for seed := *seedFlag; seed < *seedFlag+40; seed++ {
		for _, old := range []int{0, 2} {
			for n := 1; labelCrash(t, seed, n, paths, old); n++ {
			}
		}
	}
}

// labelCrash stops Label at an operation while it adds directories to those that are there. It returns false
// if Label has fewer.
func labelCrash(t *testing.T, seed uint64, n int, paths []string, old int) bool {
	t.Helper()
	m := memfs.New(seed)
	fresh, err := disk.MatchIdentities(m, paths[:old], "state")
	disk.Must(t, err)
	_, err = disk.Label(fresh, "c", "state")
	disk.Must(t, err)
	m.CrashAfter(n)
	match, err := disk.MatchIdentities(m, paths, "state")
	disk.Must(t, err)
	if !slices.Equal(match.New, paths[old:]) {
		t.Fatalf("new: %v", match.New)
	}
	if _, err = disk.Label(match, "c", "state"); err == nil {
		return false
	}
	m = m.Crash()
	match, err = disk.MatchIdentities(m, paths, "state")
	if err != nil {
		t.Fatalf("seed %d, %d directories, after a crash at operation %d: %v", seed, old, n, err)
	}
	set, err := disk.Label(match, "c", "state")
	disk.Must(t, err)
	match, err = disk.MatchIdentities(m.Crash(), paths, "state")
	disk.Must(t, err)
	if !slices.Equal(match.Set.Paths, paths) || !slices.Equal(set.Paths, paths) {
		t.Fatalf("seed %d, %d directories, after a crash at operation %d: %v", seed, old, n, match.Set.Paths)
	}
	return true
}

func TestAlloc(t *testing.T) {
	if b := disk.Alloc(0); b != nil {
		t.Error("Alloc(0) isn't nil")
	}
	disk.Free(nil)
	b := disk.Alloc(10000)
	if len(b) != 10000 || slices.Max(b) != 0 {
		t.Errorf("%d bytes, max %d", len(b), slices.Max(b))
	}
	for i := range b {
		b[i] = 1
	}
	disk.Free(b[:5])
}

func TestMeterCounts(t *testing.T) {
	m := disk.NewMeter(memfs.New(1))
	f := disk.MustCreate(t, m, "f")
	disk.MustWrite(t, f, make([]byte, 100), 0)
	disk.Must(t, f.Sync())
	disk.Must(t, disk.ReadFull(f, make([]byte, 30), 0))
	want := disk.Counts{Reads: 1, ReadBytes: 30, Writes: 1, WrittenBytes: 100, Syncs: 1, Names: 1}
	if got := m.Counts(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFaultEveryOperation(t *testing.T) {
	for op := memfs.OpCreate; op <= memfs.OpClose; op++ {
		boom := fmt.Errorf("boom %s", op)
		armed := false
		fsys := memfs.NewFault(memfs.New(1), func(o memfs.Op, name string) error {
			if armed && o == op {
				return boom
			}
			return nil
		})
		f := disk.MustCreate(t, fsys, "f")
		armed = true
		errs := map[memfs.Op]error{}
		_, errs[memfs.OpCreate] = fsys.Create("g")
		_, errs[memfs.OpOpen] = fsys.Open("f")
		_, errs[memfs.OpOpenRead] = fsys.OpenRead("f")
		errs[memfs.OpMkdirAll] = fsys.MkdirAll("d")
		_, errs[memfs.OpList] = fsys.List(".")
		_, errs[memfs.OpSize] = fsys.Size("f")
		errs[memfs.OpSyncDir] = fsys.SyncDir(".")
		errs[memfs.OpSyncFS] = fsys.SyncFS(".")
		_, _, errs[memfs.OpSpace] = fsys.Space(".")
		_, errs[memfs.OpLock] = fsys.Lock(".")
		_, errs[memfs.OpWrite] = f.WriteAt([]byte("x"), 0)
		_, errs[memfs.OpRead] = f.ReadAt(make([]byte, 1), 0)
		errs[memfs.OpTruncate] = f.Truncate(0)
		errs[memfs.OpSync] = f.Sync()
		errs[memfs.OpPreallocate] = f.Preallocate(0, 1)
		errs[memfs.OpClose] = f.Close()
		errs[memfs.OpRename] = fsys.Rename("f", "h")
		errs[memfs.OpRemove] = fsys.Remove("h")
		for o, err := range errs {
			afterFault := op == memfs.OpRename && o == memfs.OpRemove || op == memfs.OpWrite && o == memfs.OpRead
			if o == op && !errors.Is(err, boom) || o != op && err != nil && !afterFault {
				t.Errorf("fault in %s: %s returned %v", op, o, err)
			}
		}
	}
}
