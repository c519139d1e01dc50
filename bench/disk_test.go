package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk"
)

// small is a run that takes no time.
func small(dirs ...string) Disk {
	return Disk{Dirs: dirs, Bytes: 64 << 10, Chunks: []int{4 << 10, 16 << 10}, Repeats: 2,
		Alpha: 3.33, URLBytes: 110, LinksPerPage: 59, Share: 0.15}
}

// empty fails the test if something is left in a directory.
func empty(t *testing.T, f disk.FS, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if names, err := f.List(dir); err != nil || len(names) > 0 {
			t.Errorf("%s: got %q, %v, want it empty", dir, names, err)
		}
	}
}

// TestDisk: every kind of access is measured in each directory and in all; lines are Go benchmarks; nothing
// stays.
func TestDisk(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	r, err := RunDisk(t.Context(), small(dirs...))
	if err != nil {
		t.Fatal(err)
	}
	empty(t, disk.OS(), dirs...)
	directs := 1
	if !strings.Contains(strings.Join(r.Notes, "\n"), "has no O_DIRECT") {
		directs = 2
	}
	if want := 3 * 2 * directs * 3; len(r.Speeds) != want {
		t.Errorf("got %d speeds, want %d", len(r.Speeds), want)
	}
	for _, s := range r.Speeds {
		want := int64(64 << 10)
		if s.Group == "all" {
			want *= 2
		}
		if len(s.Spans) != 2 || s.Bytes[0] != want || s.Bytes[1] != want || s.Rate() <= 0 {
			t.Errorf("%+v: want 2 times %d bytes", s, want)
		}
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "Directories 0 and 1 are on one file system") {
		t.Errorf("got notes %q", r.Notes)
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^BenchmarkDisk/op=(write|read|mixed)/chunk=(4|16)KiB/direct=(true|false)/dir=(0|1|all) \t +1\t +\d+ ns/op\t +[0-9.]+ MB/s$`)
	if got, want := len(line.FindAllString(b.String(), -1)), 2*len(r.Speeds); got != want {
		t.Errorf("got %d lines, want %d:\n%s", got, want, b.String())
	}
	if !strings.Contains(b.String(), "Best of directory all: W = ") {
		t.Errorf("no best W in\n%s", b.String())
	}
}

// TestDiskMem: other file systems are measured without O_DIRECT.
func TestDiskMem(t *testing.T) {
	m := disk.NewMem(1)
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	d := small("/d")
	d.FS = m
	r, err := RunDisk(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Speeds) != 6 {
		t.Errorf("got %d speeds, want 6", len(r.Speeds))
	}
	empty(t, m, "/d")
}

// TestDiskFull: a run that meets an error cleans up and says which.
func TestDiskFull(t *testing.T) {
	m := disk.NewMem(1)
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	d := small("/d")
	d.FS = disk.NewFault(m, func(op disk.Op, name string) error {
		if op == disk.OpWrite && strings.HasSuffix(name, "-b") {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := RunDisk(t.Context(), d); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	empty(t, m, "/d")
	d.FS = m
	m.SetCapacity(1 << 10)
	if _, err := RunDisk(t.Context(), d); err == nil || !strings.Contains(err.Error(), "bytes free") {
		t.Errorf("got %v, want no room", err)
	}
}

// TestDiskCancelled: a cancelled run removes its files.
func TestDiskCancelled(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	d := small(dir)
	calls := 0
	d.Progress = func(string) {
		if calls++; calls == 3 {
			cancel()
		}
	}
	if _, err := RunDisk(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	empty(t, disk.OS(), dir)
}

// TestDiskBudget: what doesn't fit into the time is cut down, and said to be.
func TestDiskBudget(t *testing.T) {
	d := small(t.TempDir())
	d.Bytes, d.Repeats, d.Budget = 64<<20, 1, time.Millisecond
	r, err := RunDisk(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if r.Bytes >= d.Bytes || !strings.Contains(strings.Join(r.Notes, "\n"), "Cut from 64MiB to ") {
		t.Errorf("got %d bytes, notes %q", r.Bytes, r.Notes)
	}
}

func TestDiskRejects(t *testing.T) {
	dir := t.TempDir()
	for name, change := range map[string]func(*Disk){
		"no directory": func(d *Disk) { d.Dirs = nil }, "twice": func(d *Disk) { d.Dirs = []string{dir, dir} },
		"chunk": func(d *Disk) { d.Chunks = []int{1000} }, "large": func(d *Disk) { d.Chunks = []int{64 << 10} },
		"alpha": func(d *Disk) { d.Alpha = 0 }, "missing": func(d *Disk) { d.Dirs = []string{dir + "/none"} },
	} {
		d := small(dir)
		change(&d)
		if _, err := RunDisk(t.Context(), d); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := os.Stat(dir + "/none"); err == nil {
		t.Error("the missing directory was made")
	}
}
