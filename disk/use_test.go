package disk_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

func TestMeterUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := memfs.NewFault(memfs.New(1), func(o memfs.Op, name string) error {
			switch {
			case !strings.HasPrefix(name, "b"):
			case o == memfs.OpRead:
				time.Sleep(2 * time.Second)
			case o == memfs.OpWrite, o == memfs.OpSync:
				time.Sleep(3 * time.Second)
			case o == memfs.OpSyncFS:
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		m := disk.NewMeter(slow, "a", "./b/", "b")
		for _, dir := range []string{"a", "b", "bb"} {
			disk.Must(t, m.MkdirAll(dir))
		}
		disk.MustWrite(t, disk.MustCreate(t, m, "a/f"), make([]byte, 10), 0)
		disk.MustWrite(t, disk.MustCreate(t, m, "bb/f"), make([]byte, 10), 0)
		f := disk.MustCreate(t, m, "b/f")
		disk.MustWrite(t, f, make([]byte, 100), 0) // 3 s
		disk.Must(t, f.Sync())                     // 3 s
		disk.Must(t, m.SyncFS("b"))                // 5 s
		var wg sync.WaitGroup
		for range 3 { // together 2 s of reads
			wg.Go(func() { disk.Must(t, disk.ReadFull(f, make([]byte, 20), 0)) })
		}
		wg.Go(func() { disk.MustWrite(t, f, make([]byte, 7), 0) }) // 3 s, from the same instant
		time.Sleep(time.Second)
		running := disk.Use{WrittenBytes: 100, Reading: time.Second, Writing: 12 * time.Second, Busy: 12 * time.Second}
		if got := m.Use("b"); got != running {
			t.Errorf("while operations run: got %+v, want %+v", got, running)
		}
		wg.Wait()
		want := disk.Use{ReadBytes: 60, WrittenBytes: 107, Reading: 2 * time.Second, Writing: 14 * time.Second,
			Busy: 14 * time.Second}
		if got := m.Use("b"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got, want := m.Use("b").Sub(running), (disk.Use{ReadBytes: 60, WrittenBytes: 7, Reading: time.Second,
			Writing: 2 * time.Second, Busy: 2 * time.Second}); got != want {
			t.Errorf("since then: got %+v, want %+v", got, want)
		}
		if got, want := m.Use("a"), (disk.Use{WrittenBytes: 10}); got != want {
			t.Errorf("of the neighbour: got %+v, want %+v", got, want)
		}
		if got := m.Use("bb"); got != (disk.Use{}) {
			t.Errorf("of a directory that is not measured: got %+v", got)
		}
	})
}

func TestMeterUseOfPaths(t *testing.T) {
	for _, c := range []struct{ dir, file string }{
		{".", "f"}, {"/", "/x/f"}, {"/d/", "/d/e/f"}, {"./d", "d/f"},
	} {
		mem := memfs.New(1)
		m := disk.NewMeter(mem, "/other", c.dir)
		disk.Must(t, m.MkdirAll("/x"))
		disk.Must(t, m.MkdirAll("/d/e"))
		disk.Must(t, m.MkdirAll("d"))
		disk.MustWrite(t, disk.MustCreate(t, m, c.file), make([]byte, 5), 0)
		if got := m.Use(c.dir).WrittenBytes; got != 5 {
			t.Errorf("%s in %s: got %d bytes", c.file, c.dir, got)
		}
	}
}

func TestDevice(t *testing.T) {
	dir := t.TempDir()
	got := disk.Device(disk.NewMeter(disk.OS()), dir)
	major, minor, ok := strings.Cut(got, ":")
	if !ok || major == "" || minor == "" || disk.Device(disk.Direct(), dir) != got {
		t.Errorf("got %q", got)
	}
	if got := disk.Device(disk.OS(), dir+"/missing"); got != "" {
		t.Errorf("of a missing directory: got %q", got)
	}
	if got := disk.Device(memfs.New(1), "d"); got != "" {
		t.Errorf("of memfs: got %q", got)
	}
}
