package memfs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"drumbeat/disk"
)

var seedFlag = flag.Uint64("seed", 1, "seed of the random tests")

func mustCreate(t *testing.T, fsys disk.FS, name string) disk.File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	return f
}

func mustWrite(t *testing.T, f disk.File, p []byte, off int64) {
	t.Helper()
	if n, err := f.WriteAt(p, off); n != len(p) || err != nil {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, fsys disk.FS, name string) []byte {
	t.Helper()
	b, err := disk.ReadFile(fsys, name)
	must(t, err)
	return b
}

// TestMemCrashKeepsSynced checks over many seeds that synced bytes and names survive and that each unsynced
// byte is the old one, the new one or zero.
func TestMemCrashKeepsSynced(t *testing.T) {
	sizes := map[int]int{}
	for seed := *seedFlag; seed < *seedFlag+300; seed++ {
		m := New(seed)
		must(t, m.MkdirAll("a/b"))
		f := mustCreate(t, m, "a/b/f")
		old := bytes.Repeat([]byte("o"), 3*memBlockBytes+100)
		mustWrite(t, f, old, 0)
		must(t, m.SyncFS("a"))
		mustWrite(t, f, bytes.Repeat([]byte("n"), 4*memBlockBytes), 2*memBlockBytes)
		m2 := m.Crash()
		if _, err := f.Size(); !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("seed %d: old handle after crash: %v", seed, err)
		}
		got := content(t, m2, "a/b/f")
		sizes[len(got)]++
		if len(got) < len(old) || len(got) > 6*memBlockBytes {
			t.Fatalf("seed %d: %d bytes after crash", seed, len(got))
		}
		if !bytes.Equal(got[:2*memBlockBytes], old[:2*memBlockBytes]) {
			t.Fatalf("seed %d: synced bytes changed", seed)
		}
		for i, c := range got[2*memBlockBytes:] {
			if c != 'n' && c != 'o' && (c != 0 || i < memBlockBytes) {
				t.Fatalf("seed %d: byte %d is %q", seed, 2*memBlockBytes+i, c)
			}
		}
	}
	if len(sizes) < 5 {
		t.Errorf("only %d different lengths after 300 crashes", len(sizes))
	}
}

// TestMemCrashNames checks names: unsynced ones in either state, renames atomic, synced ones kept.
func TestMemCrashNames(t *testing.T) {
	seen := map[string]int{}
	for seed := *seedFlag; seed < *seedFlag+200; seed++ {
		m := New(seed)
		must(t, m.MkdirAll("d"))
		must(t, m.SyncDir("."))
		f := mustCreate(t, m, "d/current")
		mustWrite(t, f, []byte("old"), 0)
		must(t, f.Sync())
		must(t, m.SyncDir("d"))
		g := mustCreate(t, m, "d/temp")
		mustWrite(t, g, []byte("new"), 0)
		must(t, g.Sync())
		must(t, m.Rename("d/temp", "d/current"))
		mustCreate(t, m, "d/other")
		m = m.Crash()
		names, err := m.List("d")
		must(t, err)
		c := string(content(t, m, "d/current"))
		if c != "old" && c != "new" {
			t.Fatalf("seed %d: current holds %q", seed, c)
		}
		seen[fmt.Sprint(names, c)]++
	}
	for _, want := range []string{"[current]old", "[current temp]old", "[current]new", "[current other]old"} {
		if seen[want] == 0 {
			t.Errorf("never seen: %s; seen: %v", want, seen)
		}
	}
	for got := range seen {
		if got == "[current temp]new" {
			t.Errorf("rename not atomic: %v", seen)
		}
	}
}

// TestMemModel compares an FS with byte slices under random writes, truncations, syncs and kills.
func TestMemModel(t *testing.T) {
	t.Logf("seed %d", *seedFlag)
	rng := rand.New(rand.NewPCG(*seedFlag, 1))
	m := New(*seedFlag)
	model := map[string][]byte{}
	for step := range 5000 {
		name := fmt.Sprintf("f%d", rng.IntN(4))
		f, err := m.Open(name)
		if _, ok := model[name]; !ok {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("step %d: open of absent %s: %v", step, name, err)
			}
			f = mustCreate(t, m, name)
			model[name] = []byte{}
		}
		b := model[name]
		switch op := rng.IntN(10); {
		case op < 5:
			off, p := rng.IntN(4*memBlockBytes), make([]byte, rng.IntN(2*memBlockBytes))
			for i := range p {
				p[i] = byte(rng.Uint32()) | 1
			}
			mustWrite(t, f, p, int64(off))
			if len(p) > 0 && off+len(p) > len(b) {
				b = append(b, make([]byte, off+len(p)-len(b))...)
			}
			copy(b[min(off, len(b)):], p)
			model[name] = b
		case op == 5:
			n := rng.IntN(5 * memBlockBytes)
			must(t, f.Truncate(int64(n)))
			if n > len(b) {
				b = append(b, make([]byte, n-len(b))...)
			}
			model[name] = b[:n:n]
		case op == 6:
			must(t, f.Sync())
		case op == 7:
			must(t, m.Remove(name))
			delete(model, name)
		case op == 8:
			m = m.Kill()
		case op == 9:
			must(t, m.SyncFS("."))
			m = m.Crash()
		}
		var used int64
		for name, want := range model {
			used += int64(len(want))
			if got := content(t, m, name); !bytes.Equal(got, want) {
				t.Fatalf("step %d: %s has %d bytes, want %d, or differs", step, name, len(got), len(want))
			}
		}
		if m.used != used {
			t.Fatalf("step %d: used %d, want %d", step, m.used, used)
		}
	}
}

