package disk

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
	"drumbeat/disk/memfs"
)

// small returns options for a very short run.
func small(dirs ...string) Options {
	return Options{Dirs: dirs, Bytes: 64 << 10, Chunks: []int{4 << 10, 16 << 10}, Repeats: 2,
		Streams: []int{3}, Blocks: []int{4 << 10, 8 << 10}}
}

// empty fails the test if a directory contains files.
func empty(t *testing.T, f disk.FS, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if names, err := f.List(dir); err != nil || len(names) > 0 {
			t.Errorf("%s: got %q, %v, want it empty", dir, names, err)
		}
	}
}

// TestDisk: every kind of access is measured in each directory and in all together; lines are Go
// benchmarks; no file remains.
func TestDisk(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	d := small(dirs...)
	r, err := d.Measure(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	empty(t, disk.OS(), dirs...)
	direct := !strings.Contains(strings.Join(r.Notes, "\n"), "has no O_DIRECT")
	if want := 3 * len(d.ways(direct)) * d.Repeats; len(r.Lines) != want {
		t.Errorf("got %d lines, want %d", len(r.Lines), want)
	}
	if len(d.ways(true)) != 2*2*3+2*(2+2) || len(d.ways(false)) != 2*3+2+2 {
		t.Errorf("got %d and %d ways", len(d.ways(true)), len(d.ways(false)))
	}
	line := regexp.MustCompile(
		`^BenchmarkDisk/op=(write|read|mixed)/chunk=(4|8|16)KiB/streams=[13]/direct=(true|false)/dir=(0|1|all) `)
	for _, l := range r.Lines {
		chunk, files, want := 16<<10, 1, int64(64<<10)
		switch {
		case strings.Contains(l.Name, "chunk=4KiB"):
			chunk = 4 << 10
		case strings.Contains(l.Name, "chunk=8KiB"):
			chunk = 8 << 10
		}
		if strings.Contains(l.Name, "streams=3") {
			files = 3
		}
		want = want / int64(chunk*files) * int64(chunk*files)
		if strings.HasSuffix(l.Name, "/dir=all") {
			want *= 2
		}
		if !line.MatchString(l.String()) || l.N*int64(chunk) != want || l.Metrics[0].Value <= 0 ||
			l.Metrics[1].Value <= 0 {
			t.Errorf("got %q, want %d bytes", l, want)
		}
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Directories 0 and 1 are on one file system",
		"Best of directory all with one file: W = ", "Best of directory all with 3 files: W = "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q isn't in\n%s", want, b.String())
		}
	}
	if names, err := r.Save(t.TempDir()); err != nil || len(names) != 2 {
		t.Errorf("got %q, %v, want text and JSON", names, err)
	}
}

// TestDiskMem: other file systems are measured without O_DIRECT.
func TestDiskMem(t *testing.T) {
	m := memfs.New(1)
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	d := small("/d")
	d.FS = m
	r, err := d.Measure(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if want := d.Repeats * len(d.ways(false)); len(r.Lines) != want {
		t.Errorf("got %d lines, want %d", len(r.Lines), want)
	}
	empty(t, m, "/d")
}

// TestDiskFull: a run that fails removes its files and names the error.
func TestDiskFull(t *testing.T) {
	m := memfs.New(1)
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	d := small("/d")
	d.FS = memfs.NewFault(m, func(op memfs.Op, name string) error {
		if op == memfs.OpWrite && strings.HasSuffix(name, "-b") {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := d.Measure(t.Context(), func(string) {}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	empty(t, m, "/d")
	d.FS = m
	m.SetCapacity(1 << 10)
	_, err := d.Measure(t.Context(), func(string) {})
	if err == nil || !strings.Contains(err.Error(), "choose a smaller --size") {
		t.Errorf("got %v, want no room", err)
	}
}

// TestDiskCancelled: a cancelled run removes its files.
func TestDiskCancelled(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	d := small(dir)
	calls := 0
	progress := func(string) {
		if calls++; calls == 3 {
			cancel()
		}
	}
	if _, err := d.Measure(ctx, progress); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	empty(t, disk.OS(), dir)
}

// TestDiskBudget: sizes are reduced to fit the time, and a note says so.
func TestDiskBudget(t *testing.T) {
	d := small(t.TempDir())
	d.Bytes, d.Repeats, d.Budget = 64<<20, 1, time.Millisecond
	r, err := d.Measure(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "instead of 64MiB, to fit --time 1ms") {
		t.Errorf("got notes %q", r.Notes)
	}
}

func TestDiskRejects(t *testing.T) {
	dir := t.TempDir()
	for name, change := range map[string]func(*Options){
		"no directory": func(d *Options) { d.Dirs = nil }, "twice": func(d *Options) { d.Dirs = []string{dir, dir} },
		"chunk": func(d *Options) { d.Chunks = []int{1000} }, "large": func(d *Options) { d.Chunks = []int{64 << 10} },
		"block": func(d *Options) { d.Blocks = []int{5000} }, "one stream": func(d *Options) { d.Streams = []int{1} },
		"streams": func(d *Options) { d.Streams = []int{5000} },
		"missing": func(d *Options) { d.Dirs = []string{dir + "/none"} },
	} {
		d := small(dir)
		change(&d)
		if _, err := d.Measure(t.Context(), func(string) {}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := os.Stat(dir + "/none"); err == nil {
		t.Error("the missing directory was made")
	}
}

// TestSpeeds: each directory is measured, a missing one reports why, and nothing is left.
func TestSpeeds(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	got := Speeds(t.Context(), []string{a, b, b + "/none"}, 4<<20, time.Minute)
	for i, v := range got[:2] {
		if v.Err != nil || v.Write <= 0 || v.Read <= 0 {
			t.Errorf("directory %d: got %+v", i, v)
		}
	}
	if got[2].Err == nil {
		t.Error("a missing directory was measured")
	}
	for _, dir := range []string{a, b} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v, want an empty directory", left, err)
		}
	}
}