func TestMemCrashAfter(t *testing.T) {
	m := New(*seedFlag)
	f := mustCreate(t, m, "f") // operation 1
	m.CrashAfter(2)
	mustWrite(t, f, []byte("12345678"), 0)
	n, err := f.WriteAt([]byte("abc"), 8)
	if !errors.Is(err, disk.ErrCrashed) {
		t.Fatalf("operation at the crash point: %v", err)
	}
	if _, err := m.List("."); !errors.Is(err, disk.ErrCrashed) {
		t.Fatalf("operation after the crash: %v", err)
	}
	if got := m.Ops(); got != 3 {
		t.Errorf("Ops = %d, want 3", got)
	}
	if got, want := string(content(t, m.Kill(), "f")), "12345678abc"[:8+n]; got != want {
		t.Errorf("after kill: %q, want %q", got, want)
	}
}

func TestMemCapacity(t *testing.T) {
	m := New(1)
	m.SetCapacity(100)
	f := mustCreate(t, m, "f")
	n, err := f.WriteAt(make([]byte, 150), 0)
	if n != 100 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("WriteAt = %d, %v; want 100, ENOSPC", n, err)
	}
	mustWrite(t, f, []byte("overwriting needs no room"), 0)
	if free, total, err := m.Space("."); free != 0 || total != 100 || err != nil {
		t.Errorf("Space = %d, %d, %v", free, total, err)
	}
	if err := f.Preallocate(100, 1); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Preallocate = %v, want ENOSPC", err)
	}
	must(t, m.Remove("f"))
	if free, _, _ := m.Space("."); free != 100 {
		t.Errorf("free after remove = %d, want 100", free)
	}
}

// TestMemQuota checks that a quota cuts writes short and does not show in Space.
func TestMemQuota(t *testing.T) {
	m := New(1)
	f := mustCreate(t, m, "f")
	m.SetQuota(100)
	n, err := f.WriteAt(make([]byte, 150), 0)
	if n != 100 || !errors.Is(err, syscall.EDQUOT) || m.QuotaErrors() != 1 {
		t.Fatalf("WriteAt = %d, %v, %d errors; want 100, EDQUOT, 1", n, err, m.QuotaErrors())
	}
	mustWrite(t, f, []byte("overwriting needs no room"), 0)
	if free, _, err := m.Space("."); free < 1<<30 || err != nil {
		t.Errorf("Space = %d, %v", free, err)
	}
	m.SetQuota(0)
	mustWrite(t, f, make([]byte, 50), 100)
}

func TestMemLock(t *testing.T) {
	m := New(1)
	l, err := m.Lock(".")
	must(t, err)
	if _, err := m.Lock("."); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	must(t, l.Close())
	_, err = m.Lock(".")
	must(t, err)
	_, err = m.Crash().Lock(".")
	must(t, err)
}

// TestMemMount checks that a SyncFS doesn't reach another mount.
func TestMemMount(t *testing.T) {
	lost := 0
	for seed := *seedFlag; seed < *seedFlag+50; seed++ {
		m := New(seed)
		for _, dir := range []string{"a", "b"} {
			must(t, m.Mount(dir))
			f := mustCreate(t, m, dir+"/f")
			mustWrite(t, f, []byte("content"), 0)
		}
		if err := m.Rename("a/f", "b/g"); !errors.Is(err, syscall.EXDEV) {
			t.Fatalf("rename to another mount: %v", err)
		}
		must(t, m.SyncFS("a"))
		m = m.Crash()
		if got := string(content(t, m, "a/f")); got != "content" {
			t.Fatalf("seed %d: synced file has %q", seed, got)
		}
		if f, err := m.OpenRead("b/f"); errors.Is(err, fs.ErrNotExist) {
			lost++
		} else if n, err := f.Size(); n < 7 || err != nil {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no crash of 50 lost anything of the other mount")
	}
}

// TestHeldBytes checks that a removed file counts until its removal is durable.
func TestHeldBytes(t *testing.T) {
	m := New(1)
	f, err := m.Create("f")
	must(t, err)
	want := func(blocks int64) {
		t.Helper()
		if got := m.HeldBytes(); got != blocks*memBlockBytes {
			t.Errorf("got %d bytes, want %d blocks", got, blocks)
		}
	}
	want(0)
	if _, err := f.WriteAt(make([]byte, 3*memBlockBytes), 0); err != nil {
		t.Fatal(err)
	}
	want(3)
	must(t, errors.Join(m.SyncFS("."), m.Remove("f")))
	want(3)
	must(t, errors.Join(f.Close(), m.SyncFS(".")))
	want(0)
}
